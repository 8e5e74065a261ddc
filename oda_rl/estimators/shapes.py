"""Clusters of elliptic shapes: the cells of a path merged, and mixtures of Gaussians begun with them.

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
from oda_rl._types import Array, Labels
from oda_rl.codebook.schedule import PathPoint

# Shapes are chosen on so many samples, or so many for each codevector if that is more.
MOST_SAMPLES, SAMPLES_PER_CELL = 2000, 20
# Cells that are merged, and codebooks of the path that are tried, at most.
MOST_CELLS, MOST_CODEBOOKS = 50, 100
# Of each family so many partitions go through so many turns; then the best mixture goes on.
TRIED, TURNS, MORE_TURNS = 4, 5, 20
# A covariance of a cluster is that of its samples and so many more, of the mean variances of the cells.
PRIOR = 1.0
# What is added to variances, as parts of those of the cells, and of the mean variance of all features.
FLOOR, LEAST = 1e-3, 1e-9
# Principal components are found all at once of so many samples or features, a few of more.
SMALL = 300
FAMILIES = ("full", "tied", "round")


class Shapes(NamedTuple):
    """Clusters as a mixture of Gaussians.

    `centres` (k, n_features); `whiten` (k, n_features, r), or (1, n_features, r) where all have the same
    shape: the deviations of a cluster times its matrix have unit covariance; `log_weights` (k,), the
    logarithms of the clusters' shares and of the determinants of their matrices.
    """

    centres: Array
    whiten: Array
    log_weights: Array

    def log_densities(self, samples: Array) -> Array:
        """Logarithms of share times density, but for a constant: (n_samples, k) of samples (n, d)."""
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
        """Without the clusters that are the likeliest of no sample."""
        seen = np.unique(self.predict(samples))
        whiten = self.whiten if len(self.whiten) == 1 else self.whiten[seen]
        return Shapes(self.centres[seen], whiten, self.log_weights[seen])


def _have_a_shape(found: Any, sizes: Sizes) -> None:
    """One matrix for all of the clusters, or for each of them."""
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
    """Of groups of samples: `mass` (k,), `mean` (k, d), and the scatter about the means.

    `scatter` is (k, d, d), or (1, d, d) if it is the sum over the groups.
    """

    mass: Array
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, samples: Array, share: Array, each: bool) -> "_Moments":
        """Of samples (n, d) with shares (n, k) in the groups; the scatter of `each`, or the sum."""
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
        """Of group `i` together with each of `others`."""
        mass = self.mass[i] + self.mass[others]
        part, way = self.mass[others] / mass, self.mean[others] - self.mean[i]
        between = (part * self.mass[i])[:, None, None] * way[:, :, None] * way[:, None, :]
        mean = self.mean[i] + part[:, None] * way
        return _Moments(mass, mean, self.scatter[i] + self.scatter[others] + between)


class _Family:
    """Which covariances clusters may have: each its own (full), all one (tied), or one that is round."""

    def __init__(self, kind: str, variances: Array) -> None:
        self.kind, self._variances = kind, variances
        self.each = kind == "full"

    def penalty(self, k: int, total: float) -> float:
        """Half the parameters of k clusters, times log n: what the BIC takes off a likelihood."""
        d = len(self._variances)
        own = {"full": k * d * (d + 1) / 2, "tied": d * (d + 1) / 2, "round": 1}[self.kind]
        return 0.5 * (own + k * d + k - 1) * float(np.log(total))

    def covariances(self, moments: _Moments) -> Array:
        """Of groups, (k, d, d), or (1, d, d) of all of them."""
        variances, d = self._variances, len(self._variances)
        floor = np.diag(FLOOR * variances) + LEAST * np.eye(d)
        if self.each:
            more = PRIOR * np.diag(variances)
            return np.asarray(floor + (moments.scatter + more) / (moments.mass + PRIOR)[:, None, None])
        within = moments.scatter / moments.mass.sum()
        if self.kind == "round":
            within = np.trace(within[0]) / d * np.eye(d)[None]
        return np.asarray(floor + within)

    def log_likelihood(self, moments: _Moments, total: float) -> Array:
        """Of the samples of each group (k,), in it alone, `total` samples in all; but for a constant."""
        log_det = np.linalg.slogdet(self.covariances(moments))[1]
        return np.asarray(moments.mass * (np.log(moments.mass / total) - 0.5 * log_det))

    def shapes(self, moments: _Moments) -> Shapes:
        """The mixture of groups with these moments."""
        whiten = np.swapaxes(np.linalg.inv(np.linalg.cholesky(self.covariances(moments))), 1, 2)
        log_det = np.log(np.diagonal(whiten, axis1=1, axis2=2)).sum(axis=1)
        return Shapes(moments.mean, whiten, np.log(moments.mass / moments.mass.sum()) + log_det)


class _Start(NamedTuple):
    """A partition of the samples (n,) in k groups, and its score as clusters of the family."""

    score: float
    labels: Labels
    k: int
    family: _Family


def _merges(moments: _Moments, family: _Family) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Groups merged, the two that lose least first: the cluster of each group, and the likelihood."""
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
    share = np.zeros((len(labels), k))
    share[np.arange(len(labels)), labels] = weight
    return share


