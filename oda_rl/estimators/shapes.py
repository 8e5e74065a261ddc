"""Elliptic clusters: mixtures of Gaussians that start from the cells of a path, or merged cells.

References
----------
C. Fraley and A. E. Raftery, "How many clusters? Which clustering method? Answers via model-based cluster
analysis", The Computer Journal 41 (1998), for mergers, families of covariances and the BIC.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from oda_rl._schema import Rules, Sizes, expect
from oda_rl._statistics import gaps_of_repeated
from oda_rl._types import Array, Labels
from oda_rl.codebook.schedule import PathPoint

# Number of samples on which shapes are chosen, or number per codevector if that gives more.
MOST_SAMPLES, SAMPLES_PER_CELL = 2000, 20
# Largest number of cells that are merged, and of codebooks of the path that are tried.
MOST_CELLS, MOST_CODEBOOKS = 50, 100
# The TRIED best partitions of each family get TURNS turns of EM; the best mixture gets MORE_TURNS.
TRIED, TURNS, MORE_TURNS = 4, 5, 20
# Weight, in samples, of the mean variances of the cells in the covariance of a cluster.
PRIOR = 1.0
# Added to variances, as parts of the variances of the cells and of the mean variance of all features.
FLOOR, LEAST = 1e-3, 1e-9
# Features of which most values are repeated are rounded or categories. This part of the square of the
# gap between values is added to variances: else the density of a cluster of one value is unbounded.
GRAIN = 0.1
# Up to this many samples or features, principal components come from a full SVD, else a partial one.
SMALL = 300
FAMILIES = ("full", "tied", "round")


class Shapes(NamedTuple):
    """Clusters as a mixture of Gaussians.

    `centres` is (k, n_features). `whiten` is (k, n_features, r), or (1, n_features, r) if all clusters
    have the same shape: the deviations of a cluster times its matrix have unit covariance.
    `log_weights` (k,) are the logarithms of the clusters' shares times the determinants of the matrices.
    """

    centres: Array
    whiten: Array
    log_weights: Array

    def log_densities(self, samples: Array) -> Array:
        """Logarithms of share times density, up to a constant, as (n, k) for samples (n, d)."""
        if len(self.whiten) == 1:
            origin = self.centres[0]
            x, centres = (samples - origin) @ self.whiten[0], (self.centres - origin) @ self.whiten[0]
            product = x @ centres.T - 0.5 * (centres**2).sum(axis=1)
            return np.asarray(product - 0.5 * (x**2).sum(axis=1)[:, None] + self.log_weights)
        found = np.empty((len(samples), len(self.centres)))
        for i, (centre, own) in enumerate(zip(self.centres, self.whiten, strict=True)):
            found[:, i] = self.log_weights[i] - 0.5 * (((samples - centre) @ own) ** 2).sum(axis=1)
        return found

    def predict(self, samples: Array) -> NDArray[np.int64]:
        """The likeliest cluster (n_samples,) of samples (n_samples, n_features)."""
        parts = np.array_split(samples, 1 + len(samples) // 10_000)
        return np.concatenate([self.log_densities(part).argmax(axis=1) for part in parts])

    def seen_in(self, samples: Array) -> "Shapes":
        """Drop the clusters that are not the likeliest one of any sample."""
        seen = np.unique(self.predict(samples))
        whiten = self.whiten if len(self.whiten) == 1 else self.whiten[seen]
        return Shapes(self.centres[seen], whiten, self.log_weights[seen])


def _have_a_shape(found: Any, sizes: Sizes) -> None:
    """A rule: there is one matrix for all clusters, or one for each."""
    n, k = len(found["whiten"]), sizes["clusters"]
    expect(n in (1, k), "whiten", f"has {n} matrices", f"1 or {k}")


SCHEMA = Rules(
    {
        "centres": "float[clusters, d]",
        "whiten": "float[shapes, d, directions]",
        "log_weights": "float[clusters]",
    },
    _have_a_shape,
)


class _Moments(NamedTuple):
    """Moments of groups of samples: `mass` (k,), `mean` (k, d), and the scatter about the means.

    `scatter` is (k, d, d), or (1, d, d) if it is the sum over the groups.
    """

    mass: Array
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, samples: Array, share: Array, each: bool) -> "_Moments":
        """From samples (n, d) with shares (n, k) in the groups; the scatter of `each`, or the sum."""
        d = samples.shape[1]
        mass = np.maximum(share.sum(axis=0), 1e-12)
        mean = share.T @ samples / mass[:, None]
        if not each:
            square = (samples * share.sum(axis=1, keepdims=True)).T @ samples
            return cls(mass, mean, (square - (mean * mass[:, None]).T @ mean)[None])
        scatter = np.empty((len(mass), d, d))
        for i, centre in enumerate(mean):
            own = share[:, i] > 0.0
            away = samples[own] - centre
            scatter[i] = (away * share[own, i, None]).T @ away
        return cls(mass, mean, scatter)

    def joined(self, i: int, others: NDArray[np.int64]) -> "_Moments":
        """The moments of group `i` merged with each of `others` in turn."""
        mass = self.mass[i] + self.mass[others]
        part, way = self.mass[others] / mass, self.mean[others] - self.mean[i]
        between = (part * self.mass[i])[:, None, None] * way[:, :, None] * way[:, None, :]
        mean = self.mean[i] + part[:, None] * way
        return _Moments(mass, mean, self.scatter[i] + self.scatter[others] + between)


class _Family:
    """The covariances of clusters: each its own ("full"), one for all ("tied"), or one "round" one."""

    def __init__(self, kind: str, variances: Array, grain: Array) -> None:
        self.kind, self.each, self._variances = kind, kind == "full", variances
        self._floor = np.diag(FLOOR * variances) + LEAST * np.eye(len(variances)) + grain

    def penalty(self, k: int, total: float) -> float:
        """Half the number of parameters of k clusters times log n: the BIC's penalty of a likelihood."""
        d = len(self._variances)
        own = {"full": k * d * (d + 1) / 2, "tied": d * (d + 1) / 2, "round": 1}[self.kind]
        return 0.5 * (own + k * d + k - 1) * float(np.log(total))

    def covariances(self, moments: _Moments) -> Array:
        """The covariances of the groups, (k, d, d), or that of all groups, (1, d, d)."""
        if self.each:
            more = PRIOR * np.diag(self._variances)
            return np.asarray(
                self._floor + (moments.scatter + more) / (moments.mass + PRIOR)[:, None, None]
            )
        within = moments.scatter / moments.mass.sum()
        if self.kind == "round":
            within = np.trace(within[0]) / len(within[0]) * np.eye(len(within[0]))[None]
        return np.asarray(self._floor + within)

    def log_likelihood(self, moments: _Moments, total: float) -> Array:
        """Log-likelihood (k,) of each group's samples by its own Gaussian only, up to a constant.

        `total` is the weight of the samples of all groups.
        """
        log_det = np.linalg.slogdet(self.covariances(moments))[1]
        return np.asarray(moments.mass * (np.log(moments.mass / total) - 0.5 * log_det))

    def shapes(self, moments: _Moments) -> Shapes:
        """The mixture of Gaussians with the moments of these groups."""
        whiten = np.swapaxes(np.linalg.inv(np.linalg.cholesky(self.covariances(moments))), 1, 2)
        log_det = np.log(np.diagonal(whiten, axis1=1, axis2=2)).sum(axis=1)
        return Shapes(moments.mean, whiten, np.log(moments.mass / moments.mass.sum()) + log_det)


