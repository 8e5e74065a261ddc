"""What a `MultiResolutionODA` does with its tree: checks, predictions, what has been learned."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state, compute_class_weight, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.classification.book import probabilities
from oda_rl.multiresolution.features import Features, maps_of
from oda_rl.multiresolution.growth import GrowthPoint
from oda_rl.multiresolution.layers import Layer, layers_of
from oda_rl.multiresolution.learned import Learned
from oda_rl.multiresolution.plan import Plan, kind_of
from oda_rl.multiresolution.tree import Data, Tree
from oda_rl.partition import ODAPartition

Array = NDArray[np.float64]


def _only(kind: str) -> Any:
    return available_if(lambda self: kind_of(self._template) == kind)


class TreeEstimator(BaseEstimator):
    """A meta-estimator with a tree; the parameters are those of `MultiResolutionODA`."""

    estimator: Any
    layers: Any
    resolutions: Any
    max_children: int
    min_support: int
    min_improvement: float
    max_leaves: int | None
    n_jobs: int | None
    random_state: Any
    classes_: NDArray[Any]
    n_samples_seen_: int
    _learned: Learned
    _waiting: Data | None
    _rng: np.random.Generator

    # -- using -----------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Leaves, classes or outputs of samples, as the estimator is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in the units of the data that were learned from.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Numbers of leaves (rows of `codevectors_`) for a clusterer, else as the targets.
        """
        samples = self._check_again(X)
        kind = kind_of(self._template)
        if kind == "clusterer":
            return self._fitted.leaf_numbers(samples)
        if kind == "classifier":
            bayes = self._learned.plan.rule == "bayes"
            told = self._fitted.log_joint(samples) if bayes else self._fitted.shares(samples)
            return np.asarray(self.classes_[told.argmax(axis=1)])
        found = self._fitted.outputs(samples) * self._deviation + self._mean
        return found[:, 0] if self._flat else found

    @_only("classifier")
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, by the estimator's `rule`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns as in `classes_`.
        """
        samples = self._check_again(X)
        if self._learned.plan.rule == "bayes":
            return probabilities(self._fitted.log_joint(samples))
        return self._fitted.shares(samples)

    @_only("classifier")
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

    @_only("clusterer")
    def fit_predict(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Fit, and give the leaves of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        ndarray of shape (n_samples,), int64
        """
        return np.asarray(self.fit(X, None, sample_weight).labels_)

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """The leaf of every sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,), int64
            Rows of `codevectors_`.
        """
        return self._fitted.leaf_numbers(self._check_again(X))

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy, R^2, or minus the mean divergence from the codevectors of the leaves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Their classes or outputs; a clusterer has none.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        float
            Higher is better.
        """
        kind = kind_of(self._template)
        if kind == "classifier":
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        if kind == "regressor":
            return float(r2_score(y, self.predict(X), sample_weight=sample_weight))
        samples = self._check_again(X)
        weight = _check_sample_weight(sample_weight, samples, dtype=np.float64)
        return -float(np.average(self._fitted.distances(samples), weights=weight))

    # -- what has been learned -------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The cells, layer by layer."""
        return self._fitted.tree

    @property
    def codevectors_(self) -> Array:
        """Those of the leaves, in the units of the data."""
        learned = self._fitted
        mass = learned.of_leaves("mass")
        return np.asarray(learned.of_leaves("total") / mass[:, None])

    @property
    def weights_(self) -> Array:
        """Shares of the samples in the leaves."""
        mass = self._fitted.of_leaves("mass")
        return np.asarray(mass / mass.sum())

    @property
    def codevector_labels_(self) -> NDArray[Any]:
        """Classes of the leaves; zeros without classes."""
        labels = self._fitted.of_leaves("label")
        return np.asarray(self.classes_[labels] if hasattr(self, "classes_") else labels)

    @property
    def values_(self) -> Array:
        """What a regressor's leaves predict at their codevectors."""
        if kind_of(self._template) != "regressor":
            raise AttributeError("only a tree over an ODARegressor has values_.")
        return np.asarray(self.predict(self.codevectors_))

    @property
    def n_codevectors_(self) -> int:
        """Leaves."""
        return self._fitted.tree.n_leaves

    @property
    def n_cells_(self) -> int:
        """Cells of all layers, without the root."""
        return self._fitted.tree.n_cells

    @property
    def n_layers_(self) -> int:
        """Layers below the root that there are."""
        return self._fitted.tree.depth

    @property
    def temperature_(self) -> float:
        """The lowest temperature at which cells were split; infinite before any were."""
        return min((point.temperature for point in self.history_), default=np.inf)

    @property
    def n_presented_(self) -> int:
        """Samples presented to the annealing of regions, with repetitions."""
        return self._fitted.grower.n_seen

    @property
    def history_(self) -> list[GrowthPoint]:
        """One record for each cell that was split."""
        return self._fitted.grower.history

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _template(self) -> Any:
        return ODAPartition() if self.estimator is None else self.estimator

    @property
    def _fitted(self) -> Learned:
        check_is_fitted(self, "n_samples_seen_")
        self._learned.settle()
        return self._learned

    def _plan(self) -> tuple[Plan, list[Layer]]:
        plan = Plan.of(self._template)
        check_at_least(1, max_children=self.max_children, min_support=self.min_support)
        check_non_negative(min_improvement=self.min_improvement)
        if self.max_leaves is not None:
            check_at_least(1, max_leaves=self.max_leaves)
        default = Layer(
            self.max_children, plan.t_min, plan.max_samples, self.min_support, self.min_improvement
        )
        return plan, layers_of(self.layers, default)

    def _new(self, plan: Plan, layers: list[Layer], data: Data, rng: np.random.Generator) -> Learned:
        """A tree without cells, with resolutions fitted to samples."""
        maps = maps_of(self.resolutions, len(layers))
        labels = (
            data.targets if plan.kind == "classifier" else np.zeros(len(data.weight), dtype=np.int64)
        )
        divergence = plan.settings.divergence
        features = Features.fit(maps, data.samples, labels, data.weight, plan.scale, divergence, rng)
        n_classes = len(self.classes_) if plan.kind == "classifier" else 1
        n_outputs = data.targets.shape[1] if plan.kind == "regressor" else 1
        return Learned(plan, layers, features, n_classes, n_outputs, rng, self.n_jobs, self.max_leaves)

    def _go_on(self, plan: Plan, layers: list[Layer], data: Data) -> Learned:
        """Learn from the next samples of a stream, or gather them until there are enough to begin."""
        if self._waiting is not None:
            self._waiting = self._waiting.joined(data)
            n = plan.settings.n_warmup
            if len(self._waiting.weight) < n:
                first = self._standard(plan, self._waiting, reset=True)
                learned = self._new(plan, layers, first, np.random.default_rng(0))
                learned.grower.plant(first)
                learned.tree.features.forget()
                return learned
            warm = self._standard(plan, self._waiting.take(slice(0, n)), reset=True)
            self._learned = self._new(plan, layers, warm, self._rng)
            self._learned.begin(warm)
            data, self._waiting = self._waiting, None
        self._learned.resume(plan, layers, self.n_jobs, self.max_leaves)
        self._learned.observe(self._standard(plan, data, reset=False))
        return self._learned

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

    def _check_again(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "n_samples_seen_")
        return self._check_samples(self._learned.plan, X, None, False)[0]

    def _check_samples(
        self, plan: Plan, X: ArrayLike, y: ArrayLike | None, reset: bool
    ) -> tuple[Array, NDArray[Any]]:
        """Validated samples that kernels can read, and targets."""
        options: dict[str, Any] = {"reset": reset, "dtype": np.float64, "order": "C"}
        if y is None:
            samples = validate_data(self, X, **options)
            targets = np.zeros(len(samples), dtype=np.int64)
        elif plan.kind == "regressor":
            samples, targets = validate_data(self, X, y, multi_output=True, y_numeric=True, **options)
        elif isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biu":
            samples, targets = validate_data(self, X, **options), y  # whole numbers need no more checks
            check_consistent_length(samples, targets)
        else:
            samples, targets = validate_data(self, X, y, **options)
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
        self._waiting = None
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
    ) -> Data:
        """Samples, their targets as they are (classes as numbers), and weights."""
        data = self._check_targets(plan, X, y, sample_weight, reset=first)
        if plan.kind != "classifier":
            return data
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
        for place in [] if first else np.flatnonzero(~np.isin(self.classes_, known)):
            self._insert_class(int(place))
        numbers = np.searchsorted(self.classes_, data.targets).astype(np.int64)
        return Data(data.samples, numbers, weight)

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

    def _insert_class(self, place: int) -> None:
        if self._waiting is not None:
            targets = self._waiting.targets
            self._waiting = self._waiting._replace(targets=targets + (targets >= place))
        else:
            self._learned.insert_class(place)

    def _generator(self) -> np.random.Generator:
        seed = self.random_state
        if not isinstance(seed, Integral):  # a RandomState takes longer to begin than a small region
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self._template)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags = own.classifier_tags
        tags.regressor_tags = own.regressor_tags
        tags.target_tags = own.target_tags
        tags.input_tags = own.input_tags
        return tags
