"""What a `MultiResolutionODA` does with its tree: predictions, and what has been learned."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.estimators.classification.book import probabilities
from oda_rl.estimators.tree.checking import CheckedEstimator
from oda_rl.estimators.tree.features import Features, maps_of
from oda_rl.estimators.tree.growth import GrowthPoint
from oda_rl.estimators.tree.layers import Layer, layers_of
from oda_rl.estimators.tree.learned import Learned
from oda_rl.estimators.tree.plan import Plan, kind_of
from oda_rl.estimators.tree.tree import Data, Tree

Array = NDArray[np.float64]


def _only(kind: str) -> Any:
    return available_if(lambda self: kind_of(self._template) == kind)


class TreeEstimator(CheckedEstimator):
    """A meta-estimator with a tree; the parameters are those of `MultiResolutionODA`."""

    layers: Any
    resolutions: Any
    max_children: int
    min_support: int
    min_improvement: float
    max_leaves: int | None
    n_jobs: int | None
    random_state: Any
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

    def _insert_classes(self, places: list[int]) -> None:
        """Know new classes, which are at these places among all."""
        for place in places:
            if self._waiting is None:
                self._learned.insert_class(place)
            else:
                targets = self._waiting.targets
                self._waiting = self._waiting._replace(targets=targets + (targets >= place))

    def _generator(self) -> np.random.Generator:
        seed = self.random_state
        if not isinstance(seed, Integral):  # a RandomState takes longer to begin than a small region
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)
