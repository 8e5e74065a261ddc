"""What the estimators have in common: a fitted codebook that predicts, transforms and scores."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from oda_rl.codebook.association import assign
from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.codebook.lloyd import cell_moments, mean_divergence
from oda_rl.estimators.density import log_density

Array = NDArray[np.float64]


class CodebookEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """A clusterer with `codevectors_`, `weights_`, `spreads_` and a parameter `divergence`."""

    divergence: str | Divergence
    random_state: Any
    codevectors_: Array
    weights_: Array
    spreads_: Array
    scale_: Array | None = None

    # -- using a fitted codebook -----------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The cell of every sample: the index of the nearest codevector.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in the units of the data that were learned from.

        Returns
        -------
        ndarray of shape (n_samples,), int64
        """
        return self._assign(self._check_again(X))[0]

    def transform(self, X: ArrayLike) -> Array:
        """The divergence of every sample from every codevector.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_codevectors)
            d(x, mu): squared distances for `"squared_euclidean"`. For an estimator with a scale, that of
            x / scale from mu / scale.
        """
        return self._divergence(self._scaled(self._check_again(X)), self._scaled(self.codevectors_))

    def score(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the distortion: the mean divergence of the samples from their codevectors.

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
        Annealing"): p(x) = p(mu_i) / Vol(S_i) for x in the cell S_i. The volume is that of the
        axis-parallel ellipsoid which, filled uniformly, has the variances of the samples in the cell
        (exact in one dimension; Voronoi cells proper have no volume that could be computed in many
        dimensions, and infinite ones at the border). Beyond the ellipsoid the density falls like a
        Gaussian with those variances, so that it is finite everywhere and tells outliers apart. It
        becomes sharper with more codevectors, and needs many samples per cell.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to evaluate.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logarithms of a density in the units of the features.
        """
        samples = self._check_again(X)
        nearest = self._assign(samples)[0]
        return log_density(samples, nearest, self.codevectors_, self.spreads_, self.weights_)

    # -- for the estimators ----------------------------------------------------------------------

    @property
    def _divergence(self) -> Divergence:
        return get_divergence(self.divergence)

    @property
    def _n_features_out(self) -> int:
        return len(self.codevectors_)

    def _assign(self, samples: Array) -> tuple[NDArray[np.int64], Array]:
        n = len(samples)
        nearest, closest, second = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
        location = np.ascontiguousarray(self._scaled(self.codevectors_).T)
        points = self._scaled(samples)
        kind, k = self._divergence.kind, len(self.codevectors_)
        assign(kind, points, None, False, location, None, k, nearest, closest, second)
        return nearest, closest

    def _scaled(self, points: Array) -> Array:
        """Samples or codevectors in the units in which divergences are taken."""
        return points if self.scale_ is None else np.asarray(points / self.scale_)

    def _unscaled(self, codevectors: Array) -> Array:
        return codevectors if self.scale_ is None else np.asarray(codevectors * self.scale_)

    def _check_again(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "codevectors_")
        return self._check(X, reset=False)

    def _check(self, X: ArrayLike, reset: bool) -> Array:
        """Validated samples that kernels can read: C-contiguous, float64, writeable."""
        samples = validate_data(self, X, reset=reset, dtype=np.float64, order="C")
        self._divergence.check(samples)
        # Numba would compile everything a second time for read-only arrays.
        return samples if samples.flags.writeable else samples.copy()

    def _check_weighted(
        self, X: ArrayLike, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Array, Array]:
        """Validated samples and weights; samples of weight zero are left out."""
        samples = self._check(X, reset)
        weight = _check_sample_weight(
            sample_weight, samples, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        used = weight > 0.0
        if not used.all():
            samples, weight = samples[used], weight[used]
        if len(samples) == 0:
            raise ValueError("sample_weight must be positive for at least one sample.")
        return samples, weight

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _set_codebook(self, codevectors: Array, samples: Array, sample_weight: Array) -> None:
        """Publish codevectors, with the weights and variances of their cells among the samples."""
        self.codevectors_ = codevectors
        nearest, _ = self._assign(samples)
        location = np.ascontiguousarray(codevectors.T)
        mass, spread = np.empty(len(codevectors)), np.empty_like(location)
        cell_moments(samples, sample_weight, nearest, len(codevectors), location, mass, spread)
        self.weights_, self.spreads_ = mass, np.ascontiguousarray(spread.T)
        self.labels_ = nearest

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._divergence.minimum >= 0.0
        return tags
