"""Base classes of feature maps: checks of the input, and the methods that scikit-learn expects."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from oda_rl._types import Array
from oda_rl._validation import check_kind, check_size, numbers_of

# Largest number of features that a map from a file may have.
MOST_FEATURES = 2**20


class BaseMap(TransformerMixin, BaseEstimator):
    """A map from rows of numbers to features; subclasses implement the private methods."""

    # Name of the attribute that `fit` sets last.
    _fitted: ClassVar[str]
    # What the map learns from, which is checked: "classes", numeric "outputs", or None to ignore y.
    _targets: ClassVar[str | None] = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Check the parameters against the data, and fit the map if it has anything to learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers; signals and images are rows, flattened in C order.
        y : array-like of shape (n_samples,), optional
            Targets for maps that learn from them, such as LinearDiscriminantAnalysis; others ignore it.

        Returns
        -------
        self
            The map itself.

        Raises
        ------
        ValueError
            If a parameter is unknown, outside its range, or does not fit the data, or if a map that
            learns from y is given one of the wrong length or kind, or with missing values.
        ImportError
            If the map needs a package that is not installed.
        """
        samples, targets = self._checked(X, y)
        self._fit_weighted(samples, targets, np.ones(len(samples)))
        return self

    def fit_weighted(self, X: ArrayLike, y: ArrayLike | None, weight: Array) -> Self:
        """As `fit`, with positive weights (n_samples,) of the samples, which some maps ignore."""
        samples, targets = self._checked(X, y)
        found = numbers_of(weight, "weight")
        if found.shape != (len(samples),):
            shape = f"({len(samples)},), one for each sample"
            raise ValueError(f"weight must have shape {shape}; got {found.shape}.")
        right = np.isfinite(found) & (found > 0.0)
        if not right.all():
            raise ValueError(f"weight must have positive and finite numbers, got {found[~right][0]}.")
        self._fit_weighted(samples, targets, found)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Map samples to their features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)

        Raises
        ------
        ValueError
            If X does not have the form of the data of `fit`, or a user's map does not return one row of
            finite numbers per sample.
        """
        check_is_fitted(self, self._fitted)
        return self._transform(validate_data(self, X, dtype=np.float64, reset=False))

    def transform_checked(self, samples: Array) -> Array:
        """As `transform`, for samples (n_samples, n_features) that an estimator has checked already.

        For a single sample, checks take a hundred times as long as most maps.
        """
        return self._transform(samples)

    @available_if(lambda self: self._has_inverse())
    def inverse_transform(self, X: ArrayLike) -> Array:
        """Map features, such as codevectors, back to the units of the data, if the map has an inverse.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            `Attributes` or `Notes` of the map describe how information that it loses is filled in.

        Raises
        ------
        ValueError
            If X has another number of features.
        """
        check_is_fitted(self, self._fitted)
        features = np.asarray(X, dtype=np.float64)
        n = self._n_features_out()
        if features.ndim != 2 or features.shape[1] != n:
            raise ValueError(f"X must have shape (n_samples, {n}), got {features.shape}.")
        return self._inverse(features)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the data's features.

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self, self._fitted)
        return np.array(self._names(input_features), dtype=object)

    def check_fitted(self) -> None:
        """Raise a ValueError unless a map from a file has the attributes and shapes that `fit` gives."""
        n = getattr(self, "n_features_in_", None)
        if type(n) is not int or not 0 < n <= MOST_FEATURES:
            raise ValueError(f"n_features_in_ must be from 1 to {MOST_FEATURES}, got {n!r}.")
        fresh = vars(clone(self).fit(np.zeros((2, n))))
        own = {name: value for name, value in vars(self).items() if name != "feature_names_in_"}
        if own.keys() != fresh.keys() or any(np.shape(own[n]) != np.shape(fresh[n]) for n in fresh):
            raise ValueError(
                f"a fitted {type(self).__name__} must have the attributes {sorted(fresh)}, with the "
                f"shapes that fit gives them, got {sorted(own)}."
            )

    def _checked(self, X: ArrayLike, y: ArrayLike | None) -> tuple[Array, ArrayLike | None]:
        """Samples and targets for `fit`; targets that the map ignores are not checked."""
        if y is None or self._targets is None:
            return validate_data(self, X, dtype=np.float64), y
        numeric = self._targets == "outputs"
        samples, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=numeric, y_numeric=numeric
        )
        if numeric:
            check_kind(targets, "outputs")
            check_size(targets, "y")
        return samples, targets

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        """Fit the map; maps that use weights override this instead of `_fit`."""
        self._fit(samples, y)

    def _fit(self, samples: Array, y: ArrayLike | None) -> None:
        raise NotImplementedError

    def _transform(self, samples: Array) -> Array:
        raise NotImplementedError

    def _names(self, input_features: Any) -> Sequence[str]:
        raise NotImplementedError

    def _names_in(self, input_features: Any) -> list[str]:
        """Names of the data's features, checked by scikit-learn's own function, which is not public."""
        return list(_check_feature_names_in(self, input_features))

    def _has_inverse(self) -> bool:
        return type(self)._inverse is not BaseMap._inverse

    def _n_features_out(self) -> int:
        raise NotImplementedError

    def _inverse(self, features: Array) -> Array:
        raise NotImplementedError


def listed(name: str, values: Any) -> list[Any]:
    """A sequence of resolutions as a list; raises a ValueError if it is none, or empty."""
    if isinstance(values, str) or not np.iterable(values):
        raise ValueError(f"{name} must be a list with an item for each resolution, got {values!r}.")
    found = list(values)
    if len(found) == 0:
        raise ValueError(f"{name} must name at least one resolution, got none.")
    return found


def falling(name: str, values: Any, least: int, most: int, shape: object) -> list[Any]:
    """Integers as a list; raises a ValueError unless they fall and lie between `least` and `most`."""
    found = listed(name, values)
    whole = all(isinstance(one, Integral) and not isinstance(one, bool) for one in found)
    fall = whole and all(a > b for a, b in pairwise(found))
    if not fall or not all(least <= one <= most for one in found):
        raise ValueError(
            f"{name} must be integers that decrease from coarse to fine and lie between {least} and "
            f"{most} for the shape {shape!r}, got {values!r}."
        )
    return found
