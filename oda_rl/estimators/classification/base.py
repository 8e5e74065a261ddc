"""Base class of the classifiers, which decide by labelled codevectors in scaled features."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc
from sklearn.base import ClassifierMixin

from oda_rl._interrupts import interrupts_wait
from oda_rl._types import Array, Labels
from oda_rl._validation import check_class_weight, kind_of_classes
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.base import Estimator
from oda_rl.estimators.classes import (
    announced_classes,
    before_new_classes,
    check_label,
    number_classes,
    number_next_classes,
)
from oda_rl.estimators.classification.book import ClassBook, allow_for_unseen, probabilities
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.targets import Data, check_data


class CodebookClassifier(ClassifierMixin, Estimator):
    """A classifier with labelled codevectors and the parameters that are declared below."""

    divergence: str | Divergence
    rule: str
    class_weight: Any
    reject: float | None
    reject_label: Any
    classes_: NDArray[Any]
    _numbered: NDArray[Any]  # the classes that `_number_of` maps to numbers
    _number_of: dict[Any, int]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if getattr(state.get("_session"), "live", None) is not None:
            for name in self._lazy_attributes:  # recomputed from the session when accessed
                state.pop(name, None)
        return state

    def _validate_params(self) -> None:
        super()._validate_params()
        check_class_weight(self.class_weight)
        check_label(self.reject_label, "reject_label")

    # -- learning --------------------------------------------------------------------------------

    def _fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        settings = self._settings(begin=True)
        data = check_data(self, self._divergence, X, y, sample_weight, reset=True)
        self._check_reject_label(data.targets)
        self.classes_, data = number_classes(data, self.class_weight)
        self._fit_classes(settings, data._replace(weight=self._begin_weights(data.weight)))

    @interrupts_wait
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue learning from one or more samples, in their order.

        How a stream is cut into chunks makes no difference, except for rounding: a class becomes known
        with its first sample. Predictions and fitted attributes include all samples. Up to 16 samples
        take microseconds each if `X`, of shape (n_samples, n_features), is a float64 array and `y` an
        array of the same kind as `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never modified.
        y : array-like of shape (n_samples,)
            Their classes. New classes may occur at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that will follow, so that `predict_proba` has columns for them from the beginning.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples, which are multiplied by those of `class_weight`; each is relative to
            the mean of all before it, those of a `fit` included. Without, they are one. Nothing is
            learned from samples of weight zero; one at least must be positive.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range, a sample outside the domain of the divergence, or if
            some classes are texts and others numbers.
        """
        if classes is None and sample_weight is None and self._weights_seen.plain:
            done = self._learn_few(X, y)
            if done > 0:
                if done == len(y):  # type: ignore[arg-type]
                    return self
                X, y = np.asarray(X)[done:], np.asarray(y)[done:]
        first = "n_samples_seen_" not in self.__dict__
        settings = self._settings(begin=first)
        data = check_data(self, self._divergence, X, y, sample_weight, reset=first)
        self._check_reject_label(data.targets)
        known, announced = None if first else self.classes_, announced_classes(classes)
        with self._reporting():
            for rows in self._pieces(data.targets, known, announced):
                own = data.take(rows), self.class_weight, announced
                self.classes_, numbered, new = number_next_classes(known, *own)
                self._go_on(settings, numbered, new, first)
                known, first = self.classes_, False
        return self

    def _pieces(self, targets: NDArray[Any], *known: NDArray[Any] | None) -> list[slice]:
        """Cut a chunk so that new classes occur only at the beginning of a part."""
        return before_new_classes(targets, *known)

    def _learn_few(self, X: ArrayLike, y: ArrayLike) -> int:
        """Learn from the first of a few samples on the fast path, if there is one; return how many."""
        return 0

    def _fit_classes(self, settings: Any, data: Data) -> None:
        """Learn from scratch from samples with class numbers as targets and a mean weight of one."""
        raise NotImplementedError

    def _go_on(self, settings: Any, data: Data, new: list[int], first: bool) -> None:
        """Learn from the next samples with class numbers as targets; `new` are those of new classes."""
        raise NotImplementedError

    # -- using fitted codevectors ----------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of every sample by `rule`; rejected samples get the `reject_label`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in the units of the training data.

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If classes are texts, some samples may be rejected, and the `reject_label` is not a text.
        """
        samples = self._check_again(X)
        result = self.classes_[self._numbers(samples)]
        if self.reject is None:
            return result
        self._check_reject_label(self.classes_)
        far = self._is_far(self._divergences(samples), self.reject)
        label = np.asarray(self.reject_label)
        mixed = (label.dtype.kind in "US") != (result.dtype.kind in "US")
        common = object if mixed else np.result_type(result.dtype, label.dtype)
        result = result.astype(common)
        result[far] = self.reject_label
        return result

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes: pi_c p(x | c), normalised (eq. 35).

        They are mixed with equal ones, so that after n samples all classes but the likeliest have at
        least 1 / (n + 2) together (Laplace's rule of succession): no class is ever ruled out.

        `ODAClassifier` raises them to a power that `fit` chooses on held-out samples (`local_weights_`).
        With `rule="nearest"` the class of the nearest codevector has probability one; with
        `mode="majority"` probabilities are then the shares of the classes in the nearest cell.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns as in `classes_`.
        """
        samples, distance = self._distance(X)
        if self.rule == "nearest":
            return self._book.nearest_proba(distance)
        return allow_for_unseen(probabilities(self._log_joint(samples, distance)), self._n_learned())

    def class_density(self, X: ArrayLike) -> Array:
        """The density p(x | c) of each class at every sample (Theorem 7), as a mixture of Gaussians.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Per unit of volume in the units of the features; each column integrates to one.

        Raises
        ------
        ValueError
            For divergences other than the squared Euclidean distance, and for `mode="majority"`, where
            classes have no codebooks of their own.
        """
        distance, book = self._distance(X)[1], self._book
        if not self._divergence.is_euclidean or len(book.votes) > 0:
            raise ValueError(
                "class_density needs divergence='squared_euclidean' and a codebook for each class, got "
                f"divergence={self._divergence.name!r} and mode={getattr(self, 'mode', None)!r}."
            )
        priors = np.bincount(book.labels, book.weights, len(book.widths))
        constant = -0.5 * self.n_features_in_ * np.log(np.pi)
        if len(self._scaling.matrix) > 0:
            constant += np.linalg.slogdet(self._scaling.matrix)[1]
        return np.asarray(np.exp(book.log_joint(distance) + constant) / priors)

    def decision_function(self, X: ArrayLike) -> Array:
        """Log-probabilities of the classes of X (n_samples, n_features), or with two their difference.

        The shape is (n_samples, n_classes), or (n_samples,) with two classes, where positive values
        mean that the second class is more likely.
        """
        with np.errstate(divide="ignore"):
            found = np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
        return np.asarray(found[:, 1] - found[:, 0] if found.shape[1] == 2 else found)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Natural logarithms of `predict_proba`, of shape (n_samples, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    # -- for the classifiers ---------------------------------------------------------------------

    def _geometry(self) -> Any:
        return self._divergence, self._scaling

    def _distance(self, X: ArrayLike) -> tuple[Array, Array]:
        """Samples, and their divergences from the codevectors."""
        samples = self._check_again(X)
        return samples, self._divergences(samples)

    def _divergences(self, samples: Array) -> Array:
        return self._divergence.between(self._scaling(samples), self._book.codevectors)

    def _numbers(self, samples: Array) -> Labels:
        """Predicted class numbers of raw samples, by `rule`."""
        distance = self._divergences(samples)
        if self.rule == "nearest":
            return np.asarray(self._book.labels[distance.argmin(axis=1)])
        return np.asarray(self._log_joint(samples, distance).argmax(axis=1))

    def _log_joint(self, samples: Array, distance: Array) -> Array:
        """log(pi_c p(x | c)) of raw samples, up to a constant for each sample."""
        return self._book.log_joint(distance)

    def _n_learned(self) -> int:
        """The number of samples behind the probabilities, without repetitions."""
        return self.n_samples_seen_

    def _check_reject_label(self, classes: NDArray[Any]) -> None:
        """Raise a ValueError if `predict` would return numbers among classes that are texts."""
        if self.reject is None or isinstance(self.reject_label, str):
            return
        if kind_of_classes(classes) == "texts":  # neither `score` nor metrics can compare the two
            raise ValueError(
                "reject_label must be a string, such as 'rejected', if the classes are strings, got "
                f"{self.reject_label!r}."
            )

    def _is_far(self, distance: Array, part: float) -> NDArray[np.bool_]:
        nearest = distance.argmin(axis=1)
        in_widths = distance.min(axis=1) / self._book.widths[self._book.labels[nearest]]
        return np.asarray(gammaincc(0.5 * self._n_counting, in_widths) < part)

    @property
    def _n_counting(self) -> int:
        """Number of features that count in distances."""
        session = getattr(self, "_session", None)
        return self.n_features_in_ if session is None else int(session.moments.n_kept)

    def _set_book(self, book: ClassBook, scaling: Scaling) -> None:
        self._book, self._scaling = book, scaling
        self.codevectors_ = scaling.back(book.codevectors)
        self.codevector_labels_ = self.classes_[book.labels]
        self.weights_ = book.weights.copy()  # a stream changes the others in place
        self.n_codevectors_ = len(book.labels)
