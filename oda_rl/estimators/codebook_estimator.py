"""The uses of a fitted codebook: cells, divergences, distortion, densities."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from oda_rl._schema import Rules, Sizes, expect, some
from oda_rl._types import Array
from oda_rl._validation import numbers_of, warn_of_scales
from oda_rl.codebook.association import assign
from oda_rl.codebook.lloyd import cell_moments, mean_divergence
from oda_rl.density import box_around, cell_variances, histogram, log_density
from oda_rl.estimators.base import Estimator
from oda_rl.estimators.feature_scaling import UnitsMixin
from oda_rl.estimators.parameters import FORM
from oda_rl.estimators.targets import check_data, check_samples


def _some_weight(weights: Array, sizes: Sizes) -> None:
    """A rule: at least one cell has a positive weight."""
    expect(weights.sum() > 0.0, "", "sum to 0", "at least one positive weight")


# Schema of the entry "fitted" of `CodebookEstimator._get_state`.
FITTED = {
    "codevectors_": Rules("float[K, d]", some),
    "weights_": Rules("float[K] in [0, inf)", _some_weight),
    "spreads_": "float[K, d] in [0, inf)",
    "labels_?": "int[samples] in [0, K)",
    "inertia_?": "float in [0, inf)",
    "n_fitted_?": "count",
    "n_codevectors_": "count in [K, K]",
    "n_samples_seen_": "count",
    "n_distinct": "count",
}


class PartitionJudge(NamedTuple):
    """The codevectors by which samples are judged before they are learned from."""

    codevectors: Array

    def get_state(self) -> dict[str, Any]:
        """Return the fields as a dictionary, for a model file."""
        return self._asdict()


class CodebookEstimator(
    UnitsMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Estimator
):
    """Base class of clusterers with `codevectors_`, `weights_`, `spreads_` and a `divergence`."""

    codevectors_: Array
    weights_: Array
    spreads_: Array
    inertia_: float
    n_fitted_: int
    n_samples_seen_: int
    max_codevectors: int
    _n_repeated = 0  # those of `n_samples_seen_` that are not further samples behind the codebook

    # -- using a fitted codebook -----------------------------------------------------------------

    @property
    def cluster_centers_(self) -> Array:
        """The codevectors, under the name that scikit-learn's clusterers use."""
        return self.codevectors_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The cell of every sample: the index of the nearest codevector.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in the units of the training data.

        Returns
        -------
        ndarray of shape (n_samples,), int64
        """
        return self._cells(self._check_again(X))

    def transform(self, X: ArrayLike) -> Array:
        """The divergence of every sample from every codevector.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_codevectors)
            d(x, mu), which is the squared distance for `"squared_euclidean"`. With a `scale`, the
            divergence of x / scale from mu / scale.
        """
        return self._divergence(self._scaled(self._check_again(X)), self._scaled(self.codevectors_))

    def inverse_transform(self, X: ArrayLike) -> Array:
        """The codevector with the least divergence in each row: the quantized samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_codevectors)
            Divergences, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            If the rows do not have one divergence for each codevector.
        """
        check_is_fitted(self, "codevectors_")
        found, k = numbers_of(X, "X"), len(self.codevectors_)
        if found.ndim != 2 or found.shape[1] != k:
            raise ValueError(
                f"X must have one divergence for each of {k} codevectors, shape (n_samples, {k}), got "
                f"{found.shape}."
            )
        return np.asarray(self.codevectors_[found.argmin(axis=1)])

    def score(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the distortion, i.e. minus the mean divergence of samples from their codevectors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the mean.

        Returns
        -------
        float
            At most 0, in the units of the divergence; higher is better.
        """
        samples = self._check_again(X)
        weight = _check_sample_weight(sample_weight, samples, dtype=np.float64)
        return -float(mean_divergence(weight, self._assign(samples)[1]))

    def score_samples(self, X: ArrayLike) -> Array:
        """Logarithm of the density at every sample, by the histogram over the cells.

        The estimate of Theorem 4 of Mavridis and Baras ("Multi-Resolution Online Deterministic
        Annealing") is p(x) = p(mu_i) / Vol(S_i) for x in the cell S_i. The volume used here is that of
        the axis-parallel ellipsoid that, if filled uniformly, has the variances of the samples in the
        cell. This is exact in one dimension. (The volume of a Voronoi cell cannot be computed in many
        dimensions, and is infinite at the border of the data.) Outside the ellipsoid the density falls
        like a Gaussian with those variances, so that its logarithm is finite everywhere and outliers
        can be compared. More codevectors make the density sharper, but many samples per cell are needed:
        the variances of a cell with few of them are drawn towards those of the others (see
        `oda_rl.density.cell_variances`).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points at which to evaluate.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logarithms of the density, which is in the units of the features.
        """
        samples = self._check_again(X)
        nearest = self._cells(samples)
        codevectors, weights = self.codevectors_, self.weights_
        variances = cell_variances(codevectors, self.spreads_, weights, self._n_distinct)
        return log_density(samples, nearest, codevectors, variances, weights)

    def histogram_density(
        self, X: ArrayLike, box: ArrayLike | None = None, n_draws: int = 100_000, seed: int = 0
    ) -> tuple[Array, Array]:
        """The density at every sample by Theorem 4, with Voronoi cells cut off by a box.

        p(x) = p(mu_i) / Vol(S_i) for x in the cell S_i, and 0 outside the box; the integral over the box
        is one. `score_samples` uses ellipsoids instead of Voronoi cells, and needs no box and no draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points at which to evaluate.
        box : array-like of shape (2, n_features) or None, default=None
            Lower and upper ends of the box; by default estimated from the variances of the cells, with
            a width of one for a constant feature: the density is then that of the other features.
        n_draws : int, default=100_000
            Number of random points, uniform in the box, by which the volumes are estimated.
        seed : int, default=0
            Seed of the random points.

        Returns
        -------
        tuple of two ndarrays of shape (n_samples,)
            Densities in the units of the features, and their relative standard errors due to the draws.

        Raises
        ------
        ValueError
            If the box is invalid or `n_draws` is not positive.
        """
        samples = self._check_again(X)
        if box is None:
            box = box_around(self.codevectors_, self.spreads_, self._divergence.minimum)
        return histogram(samples, box, self._cells, self.weights_, n_draws, seed)

    # -- for the estimators ----------------------------------------------------------------------

    @property
    def _n_distinct(self) -> int:
        """The number of different samples behind the codebook: a fit presents its samples repeatedly."""
        return self.n_samples_seen_ - self._n_repeated

    def _get_state(self) -> dict[str, Any]:
        fitted = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and name not in (*FORM, "history_") and value is not None
        }
        fitted["n_distinct"] = self._n_distinct
        return {"fitted": fitted, "history": [list(point) for point in vars(self).get("history_", [])]}

    def _set_state(self, state: dict[str, Any]) -> None:
        fitted = dict(state["fitted"])
        self._n_repeated = fitted["n_samples_seen_"] - fitted.pop("n_distinct")
        for name, value in fitted.items():
            setattr(self, name, value)

    @property
    def _n_features_out(self) -> int:
        return len(self.codevectors_)

    def _geometry(self) -> Any:
        return self._divergence, self._scaled

    def _assign(
        self, samples: Array, codevectors: Array | None = None
    ) -> tuple[NDArray[np.int64], Array]:
        """The cells of samples, and divergences from them; `codevectors` replace the fitted ones."""
        n = len(samples)
        nearest, closest, second = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
        location, k = self._located() if codevectors is None else self._locate(codevectors)
        points, kind = self._scaled(samples), self._divergence.kind
        assign(kind, points, None, False, location, None, k, nearest, closest, second)
        return nearest, closest

    def _located(self) -> tuple[Array, int]:
        """The codevectors as kernels take them, (n_features, capacity), and their number."""
        return self._locate(self.codevectors_)

    def _locate(self, codevectors: Array) -> tuple[Array, int]:
        return np.ascontiguousarray(self._scaled(codevectors).T), len(codevectors)

    def _cells(self, samples: Array) -> NDArray[np.int64]:
        return self._assign(samples)[0]

    def _check_weighted(
        self, X: ArrayLike, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Array, Array]:
        """Validated samples and weights; samples of weight zero are left out."""
        data = check_data(self, self._divergence, X, None, sample_weight, reset=reset, targets="none")
        if reset and getattr(self, "scale", None) is None:
            warn_of_scales(data.samples)
        return data.samples, data.weight

    def _with_unused(self, X: ArrayLike, sample_weight: ArrayLike | None, samples: Array) -> Array:
        """All samples of `fit`: the checked `samples`, and those of weight zero, to be labelled, too."""
        if sample_weight is None:
            return samples
        found = check_samples(self, self._divergence, X, reset=False)
        return samples if len(found) == len(samples) else found

    def _check_init(self, init: ArrayLike, n_features: int) -> Array:
        given = numbers_of(init, "init")
        if given.ndim != 2 or given.shape[1] != n_features or not 0 < len(given) <= self.max_codevectors:
            raise ValueError(
                f"init must have shape (n, {n_features}) with n from 1 to max_codevectors="
                f"{self.max_codevectors}, got {given.shape}."
            )
        self._divergence.check(given, "init")
        return given

    def _forget_samples(self) -> None:
        """Remove the attributes that describe the samples of `fit`: a stream keeps no samples."""
        for name in ("labels_", "inertia_", "n_fitted_"):
            self.__dict__.pop(name, None)

    def _set_codebook(
        self, codevectors: Array, samples: Array, sample_weight: Array, labelled: Array
    ) -> NDArray[np.int64]:
        """Publish codevectors, the weights and variances of their cells by samples, and labels.

        The cells of the samples in `labelled` are the labels; see `_with_unused`. Returns those of the
        samples in `samples`.
        """
        self.codevectors_, self.n_fitted_ = codevectors, len(samples)
        nearest, closest = self._assign(samples)
        self.inertia_ = float(sample_weight @ closest)
        location = np.ascontiguousarray(codevectors.T)
        mass, spread = np.empty(len(codevectors)), np.empty_like(location)
        cell_moments(samples, sample_weight, nearest, len(codevectors), location, mass, spread)
        self.weights_, self.spreads_ = mass, np.ascontiguousarray(spread.T)
        self.labels_ = nearest if labelled is samples else self._cells(labelled)
        return nearest