class _Start(NamedTuple):
    """A partition of the samples into k groups, `labels` (n,), and its score for the family."""

    score: float
    labels: Labels
    k: int
    family: _Family


def _merges(moments: _Moments, family: _Family) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Merge groups, in each step the two that lose the least likelihood.

    Yields the cluster of each group and the likelihood, first with nothing merged.
    """
    total, k = moments.mass.sum(), len(moments.mass)
    moments = _Moments(*(array.copy() for array in moments))
    own, gain = family.log_likelihood(moments, total), np.full((k, k), -np.inf)
    cluster, alive = np.arange(k), np.ones(k, dtype=bool)

    def compare(i: int, others: NDArray[np.int64]) -> None:
        both = family.log_likelihood(moments.joined(i, others), total)
        gain[np.minimum(i, others), np.maximum(i, others)] = both - own[i] - own[others]

    for i in range(k - 1):
        compare(i, np.arange(i + 1, k))
    yield cluster.copy(), float(own.sum())
    for _ in range(k - 1):
        i, j = (int(place) for place in np.unravel_index(gain.argmax(), gain.shape))
        both = moments.joined(i, np.array([j]))
        for array, joined in zip(moments, both, strict=True):
            array[i] = joined[0]
        own[i] = family.log_likelihood(both, total)[0]
        alive[j], cluster[cluster == j] = False, i
        gain[j], gain[:, j] = -np.inf, -np.inf
        yield np.unique(cluster, return_inverse=True)[1], float(own[alive].sum())
        compare(i, np.flatnonzero(alive & (np.arange(k) != i)))


def _shares(labels: Labels, k: int, weight: Array) -> Array:
    return np.asarray(np.eye(k)[labels] * weight[:, None])


def _starts(samples: Array, weight: Array, path: Sequence[Array], grain: Array) -> Iterator[_Start]:
    """Score the cells of each codebook of the path, and merged cells of the finest codebook."""
    total = float(weight.sum())
    hard: dict[int, NDArray[np.int64]] = {}
    for codevectors in path:
        product = samples @ codevectors.T - 0.5 * (codevectors**2).sum(axis=1)
        labels = np.unique(product.argmax(axis=1), return_inverse=True)[1]
        hard[labels.max() + 1] = labels
    k = max((k for k in hard if k <= MOST_CELLS), default=min(hard))
    moments = _Moments.of(samples, _shares(hard[k], k, weight), each=True)
    variances = np.diagonal(moments.scatter.sum(axis=0)) / total
    full, tied, round_ = (_Family(kind, variances, grain) for kind in FAMILIES)
    partitions = list(hard.items())
    for cluster, likelihood in _merges(moments, full):
        labels, k = cluster[hard[len(cluster)]], int(cluster.max()) + 1
        partitions.append((k, labels))
        yield _Start(likelihood - full.penalty(k, total), labels, k, full)
    for k, labels in partitions:
        moments = _Moments.of(samples, _shares(labels, k, weight), each=False)
        for family in (tied, round_):
            score = family.log_likelihood(moments, total).sum() - family.penalty(k, total)
            yield _Start(float(score), labels, k, family)


class _Mixture(NamedTuple):
    """A mixture with its score, which is minus half the BIC, and its shares of the samples (n, k)."""

    score: float
    share: Array
    shapes: Shapes


def _refined(
    samples: Array, weight: Array, share: Array, family: _Family, turns: int = TURNS
) -> _Mixture:
    """Improve a mixture by turns of expectation and maximisation, from shares (n, k) of the samples."""
    for _ in range(turns + 1):
        shapes = family.shapes(_Moments.of(samples, share, family.each))
        found = shapes.log_densities(samples)
        most = found.max(axis=1, keepdims=True)
        share = np.exp(found - most)
        total = share.sum(axis=1, keepdims=True)
        share *= weight[:, None] / total
    likelihood = float(weight @ (most + np.log(total))[:, 0])
    return _Mixture(likelihood - family.penalty(share.shape[1], float(weight.sum())), share, shapes)


def _merged(samples: Array, weight: Array, mixture: _Mixture, family: _Family) -> _Mixture:
    """Merge two clusters of a mixture at a time, as long as the BIC improves."""
    while mixture.share.shape[1] > 1:
        moments = _Moments.of(samples, mixture.share, each=True)
        cluster = next(own for own, _ in _merges(moments, family) if own.max() + 2 == len(own))
        share = mixture.share @ np.eye(cluster.max() + 1)[cluster]
        fewer = _refined(samples, weight, share, family)
        if fewer.score <= mixture.score:
            break
        mixture = fewer
    return mixture


def _best(samples: Array, weight: Array, path: Sequence[Array], grain: Array) -> Shapes:
    """The mixture with the least BIC for normalised samples."""
    starts = sorted(_starts(samples, weight, path, grain), key=lambda start: -start.score)
    found: list[tuple[_Mixture, _Family]] = []
    for kind in FAMILIES:
        for _, labels, k, family in [start for start in starts if start.family.kind == kind][:TRIED]:
            mixture = _refined(samples, weight, _shares(labels, k, weight), family)
            if family.each:
                mixture = _merged(samples, weight, mixture, family)
            found.append((mixture, family))
    best, family = max(found, key=lambda one: one[0].score)
    return _refined(samples, weight, best.share, family, MORE_TURNS).shapes.seen_in(samples)


def _directions(samples: Array, weight: Array) -> Array:
    """Orthonormal directions (n_features, r) in which the clusters are sought.

    They span the whole space, unless a mean and a covariance have more numbers than there are samples.
    Then they are the first r principal components, in which these have a tenth as many numbers.
    """
    n, d = samples.shape
    if d * (d + 3) / 2 <= n:
        return np.eye(d)
    r = min(max(1, int(np.sqrt(2.25 + n / 5) - 1.5)), min(n, d) - 1)
    weighed = samples * np.sqrt(weight)[:, None]
    if min(n, d) <= SMALL:
        return np.asarray(np.linalg.svd(weighed, full_matrices=False)[2][:r].T)
    # A random start vector, since one of equal numbers may be orthogonal to the centred samples.
    start = np.random.default_rng(0).normal(size=min(n, d))
    return np.asarray(svds(weighed, k=r, v0=start)[2][::-1].T)


def find_shapes(history: Sequence[PathPoint], samples: Array, weight: Array) -> Shapes | None:
    """The mixture of Gaussians with the least BIC among those that start from the codebooks of a path.

    The initial partitions are the cells of each codebook, and merged cells of the finest one: in each
    step the two clusters merge that lose the least likelihood, with a covariance for each. There are
    three families of covariances: one per cluster, one for all, and a round one for all. For each
    family all partitions are scored by their likelihoods, and the best are improved by expectation and
    maximisation; clusters with their own covariances are merged further while the BIC improves.
    There are at most sqrt(n / 2) clusters. Values that are rounded or categories are no clusters.

    Parameters
    ----------
    history : sequence of PathPoint
        The path of an annealing by squared Euclidean distances.
    samples : ndarray of shape (n_samples, n_features)
        In the units of the path.
    weight : ndarray of shape (n_samples,)
        Positive weights of the samples.

    Returns
    -------
    Shapes or None
        In the units of the path; None if all samples are equal, or every codebook is too large.
    """
    most = max(2, int(np.sqrt(len(samples) / 2)))
    path = {p.n_codevectors: p.codevectors for p in reversed(history) if p.n_codevectors <= most}
    if len(path) == 0:
        return None
    kept = np.linspace(0, len(path) - 1, MOST_CODEBOOKS).astype(np.int64)
    path = {k: path[k] for k in np.array(sorted(path))[np.unique(kept)].tolist()}
    wanted = max(MOST_SAMPLES, SAMPLES_PER_CELL * max(path))
    chosen = np.unique(np.linspace(0, len(samples) - 1, wanted).astype(np.int64))
    part, mass = samples[chosen], weight[chosen] / weight[chosen].mean()
    mean = mass @ part / mass.sum()
    unit = float(np.sqrt(np.mean(mass @ (part - mean) ** 2 / mass.sum())))
    if len(part) < 2 or not 0.0 < unit < np.inf:
        return None
    part = (part - mean) / unit
    turn = _directions(part, mass)
    books = [(codevectors - mean) / unit @ turn for codevectors in path.values()]
    grain = (turn.T * (GRAIN * gaps_of_repeated(part) ** 2)) @ turn
    centres, whiten, log_weights = _best(part @ turn, mass, books, grain)
    return Shapes(mean + unit * centres @ turn.T, turn @ whiten / unit, log_weights)
