"""Clusters of an `ODAPartition`: their number, from shapes or from the path, and merged cells."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.association import SQUARED_EUCLIDEAN, all_associations
from oda_rl.codebook.schedule import Level, PathPoint
from oda_rl.estimators.hard_path import KEPT_NUMBERS
from oda_rl.estimators.shapes import Shapes, find_shapes

# Least number of samples in a cluster, or a tenth of all samples if that is less
FEW_SAMPLES = 30
# Clusters with less flow between them, in units of the flow between neighbouring cells, are separate
LEAST_BRIDGE = 0.12
# Larger than the strength of any link: links between separate clusters rank after all others
LAST = 1e3


class _Asked(NamedTuple):
    """Samples, in the units of the path, and weights, kept for finding the clusters later.

    `labelled` are the samples whose clusters are wanted: those, or more.
    """

    samples: Array
    weight: Array
    labelled: Array


def _lasting_counts(history: Sequence[PathPoint | Level]) -> NDArray[np.int64]:
    """For each record, the least number of codevectors from it to the end of the path.

    In a stream, cells may split too early and merge again; only cells that stay to the end count.
    """
    counts = [point.n_codevectors for point in history]
    return np.asarray(np.minimum.accumulate(counts[::-1])[::-1], dtype=np.int64)


def choose_clusters(
    history: Sequence[PathPoint | Level], critical: float, n_samples: int, max_clusters: int
) -> int:
    """Choose the number of clusters from the path of an annealing alone.

    If there are K clusters, the codebook has K codevectors at all temperatures between the scale of the
    distances between clusters and that of their widths. So K codevectors have the score
    log(T_K / T_(K+1)) sqrt(log K): the range of temperatures over which K stays (Rose 1998), with a
    small bonus for larger K, because the finer of nested clusters have a smaller range. The best score
    among 2 to sqrt(n / 2) codevectors wins.

    Parameters
    ----------
    history : sequence of PathPoint or Level
        One record per temperature.
    critical : float
        The temperature below which the first cell of the last codebook would split.
    n_samples : int
        Number of samples that were learned from.
    max_clusters : int
        Largest number of clusters allowed.

    Returns
    -------
    int
        1 if the path has no codebook with several codevectors.
    """
    first: dict[int, float] = {}
    for point, k in zip(history, _lasting_counts(history).tolist(), strict=True):
        first.setdefault(k, point.temperature)
    if len(first) == 0:
        return 1
    counts = np.array(sorted(first))
    begin = np.array([first[k] for k in counts])
    end = np.append(begin[1:], min(begin[-1], max(critical, 1e-300)))
    score = np.log(begin / end) * np.sqrt(np.log(counts))
    most = min(max_clusters, max(2, int(np.sqrt(n_samples / 2))))
    score[(counts < 2) | (counts > most)] = -1.0
    if not score.max() > 0.0:
        return 1
    return int(counts[score.argmax()])


def _joined(flow: Array, size: Array, gap: Array, n_clusters: int | None) -> NDArray[np.int64]:
    """Cluster number of each cell (n,), from flows and distances (n, n) between cells and sizes (n,)."""
    cluster = np.arange(len(size))
    few = min(FEW_SAMPLES, size.sum() / 10)
    link = flow / np.sqrt(np.multiply.outer(size, size))
    typical = max(np.median(link.max(axis=1, initial=0.0)) * np.sqrt(size.mean()), 1e-300)
    while len(size) > (n_clusters or 1):
        # The small last term makes the closest clusters merge if there is no flow between any two.
        strength = flow / np.multiply.outer(size, size) ** 0.75 - 1e-9 * gap / max(gap.max(), 1e-300)
        smaller = np.minimum.outer(size, size)
        apart = (flow < LEAST_BRIDGE * typical * np.sqrt(smaller)) & (smaller >= few)
        strength -= LAST * apart
        np.fill_diagonal(strength, -np.inf)
        i, j = sorted(np.unravel_index(strength.argmax(), strength.shape))
        if n_clusters is None and apart[i, j]:
            break
        flow[i] += flow[j]
        flow[:, i] += flow[:, j]
        gap[i] = gap[:, i] = np.minimum(gap[i], gap[j])
        size[i] += size[j]
        flow, gap = (np.delete(np.delete(one, j, 0), j, 1) for one in (flow, gap))
        size = np.delete(size, j)
        cluster[cluster == j] = i
        cluster -= cluster > j
    return cluster


class ClustersMixin:
    """Clusters of an `ODAPartition`: elliptic after `fit` with squared distances, else by its path."""

    _lazy_attributes: ClassVar[tuple[str, ...]] = ("n_clusters_", "labels_")
    n_clusters_: int
    labels_: NDArray[np.int64]
    _asked: _Asked | None = None
    _shapes: Shapes | None = None
    _counted: tuple[int, int]  # number of finished temperatures, and of clusters found from them
    codevectors_: Array
    weights_: Array
    temperature_: float
    _run: Any
    _divergence: Any
    _scaled: Any
    _check_again: Any
    _locate: Any

    def predict_clusters(self, X: ArrayLike) -> NDArray[np.int64]:
        """The cluster of every sample.

        After `fit` with squared Euclidean distances, this is the likeliest component of a mixture of
        Gaussians (see `oda_rl.estimators.shapes`). For a stream, or with another divergence, it is the
        nearest codevector of the first codebook on the path with `n_clusters_` codevectors that stay
        to its end (for how that number is chosen see `oda_rl.estimators.clusters`).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,), int64
            Cluster numbers below `n_clusters_`.
        """
        samples = self._check_again(X)
        self._set_lazy_attributes()
        return self._clusters_of(self._scaled(samples))

    def association(self, X: ArrayLike) -> Array:
        """Association probabilities p(mu_i | x) at the present temperature (eq. 13).

        For samples X (n_samples, n_features) the result has shape (n_samples, n_codevectors); its rows
        sum to one.
        """
        samples = self._scaled(self._check_again(X))
        location, k = self._locate(self.codevectors_)
        result = np.empty((len(samples), k))
        kind, temperature = self._divergence.kind, self.temperature_
        all_associations(kind, samples, location, self.weights_, k, temperature, result)
        return result

    def predict_at(self, X: ArrayLike, temperature: float) -> NDArray[np.int64]:
        """The cell of every sample in the codebook that the annealing had at a given temperature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        temperature : float
            Selects the last record of `history_` whose temperature is not lower.

        Returns
        -------
        ndarray of shape (n_samples,), int64
            Row indices of that record's `codevectors`.

        Raises
        ------
        ValueError
            If the temperature is negative, or the path begins below it.
        """
        samples, path = self._check_again(X), self._run.history
        hot = [point for point in path if point.temperature >= temperature]
        if not hot or temperature < 0.0:
            highest = max((point.temperature for point in path), default=-np.inf)
            raise ValueError(f"temperature must be from 0 to {highest:g}, got {temperature!r}.")
        return self._nearest(self._scaled(samples), hot[-1])

    def merge_cells(self, X: ArrayLike, n_clusters: int | None = None) -> NDArray[np.int64]:
        """Merge cells into clusters of any shape, if samples lie as densely between cells as in them.

        The flow between two cells is the number of samples in either of them whose second nearest
        codevector is the other's, and which lie more than a quarter of the way towards it. The two
        clusters with the largest flow / (n_i n_j)^(3/4) are merged, with n_i the number of samples in
        a cluster, until `n_clusters` are left. By default merging ends when the flow between any two
        clusters is less than 0.12 times the typical flow between neighbouring cells, times the square
        root of the size of the smaller cluster, in cells.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, usually those of `fit`; about thirty per codevector are needed.
        n_clusters : int, optional
            The number of clusters, from 1 to the number of codevectors; found if not given.

        Returns
        -------
        ndarray of shape (n_codevectors,), int64
            The cluster of each cell. The clusters of samples are `merge_cells(X)[predict(X)]`.

        Raises
        ------
        ValueError
            If `n_clusters` is out of range.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from oda_rl import ODAPartition
        >>> X, moon = make_moons(500, noise=0.05, random_state=0)
        >>> model = ODAPartition(max_codevectors=20, random_state=0).fit(X)
        >>> found = model.merge_cells(X)[model.predict(X)]
        >>> bool((found == moon).all() or (found != moon).all())
        True
        """
        samples = self._scaled(self._check_again(X))
        codevectors, k = self._scaled(self.codevectors_), len(self.codevectors_)
        if n_clusters is not None and not 1 <= n_clusters <= k:
            raise ValueError(
                f"n_clusters must be from 1 to {k}, the number of codevectors, got {n_clusters!r}."
            )
        nearest = np.argsort(self._divergence(samples, codevectors), axis=1)
        own, other = nearest[:, 0], nearest[:, min(1, k - 1)]
        way = codevectors[other] - codevectors[own]
        along = ((samples - codevectors[own]) * way).sum(axis=1)
        between = along > 0.25 * (way**2).sum(axis=1)
        flow, size = np.zeros((k, k)), np.maximum(np.bincount(own, minlength=k), 1.0)
        np.add.at(flow, (own[between], other[between]), 1.0)
        gap = self._divergence(codevectors, codevectors)
        return _joined(flow + flow.T, size, gap + gap.T, n_clusters)

    def __getstate__(self) -> Any:
        self._set_lazy_attributes()  # drops the samples, so that they are not pickled
        return super().__getstate__()

    def _set_lazy_attributes(self) -> None:
        """Find the clusters now, if that was postponed by `_cluster`."""
        asked = self._asked
        if asked is not None:
            self._shapes = find_shapes(self._run.history, asked.samples, asked.weight)
            self._set_clusters(asked)
            self._asked = None

    def _cluster(self, samples: Array, weight: Array, labelled: Array) -> None:
        """Find the clusters of samples in the units of the data, or postpone it to the first use.

        The labels are those of `labelled`: the same array, or all samples if some have no weight.
        """
        self._forget_clusters()
        same, samples = labelled is samples, self._scaled(samples)
        asked = _Asked(samples, weight, samples if same else self._scaled(labelled))
        if self._divergence.kind != SQUARED_EUCLIDEAN:
            self._set_clusters(asked)
        elif asked.labelled.size > KEPT_NUMBERS:
            self._asked = asked
            self._set_lazy_attributes()
        else:
            own = samples.copy()
            self._asked = _Asked(own, weight.copy(), own if same else asked.labelled.copy())

    def _set_clusters(self, asked: _Asked) -> None:
        shapes = self._shapes
        self.n_clusters_ = self._counted[1] if shapes is None else len(shapes.centres)
        self.labels_ = self._clusters_of(asked.labelled)

    def _forget_clusters(self) -> None:
        self._asked = self._shapes = None
        for name in ClustersMixin._lazy_attributes:
            self.__dict__.pop(name, None)

    def _clusters_of(self, samples: Array) -> NDArray[np.int64]:
        """The cluster numbers of samples in the units of the path."""
        if self._shapes is not None:
            return self._shapes.predict(samples)
        if self.n_clusters_ == 1:
            return np.zeros(len(samples), dtype=np.int64)
        path = self._run.history
        lasting = zip(path, _lasting_counts(path).tolist(), strict=True)
        found = next(point for point, k in lasting if k == point.n_codevectors == self.n_clusters_)
        return self._nearest(samples, found)

    def _nearest(self, samples: Array, point: PathPoint) -> NDArray[np.int64]:
        return np.asarray(self._divergence(samples, point.codevectors).argmin(axis=1))

    def _count_clusters(self, annealer: Annealer, n_samples: int) -> tuple[int, int]:
        """The number of finished temperatures, and that of clusters by them."""
        book, path = annealer.codebook, annealer.history
        critical = float(book.critical_temperatures.max())
        return len(path), choose_clusters(path, critical, n_samples, len(book))
