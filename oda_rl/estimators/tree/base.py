"""The base of `MultiResolutionODA`: predictions with the tree, and fitted attributes."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import TransformerTags, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from oda_rl._types import Array
from oda_rl.codebook.divergences import Divergence
from oda_rl.density import histogram
from oda_rl.estimators.base import Estimator
from oda_rl.estimators.classification.base import CodebookClassifier
from oda_rl.estimators.classification.book import probabilities
from oda_rl.estimators.partition import ODAPartition
from oda_rl.estimators.regression.fitting import BORROWED
from oda_rl.estimators.targets import Data, OutputUnits, check_data, check_samples
from oda_rl.estimators.tree.cells import Cell, squared_errors
from oda_rl.estimators.tree.growth import GrowthPoint
from oda_rl.estimators.tree.predicted import outputs_at
from oda_rl.estimators.tree.session import TreeSession
from oda_rl.estimators.tree.settings import TARGETS, TreeSettings, kind_of
from oda_rl.estimators.tree.tasks import Outputs
from oda_rl.estimators.tree.tree import Tree
from oda_rl.inspect.table import Table
from oda_rl.inspect.trees import tree_table


def _only(kind: str) -> Any:
    return available_if(lambda self: kind_of(self._template) == kind)


class TreeEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """A meta-estimator with a tree and the parameters of `MultiResolutionODA`."""

    estimator: Any
    layers: Any
    resolutions: Any
    random_state: Any
    classes_: NDArray[Any]
    n_samples_seen_: int
    _session: TreeSession
    _waiting: Data | None
    _rng: np.random.Generator
    _units: OutputUnits | None = None
    _flat: bool = True

    # -- using -----------------------------------------------------------------------------------

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predict leaves, classes or outputs of samples, depending on the kind of the estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in the units of the training data.
        return_std : bool, default=False
            Whether to return standard deviations of the errors of a regressor, too, as `ODARegressor`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs), or a tuple of two
            Numbers of leaves (rows of `codevectors_`) for a clusterer, else predicted targets; with
            `return_std`, predictions and standard deviations.
        """
        found = self._predicted(X)
        kind = self._session.settings.kind
        if return_std and kind != "regressor":
            raise ValueError(f"return_std must be False for the tree of a {kind}, got {return_std!r}.")
        if kind == "clusterer":
            return found
        if kind == "classifier":
            return np.asarray(self.classes_[found.argmax(axis=1)])
        assert self._units is not None
        mean = self._units.back(found)
        if not return_std:
            return mean
        tree, m = self.tree_, found.shape[1]
        samples = self._check_again(X)
        variance = np.repeat(squared_errors(tree.layers[0], m), len(samples), axis=0)
        for layer, _, rows, at, _ in tree.walk(samples):
            cells = tree.layers[layer]
            own = cells.mass[at, None] / (cells.mass[at, None] + BORROWED)
            variance[rows] += own * (squared_errors(cells, m)[at] - variance[rows])
        std = np.sqrt(variance) * self._units.deviation
        return mean, std[:, 0] if self._flat else std

    @_only("classifier")
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes by the estimator's `rule`, for X (n_samples, n_features).

        The result is (n_samples, n_classes), with columns as in `classes_`; its rows sum to one.
        """
        found = self._predicted(X)
        return probabilities(found) if self._session.settings.rule == "bayes" else found

    predict_log_proba = _only("classifier")(CodebookClassifier.predict_log_proba)
    fit_predict = _only("clusterer")(ClusterMixin.fit_predict)

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """The leaves (n_samples,), int64, of X (n_samples, n_features), as indices of `codevectors_`."""
        return self.tree_.leaf_numbers(self._check_again(X))

    def transform(self, X: ArrayLike) -> Array:
        """One-hot encoding of the leaf of every sample of X (n_samples, n_features).

        The result is (n_samples, n_codevectors); its columns are in the order of `codevectors_`, and
        named by `get_feature_names_out`.
        """
        return np.eye(self.n_codevectors_)[self.apply(X)]

    @property
    def _n_features_out(self) -> int:
        return self.n_codevectors_

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy, R^2, or the negative mean divergence from the codevectors of the leaves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Classes or outputs; not used by a clusterer.
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
        return -float(np.average(self.tree_.distances(samples), weights=weight))

    def histogram_density(
        self, X: ArrayLike, box: ArrayLike, n_draws: int = 100_000, seed: int = 0
    ) -> tuple[Array, Array]:
        """The density at every sample, by the leaves cut off by a box (Theorem 8).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points at which to evaluate.
        box : array-like of shape (2, n_features)
            Lower and upper ends of the box; the density is 0 outside.
        n_draws, seed : int
            Number of random points, uniform in the box, to estimate the leaves' volumes, and their seed.

        Returns
        -------
        tuple of two ndarrays of shape (n_samples,)
            Densities in the units of the features, and their relative standard errors due to the draws.
        """
        samples, leaf = self._check_again(X), self.tree_.leaf_numbers
        return histogram(samples, box, leaf, self.weights_, n_draws, seed)

    @_only("classifier")
    def class_density(
        self, X: ArrayLike, box: ArrayLike, n_draws: int = 100_000, seed: int = 0
    ) -> tuple[Array, Array]:
        """The density of each class at every sample, (n_samples, n_classes) (Theorem 9).

        Parameters and returned values are otherwise as for `histogram_density`.
        """
        samples, tree = self._check_again(X), self.tree_
        votes = tree.of_leaves("tally")
        return histogram(samples, box, tree.leaf_numbers, votes / votes.sum(axis=0), n_draws, seed)

    # -- what has been learned -------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The cells, layer by layer."""
        return self._fitted.tree

    def cells(self, feature_names: Sequence[str] | None = None, all_cells: bool = False) -> Table:
        """A table of the leaves, or of all cells; see `oda_rl.explain.table`."""
        return tree_table(self, feature_names, all_cells)

    @property
    def codevectors_(self) -> Array:
        """The codevectors of the leaves, in the units of the data."""
        tree = self.tree_
        return np.asarray(tree.of_leaves("total") / tree.of_leaves("mass")[:, None])

    @property
    def weights_(self) -> Array:
        """Shares of the samples in the leaves."""
        mass = self.tree_.of_leaves("mass")
        return np.asarray(mass / mass.sum())

    @property
    def codevector_labels_(self) -> NDArray[Any]:
        """Classes of the leaves; zeros if there are no classes."""
        labels = self.tree_.of_leaves("label")
        return np.asarray(self.classes_[labels] if hasattr(self, "classes_") else labels)

    @property
    def values_(self) -> Array:
        """The outputs that a regressor predicts in its leaves, at their codevectors."""
        if kind_of(self._template) != "regressor":
            raise AttributeError("values_ is available only for a tree of ODARegressor.")
        return self._outputs_at(self.tree_.leaves())

    @property
    def n_codevectors_(self) -> int:
        """Number of leaves."""
        return self.tree_.n_leaves

    @property
    def n_cells_(self) -> int:
        """Number of cells in all layers, without the root."""
        return self.tree_.n_cells

    @property
    def n_layers_(self) -> int:
        """Number of layers below the root that have cells."""
        return self.tree_.depth

    @property
    def temperature_(self) -> float:
        """The lowest temperature at which cells were split; infinite before any were."""
        return min((point.temperature for point in self.history_), default=np.inf)

    @property
    def n_presented_(self) -> int:
        """Number of samples presented to the annealing of regions, repetitions included."""
        return self._fitted.n_seen

    @property
    def history_(self) -> list[GrowthPoint]:
        """One record for each cell that was split."""
        return self._fitted.history

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _template(self) -> Any:
        return ODAPartition() if self.estimator is None else self.estimator

    @property
    def _fitted(self) -> TreeSession:
        self._check_fitted()
        self._session.conclude()
        return self._session

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_samples_seen_"):
            check_is_fitted(self, "n_samples_seen_")  # slower than predicting one sample

    @property
    def _squared_unit(self) -> float:
        """The unit of the tree's squared errors, in squared units of the outputs."""
        return 1.0 if self._units is None else self._units.squared

    def _values_at_codevectors(self) -> Array:
        return self.values_

    def _outputs_at(self, cells: Sequence[Cell]) -> Array:
        """The outputs of a regressor at the codevectors of cells, if the tree ended at these."""
        task, units = self._session.task, self._units
        assert isinstance(task, Outputs)
        assert units is not None
        return units.back(outputs_at(task, self.tree_, cells))

    def _predicted(self, X: ArrayLike) -> NDArray[Any]:
        samples = self._check_again(X)
        return self._session.predict(samples)

    @property
    def _divergence(self) -> Divergence:
        self._check_fitted()
        return self._session.settings.annealing.divergence

    def _check_again(self, X: ArrayLike) -> Array:
        return check_samples(self, self._divergence, X, reset=False)

    def _check(
        self,
        settings: TreeSettings,
        X: ArrayLike,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        reset: bool,
    ) -> Data:
        """Validated samples; outputs are of shape (n_samples, n_outputs)."""
        wanted, divergence = TARGETS[settings.kind], settings.annealing.divergence
        data = check_data(self, divergence, X, y, sample_weight, reset=reset, targets=wanted)
        if wanted != "outputs":
            return data
        if reset:
            self._flat = data.targets.ndim == 1
        targets = data.targets.reshape(len(data.weight), -1).astype(np.float64)
        known = targets.shape[1] if reset or self._units is None else len(self._units.mean)
        if targets.shape[1] != known:
            raise ValueError(
                f"y must have {known} outputs, as in earlier calls, got {targets.shape[1]}."
            )
        return data._replace(targets=targets)

    def _values(self) -> tuple[Any, ...]:
        template = self._template
        return super()._values() + (template._values() if isinstance(template, Estimator) else ())

    def _read_parameters(self) -> TreeSettings:
        return TreeSettings.of(self)

    def _generator(self) -> np.random.Generator:
        seed = self.random_state
        if not isinstance(seed, Integral):  # making a RandomState takes longer than a small region
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        own = get_tags(self._template)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags = own.classifier_tags
        tags.regressor_tags = own.regressor_tags
        tags.target_tags = own.target_tags
        tags.input_tags = own.input_tags
        tags.transformer_tags = TransformerTags()
        return tags
