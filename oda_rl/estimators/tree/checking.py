"""What a `MultiResolutionODA` demands of its data, and how targets are seen by its tree."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import compute_class_weight, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from oda_rl.estimators.partition import ODAPartition
from oda_rl.estimators.tree.plan import Plan
from oda_rl.estimators.tree.tree import Data

Array = NDArray[np.float64]


class CheckedEstimator(BaseEstimator):
    """A meta-estimator that knows which data its estimator takes.

    Classes become numbers, outputs are standardised.
    """

    estimator: Any
    classes_: NDArray[Any]

    @property
    def _template(self) -> Any:
        return ODAPartition() if self.estimator is None else self.estimator

    def _check_again(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "n_samples_seen_")
        return self._check_samples(self._learned.plan, X, None, False)[0]

    def _check_samples(
        self, plan: Plan, X: ArrayLike, y: ArrayLike | None, reset: bool
    ) -> tuple[Array, NDArray[Any]]:
        """Validated samples that kernels can read, and targets."""
        whole: dict[str, Any] = {"reset": reset, "dtype": np.float64, "order": "C"}
        # The divergence looks for NaN itself. scikit-learn's checks take longer than a small tree.
        options = {"reset": reset, "skip_check_array": True} if _is_plain(X) else whole
        if y is None:
            samples = validate_data(self, X, **options)
            targets = np.zeros(len(samples), dtype=np.int64)
        elif plan.kind == "regressor":
            samples, targets = validate_data(self, X, y, multi_output=True, y_numeric=True, **whole)
        elif isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biu":
            samples, targets = validate_data(self, X, **options), y  # whole numbers need no more checks
            check_consistent_length(samples, targets)
        else:
            samples, targets = validate_data(self, X, y, **whole)
            if plan.kind == "classifier":
                check_classification_targets(targets)
        plan.settings.divergence.check(samples)
        return samples if samples.flags.writeable else samples.copy(), np.asarray(targets)

    def _check_targets(
        self, plan: Plan, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, reset: bool
    ) -> Data:
        if plan.kind == "clusterer":
            y = None
        elif y is None:
            raise ValueError(
                f"requires y to be passed, but the target y is None: a {plan.kind} learns from it."
            )
        samples, targets = self._check_samples(plan, X, y, reset)
        if plan.kind == "regressor":
            flat = targets.ndim == 1
            targets = targets.reshape(len(samples), -1).astype(np.float64)
            if reset:
                self._flat = flat
                self._n_outputs = targets.shape[1]
            elif targets.shape[1] != self._n_outputs:
                raise ValueError(
                    f"y must have {self._n_outputs} outputs as before, got {targets.shape[1]}."
                )
        if sample_weight is None:
            return Data(samples, targets, np.ones(len(samples)))
        weight = _check_sample_weight(
            sample_weight, samples, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        used = weight > 0.0
        if not used.any():
            raise ValueError("sample_weight must be positive for at least one sample.")
        data = Data(samples, targets, weight)
        return data if used.all() else data.take(used)

    def _check_fit(
        self, plan: Plan, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> Data:
        """Samples, their targets as the tree sees them, and weights of mean one."""
        data = self._check_targets(plan, X, y, sample_weight, reset=True)
        weight = data.weight
        if plan.kind == "classifier":
            self.classes_, numbers = np.unique(data.targets, return_inverse=True)
            if plan.class_weight is not None:
                factors = compute_class_weight(plan.class_weight, classes=self.classes_, y=data.targets)
                weight = weight * factors[numbers]
            data = data._replace(targets=numbers.astype(np.int64))
        return self._standard(plan, data._replace(weight=weight / weight.mean()), reset=True)

    def _check_stream(
        self,
        plan: Plan,
        X: ArrayLike,
        y: ArrayLike | None,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        first: bool,
    ) -> tuple[Data, list[int]]:
        """Samples, targets (classes as numbers) and weights; the places of new classes, rising."""
        data = self._check_targets(plan, X, y, sample_weight, reset=first)
        if plan.kind != "classifier":
            return data, []
        weight = data.weight
        if isinstance(plan.class_weight, str):
            raise ValueError(
                f"class_weight={plan.class_weight!r} needs all samples, which partial_fit has not; "
                "give a dict of weights."
            )
        if plan.class_weight is not None:
            weight = weight * np.array([plan.class_weight.get(c, 1.0) for c in data.targets.tolist()])
        known = np.empty(0, dtype=data.targets.dtype) if first else self.classes_
        more = [] if classes is None else [np.asarray(classes)]
        self.classes_ = np.unique(np.concatenate([known, *more, data.targets]))
        new = np.flatnonzero(~np.isin(self.classes_, known)).tolist()
        numbers = np.searchsorted(self.classes_, data.targets).astype(np.int64)
        return Data(data.samples, numbers, weight), new

    def _check_more(self, plan: Plan, X: ArrayLike, y: ArrayLike | None) -> tuple[Data, float]:
        """More samples as the tree sees them, and the square of the unit of its errors."""
        data = self._check_targets(plan, X, y, None, reset=False)
        if plan.kind == "regressor":
            return self._standard(plan, data, reset=False), self._squared_unit
        if plan.kind == "clusterer":
            return data, 1.0
        unknown = np.setdiff1d(data.targets, self.classes_)
        if len(unknown) > 0:
            raise ValueError(
                f"y has the class {unknown.tolist()[0]!r}; known are {self.classes_.tolist()}."
            )
        numbers = np.searchsorted(self.classes_, data.targets).astype(np.int64)
        return data._replace(targets=numbers), 1.0

    @property
    def _squared_unit(self) -> float:
        """The unit of squared errors: that of a single output; several are counted in deviations."""
        return float(self._deviation[0] ** 2) if getattr(self, "_n_outputs", 0) == 1 else 1.0

    def _standard(self, plan: Plan, data: Data, reset: bool) -> Data:
        """Targets as the tree sees them: outputs standardised."""
        if plan.kind != "regressor":
            return data
        if reset:
            self._mean = np.average(data.targets, axis=0, weights=data.weight)
            variance = np.average((data.targets - self._mean) ** 2, axis=0, weights=data.weight)
            small = variance <= 1e-24 * np.maximum(1e-300, np.abs(self._mean)) ** 2
            self._deviation = np.where(small, 1.0, np.sqrt(variance))
        return data._replace(targets=(data.targets - self._mean) / self._deviation)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self._template)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags = own.classifier_tags
        tags.regressor_tags = own.regressor_tags
        tags.target_tags = own.target_tags
        tags.input_tags = own.input_tags
        return tags


def _is_plain(X: ArrayLike) -> bool:
    """Whether X is already an array as kernels read it."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.flags.c_contiguous
        and X.size > 0
    )
