"""What the classifiers have in common: labelled codevectors in scaled features that decide."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.estimators.classification.book import ClassBook, probabilities
from oda_rl.estimators.feature_scaling import Scaling

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class CodebookClassifier(ClassifierMixin, BaseEstimator):
    """A classifier with labelled codevectors and the parameters that are named below."""

    divergence: str | Divergence
    rule: str
    class_weight: Any
    reject: float | None
    reject_label: Any
    random_state: Any
    classes_: NDArray[Any]

    # -- using fitted codevectors ----------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of every sample, by the `rule`; rejected samples get the `reject_label`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in the units of the data that were learned from.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        distance = self._distance(X)
        book = self._book
        if self.rule == "nearest":
            found = book.labels[distance.argmin(axis=1)]
        else:
            found = book.log_joint(distance).argmax(axis=1)
        result = self.classes_[found]
        if self.reject is None:
            return result
        far = self._is_far(distance)
        label = np.asarray(self.reject_label)
        mixed = (label.dtype.kind in "US") != (result.dtype.kind in "US")
        common = object if mixed else np.result_type(result.dtype, label.dtype)
        result = result.astype(common)
        result[far] = self.reject_label
        return result

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes: pi_c p(x | c), normalised (eq. 35).

        With `rule="nearest"` it is the class of the nearest codevector that is certain, or the shares of
        the classes in the nearest cell for `mode="majority"`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns as in `classes_`.
        """
        distance = self._distance(X)
        if self.rule == "nearest":
            return self._book.nearest_proba(distance)
        return probabilities(self._book.log_joint(distance))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Natural logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def is_rejected(self, X: ArrayLike, quantile: float | None = None) -> NDArray[np.bool_]:
        """Whether samples are too far from every codevector to say anything.

        The divergence from the nearest codevector, in widths of its class, is larger than that of all
        but the part `quantile` of the samples would be if the cell were a Gaussian of that width.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        quantile : float, optional
            In (0, 1); the parameter `reject` by default.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        part = self.reject if quantile is None else quantile
        if part is None:
            raise ValueError("quantile must be given where the parameter reject is None.")
        check_part(quantile=part)
        return self._is_far(self._distance(X), part)

    # -- for the classifiers ---------------------------------------------------------------------

    @property
    def _divergence(self) -> Divergence:
        return get_divergence(self.divergence)

    def _distance(self, X: ArrayLike) -> Array:
        samples = self._check_again(X)
        scaled = self._scaling(samples)
        return self._divergence(scaled, self._book.codevectors)

    def _excess(self, distance: Array) -> Array:
        """The divergence from the nearest codevector, in widths of its class."""
        nearest = distance.argmin(axis=1)
        width = self._book.widths[self._book.labels[nearest]]
        return distance[np.arange(len(distance)), nearest] / width

    def _is_far(self, distance: Array, part: float | None = None) -> NDArray[np.bool_]:
        part = self.reject if part is None else part
        assert part is not None
        excess = self._excess(distance)
        return np.asarray(gammaincc(0.5 * self.n_features_in_, excess) < part)

    def _set_book(self, book: ClassBook, scaling: Scaling) -> None:
        self._book, self._scaling = book, scaling
        self.codevectors_ = scaling.back(book.codevectors)
        self.codevector_labels_ = self.classes_[book.labels]
        self.weights_ = book.weights
        self.n_codevectors_ = len(book.labels)

    def _check_again(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "classes_")
        return self._check(X, reset=False)

    def _check(self, X: ArrayLike, reset: bool) -> Array:
        """Validated samples that kernels can read: C-contiguous, float64, writeable."""
        samples = validate_data(self, X, reset=reset, dtype=np.float64, order="C")
        self._divergence.check(samples)
        return samples if samples.flags.writeable else samples.copy()

    def _check_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Array, Labels, Array]:
        """Samples, numbers of their classes, and weights, of mean one; sets `classes_`."""
        samples, targets, weight = self._check_targets(X, y, sample_weight, reset=True)
        self.classes_, labels = np.unique(targets, return_inverse=True)
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=targets)
            weight = weight * factors[labels]
        return samples, labels.astype(np.int64), weight / weight.mean()

    def _check_stream(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Array, NDArray[Any], Array]:
        """Samples, their classes, and weights."""
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all samples, which partial_fit has not; "
                "give a dict of weights."
            )
        samples, targets, weight = self._check_targets(X, y, sample_weight, reset)
        if self.class_weight is not None:
            weight = weight * np.array([self.class_weight.get(c, 1.0) for c in targets.tolist()])
        return samples, targets, weight

    def _check_targets(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Array, NDArray[Any], Array]:
        checked: Any = validate_data(self, X, y, reset=reset, dtype=np.float64, order="C")
        samples: Array = checked[0] if checked[0].flags.writeable else checked[0].copy()
        self._divergence.check(samples)
        targets = column_or_1d(checked[1], warn=True)
        check_classification_targets(targets)
        weight = _check_sample_weight(
            sample_weight, samples, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        used = weight > 0.0
        if not used.any():
            raise ValueError("sample_weight must be positive for at least one sample.")
        if not used.all():
            samples, targets, weight = samples[used], targets[used], weight[used]
        return samples, targets, weight

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._divergence.minimum >= 0.0
        return tags


def check_part(**values: float | None) -> None:
    """Raise a ValueError for a part that is neither None nor in (0, 1)."""
    for name, value in values.items():
        if value is not None and not 0.0 < value < 1.0:
            raise ValueError(f"{name} must be None or in (0, 1), got {value}.")


def check_choice(known: tuple[Any, ...], **values: Any) -> None:
    """Raise a ValueError for a parameter that is not one of `known`."""
    for name, value in values.items():
        if not any(value is k or (isinstance(value, str) and value == k) for k in known):
            raise ValueError(f"{name} must be one of {known}, got {value!r}.")
