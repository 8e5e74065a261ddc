"""The papers' algorithms for classification and regression exactly as printed, for comparison."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from oda_rl._types import Array, Labels
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.codebook.literal import learn_as_printed
from oda_rl.codebook.schedule import Cooling, Stepsize, first_and_last_temperature
from oda_rl.estimators.parameters import NON_NEGATIVE, POSITIVE, Checked, choice

__all__ = ["LiteralClassifier", "LiteralPoint", "LiteralRegressor"]


class LiteralPoint(NamedTuple):
    """The codebook at the end of a temperature: a record of `history_`.

    `labels` are the classes of the codevectors, or the parameters of their models, one column for each
    codevector; `n_samples_seen` is the number of samples presented so far.
    """

    temperature: float
    n_samples_seen: int
    codevectors: Array
    weights: Array
    labels: NDArray[Any]


class LiteralAnnealer(Annealer):
    """Algorithm 1 with literal perturbations and the updates as printed.

    `over_all`, `rate` and `power` are as for `oda_rl.codebook.literal.learn_as_printed`; the payload of
    the codebook must have the field `"theta"`.
    """

    over_all: bool = True
    rate: float = 0.0
    power: float = 0.6
    moves_cells: ClassVar[bool] = False

    def _advance(
        self, samples: Array, targets: Array | None, labels: Labels, *_: Any
    ) -> tuple[int, bool]:
        book = self.codebook
        pace = self.pace(self.level_length)
        outputs = np.empty((len(samples), 0)) if targets is None else targets
        theta = book.payload[book.rows("theta")]
        used, self.n, self.distortion, finished = learn_as_printed(
            *(book.divergence.kind, samples, labels, outputs, pace, self.over_all),
            *(float(self.rate), float(self.power), self.n, self.distortion),
            *(book.arrays, book.n_cells, self.reference, theta),
        )
        return used, finished


@dataclass(eq=False, repr=False)
class _Literal(Checked):
    """Base class of both estimators: their common parameters, and the passes over the samples."""

    max_codevectors: int = 64
    _: KW_ONLY
    t_max: float | Literal["auto"] = "auto"
    t_min: float | Literal["auto"] = "auto"
    cooling: float = 0.8
    divergence: str | Divergence = "squared_euclidean"
    stepsize: tuple[float, float] = (1.0, 1.0)
    samples_per_cell: int = 100
    tol_converge: float = 1e-3
    tol_merge: float = 0.1
    min_weight: float = 1e-4
    perturbation: float = 0.1
    random_state: Any = None

    def _read_parameters(self) -> Divergence:
        return get_divergence(self.divergence)

    def _anneal(
        self, samples: Array, labels: Labels, outputs: Array | None, n_parameters: int, **options: Any
    ) -> None:
        """Anneal in passes over the samples, from the first sample of each label (Algorithm 4)."""
        divergence = self._settings(begin=True)
        rng = self._generator()
        book = Codebook(samples.shape[1], {"theta": (n_parameters, "mean")}, divergence)
        order = rng.permutation(len(samples))
        kinds, first = np.unique(labels[order], return_index=True)
        for label, place in zip(kinds.tolist(), order[first], strict=True):
            book.add(samples[place], 1.0 / len(kinds), label)
        critical = divergence.moments(samples, np.ones(len(samples)))[0]
        hot, cold = first_and_last_temperature(self.t_max, self.t_min, critical)
        annealer = LiteralAnnealer(
            *(book, hot, cold, Cooling(self.cooling), Stepsize(*self.stepsize)),
            *(self.max_codevectors, self.tol_converge, self.tol_merge, self.min_weight),
            perturbation=self.perturbation,
            bifurcation="literal",
            check_every=self.samples_per_cell // 2,
            max_samples=self.samples_per_cell,
            min_samples=200,
            seed=rng,
        )
        for name, value in options.items():
            setattr(annealer, name, value)
        self.history_: list[LiteralPoint] = []
        annealer.at_level_end = lambda: self._record_level(annealer)
        while not annealer.done:
            part = rng.permutation(len(samples))
            targets = None if outputs is None else outputs[part]
            annealer.observe(samples[part], labels[part], None, True, targets)
        last = self.history_[-1]
        self.codevectors_, self.weights_ = last.codevectors, last.weights
        self.n_codevectors_, self.temperature_ = len(last.codevectors), last.temperature
        self.n_samples_seen_ = annealer.n_samples_seen

    def _record_level(self, annealer: Annealer) -> bool:
        """Record the codebook of a temperature; returns False, so that annealing continues."""
        book = annealer.codebook
        weights, theta = book.weights / book.weights.sum(), book["theta"].copy()
        place = annealer.temperature, annealer.n_samples_seen, book.codevectors
        self.history_.append(LiteralPoint(*place, weights, theta if len(theta) else book.labels))
        return False

    def _checked(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "codevectors_")
        return np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float64))


@dataclass(eq=False, repr=False)
class LiteralClassifier(ClassifierMixin, _Literal):
    """Algorithm 4 of "Multi-Resolution Online Deterministic Annealing", as it is printed.

    Each class begins with one codevector, its first sample. All codevectors are perturbed at each
    temperature, move by samples of their class (eq. 33), and merge if they are closer than `tol_merge`.
    `ODAClassifier` is the improved version, with better results.

    Parameters
    ----------
    max_codevectors : int, default=64
        K_max, for all classes together.
    association : {"all", "class"}, default="all"
        The codevectors over which eq. 13 is normalised. `"all"`, as printed: classes compete, and
        codevectors of a rare class lose their weight amid a common one, where their share of their own
        samples is small; at high temperatures they may lose all of it and be pruned. `"class"`: those of
        the sample's class, so that each codebook estimates the density of its class (Theorem 7).
    t_max, t_min, cooling, divergence, stepsize, samples_per_cell
        As for `ODAPartition`. Features are not scaled.
    tol_converge, tol_merge, min_weight, perturbation : float
        eps_c, eps_n, eps_r and delta. The first two are in units of the temperature, the last in those
        of its square root.
    random_state : int, RandomState instance or None, default=None
        Orders the samples and draws the perturbations.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        The codevectors at the end of the annealing.
    codevector_labels_ : ndarray of shape (n_codevectors,)
        Their classes.
    weights_ : ndarray of shape (n_codevectors,)
        Their probabilities; they sum to one.
    history_ : list of LiteralPoint
        One record per temperature.
    n_codevectors_, n_samples_seen_, temperature_
        K, samples presented, and the temperature reached.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(LiteralClassifier(20, association="class", random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    association: str = "all"
    _own_constraints: ClassVar[dict[str, Any]] = {"association": [choice("all", "class")]}

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from samples (n_samples, n_features) of the classes y (n_samples,), in many passes."""
        samples, given = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        over_all = self.association == "all"
        self._anneal(samples, labels.astype(np.int64), None, 0, over_all=over_all)
        self.codevector_labels_ = self.classes_[self.history_[-1].labels]
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the nearest codevector (eq. 36) of each sample (n_samples, n_features)."""
        distance = self._settings(False)(self._checked(X), self.codevectors_)
        return np.asarray(self.codevector_labels_[distance.argmin(axis=1)])


@dataclass(eq=False, repr=False)
class LiteralRegressor(RegressorMixin, _Literal):
    """Algorithms 2 and 3 of "Multi-Resolution Online Deterministic Annealing", as they are printed.

    The codebook follows the inputs alone, while each cell learns a model; the model of the nearest cell
    predicts. `ODARegressor` is the improved version, with better results.

    Parameters
    ----------
    max_codevectors : int, default=64
        K_max.
    local_model : {"constant", "linear"}, default="constant"
        `"constant"`: Algorithm 3, averages of f(x) p with the stepsizes of the codebook (eq. 28).
        `"linear"`: Algorithm 2, gradient steps of the nearest cell's model on the squared error (eq. 27)
        with separate stepsizes beta, falling as n^-`power`, n the samples at this temperature. As
        alpha = 1 / (a + b n), alpha / beta tends to 0 for a power below 1 (Theorem 6: and above 0.5).
    rate : float, default=0.4
        beta at the first sample, times the number of parameters of a model; for standardised inputs and
        outputs.
    power : float, default=0.6
        See `local_model`.
    t_max, t_min, cooling, divergence, stepsize, samples_per_cell, tol_converge, tol_merge, min_weight,
    perturbation, random_state
        As for `LiteralClassifier`; inputs are standardised, and temperatures are in these units.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        The codevectors at the end of the annealing.
    weights_ : ndarray of shape (n_codevectors,)
        Their probabilities; they sum to one.
    values_ : ndarray of shape (n_codevectors,)
        What the models predict at the codevectors.
    history_ : list of LiteralPoint
        One record per temperature.
    n_codevectors_, n_samples_seen_, temperature_
        K, samples presented, and the temperature reached.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 500)[:, None]
    >>> model = LiteralRegressor(32, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.9)
    True
    """

    local_model: str = "constant"
    rate: float = 0.4
    power: float = 0.6
    _own_constraints: ClassVar[dict[str, Any]] = {
        "local_model": [choice("constant", "linear")],
        "rate": [POSITIVE],
        "power": [NON_NEGATIVE],
    }

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from inputs (n_samples, n_features) and outputs y (n_samples,), in many passes."""
        given, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)
        self._inputs, self._outputs = StandardScaler().fit(given), StandardScaler()
        outputs = self._outputs.fit_transform(np.reshape(y, (-1, 1)).astype(np.float64))
        linear = self.local_model == "linear"
        n = 1 + given.shape[1] if linear else 1
        rate = self.rate / n if linear else 0.0
        samples, labels = self._inputs.transform(given), np.zeros(len(given), dtype=np.int64)
        self._anneal(samples, labels, outputs, n, rate=rate, power=self.power)
        self.history_ = [
            point._replace(codevectors=self._inputs.inverse_transform(point.codevectors))
            for point in self.history_
        ]
        self.codevectors_ = self.history_[-1].codevectors
        self.values_ = self.predict(self.codevectors_)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Predict outputs of samples (n_samples, n_features) by the model of the nearest cell."""
        return self.staged_predict(X, -1)

    def staged_predict(self, X: ArrayLike, level: int) -> Array:
        """Predict with the codebook at the end of a temperature: record `level` of `history_`."""
        samples, point = self._inputs.transform(self._checked(X)), self.history_[level]
        cells = self._inputs.transform(point.codevectors)
        theta = point.labels[:, self._settings(False)(samples, cells).argmin(axis=1)]
        found = theta[0] + (theta[1:].T * samples).sum(axis=1) if len(theta) > 1 else theta[0]
        return np.asarray(self._outputs.inverse_transform(found[:, None])[:, 0])