def _starts(samples: Array, weight: Array, path: Sequence[Array]) -> Iterator[_Start]:
    """The cells of the path, and those of the finest codebook merged, with their scores."""
    total = float(weight.sum())
    hard: dict[int, NDArray[np.int64]] = {}
    for codevectors in path:
        product = samples @ codevectors.T - 0.5 * (codevectors**2).sum(axis=1)
        labels = np.unique(product.argmax(axis=1), return_inverse=True)[1]
        hard[labels.max() + 1] = labels
    k = max((k for k in hard if k <= MOST_CELLS), default=min(hard))
    moments = _Moments.of(samples, _shares(hard[k], k, weight), each=True)
    variances = np.diagonal(moments.scatter.sum(axis=0)) / total
    full, tied, round_ = (_Family(kind, variances) for kind in FAMILIES)
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
    """Minus half the BIC, shares of the samples (n, k), and the mixture that gives them."""

    score: float
    share: Array
    shapes: Shapes


def _refined(
    samples: Array, weight: Array, share: Array, family: _Family, turns: int = TURNS
) -> _Mixture:
    """Turns of expectation and maximisation, from shares (n, k) of the samples."""
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
    """The mixture with two and two of its clusters made one, as long as the BIC gets better."""
    while mixture.share.shape[1] > 1:
        moments = _Moments.of(samples, mixture.share, each=True)
        cluster = next(own for own, _ in _merges(moments, family) if own.max() + 2 == len(own))
        share = mixture.share @ np.eye(cluster.max() + 1)[cluster]
        fewer = _refined(samples, weight, share, family)
        if fewer.score <= mixture.score:
            break
        mixture = fewer
    return mixture


def _best(samples: Array, weight: Array, path: Sequence[Array]) -> Shapes:
    """The mixture with the least BIC, of normalised samples."""
    starts = sorted(_starts(samples, weight, path), key=lambda start: -start.score)
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
    """Orthonormal directions (n_features, r) in which clusters are told apart.

    All of the space, but where one covariance has more numbers than there are samples: then as many
    principal components as have a covariance of a tenth as many numbers.
    """
    n, d = samples.shape
    if d * (d + 3) / 2 <= n:
        return np.eye(d)
    r = min(max(1, int(np.sqrt(2.25 + n / 5) - 1.5)), min(n, d) - 1)
    weighed = samples * np.sqrt(weight)[:, None]
    if min(n, d) <= SMALL:
        return np.asarray(np.linalg.svd(weighed, full_matrices=False)[2][:r].T)
    # a start of equal numbers is lost where samples are: they are centred
    start = np.random.default_rng(0).normal(size=min(n, d))
    return np.asarray(svds(weighed, k=r, v0=start)[2][::-1].T)


def find_shapes(history: Sequence[PathPoint], samples: Array, weight: Array) -> Shapes | None:
    """The mixture of Gaussians with the least BIC among those that begin with the codebooks of a path.

    Beginnings are the cells of the path, and the cells of its finest codebook merged, the two first that
    lose least likelihood as one cluster with a covariance of its own. Covariances are each cluster's
    own, one for all, or one for all that is round; each family scores all partitions by their
    likelihoods, and improves the best by expectation and maximisation; clusters of their own covariances
    are merged further while the BIC gets better. There are sqrt(n / 2) clusters at most.

    Parameters
    ----------
    history : sequence of PathPoint
        The path of an annealing by squared Euclidean distances.
    samples : ndarray of shape (n_samples, n_features)
        In the units of the path.
    weight : ndarray of shape (n_samples,)
        Their weights, positive.

    Returns
    -------
    Shapes or None
        In the units of the path; None where samples do not differ, or no codebook is so small.
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
    centres, whiten, log_weights = _best(part @ turn, mass, books)
    return Shapes(mean + unit * centres @ turn.T, turn @ whiten / unit, log_weights)
