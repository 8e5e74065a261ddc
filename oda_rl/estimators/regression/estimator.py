"""Progressive regression: a scikit-learn estimator with local models in cells."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl import storage
from oda_rl._schema import Schema, Sizes
from oda_rl.estimators.copies import without_copies
from oda_rl.estimators.drift import Forgetful, Watch, watch_schema
from oda_rl.estimators.one_sample import observe_one
from oda_rl.estimators.parameters import choice, declared, may_be_flat, restored
from oda_rl.estimators.regression.base import CodebookRegressor
from oda_rl.estimators.regression.local_models import KNOWN, LocalModel
from oda_rl.estimators.regression.one_sample import PreparedOutputs, row_of
from oda_rl.estimators.regression.predictor import Predictor, judge_schema
from oda_rl.estimators.regression.session import RegressionRun
from oda_rl.estimators.regression.settings import ModelSettings
from oda_rl.estimators.session_schema import regression_schema
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data, check_data

Array = NDArray[np.float64]
# What a model file has in place of a local model of the user's own.
OWN = "own"


@dataclass(eq=False, repr=False)
class ODARegressor(Forgetful, CodebookRegressor):
    """Regression by online deterministic annealing: a codebook whose cells have local models.

    Cells split as the temperature falls, in the space of inputs and outputs together, so that they
    follow the function and not only the inputs. Every cell has a model of its own, constant or linear
    or one of the user's, that learns by recursive least squares as the cells move (on two timescales, as
    printed: `oda_rl.papers.LiteralRegressor`). Predictions are those of the models, weighted by
    association probabilities of the inputs alone.

    Parameters
    ----------
    max_codevectors : int, default=60
        Annealing stops at so many cells (K_max); there are never more, and after `fit` no more than have
        as many samples as parameters, nor than 1,000 parameters for an output.
    local_model : {"linear", "constant"} or LocalModel, default="linear"
        The model of a cell; for one of your own see `oda_rl.local_models.LocalModel`.
    output_weight : float, default=1.0
        What the outputs count in the distance while cells are learned, both in standard deviations; with
        0 cells follow the inputs alone.
    softness : float or "auto", default="auto"
        How far cells overlap in predictions: the temperature of the association probabilities, in mean
        squared distances of inputs from their codevectors. With 0 a prediction is that of the nearest
        cell. With 1 a cell's model is what the function does there. More is more accurate where the
        function is smooth, but the models of single cells then mean little. `"auto"` is chosen by
        `fit` by generalised cross-validation, and is 1 in a stream.
    ridge : float or "auto", default="auto"
        With which `fit` draws the local models towards that of a single cell. `"auto"` is chosen by
        generalised cross-validation.
    pilot_rounds : int, default=2
        Partitions that `fit` learns first. They scale the inputs by the slopes of the function along
        them, and give the cells outputs without noise to follow. A stream has one at most, of its first
        `n_warmup` samples, and cells that follow the outputs as they are. With 0 all inputs count the
        same, in standard deviations, as they do where `fit` finds that cells then err clearly less, of
        few samples with many features on samples left out.
    kernel : {"auto", None}, default="auto"
        Whether `fit` ends by trying a kernel machine beside linear cells of two features or more, over
        800 of the samples at most: it keeps it where outputs left out say that both together err
        clearly less. These samples are then stored, and cells tell but a part of why. With None, and
        where `softness` or `ridge` is given, cells tell all. Trees have none.
    t_max, t_min : float or "auto", default="auto"
        First and last temperature, in units of the scaled inputs and outputs; as for `ODAPartition`.
    cooling : float, default=0.7
        What the temperature is multiplied by at each step (gamma), in (0, 1).
    finish : bool, default=True
        Whether `fit` ends by taking the cells to temperature zero and fitting all models together by
        ridge regression; without, both are as the samples left them one after the other.
    stepsize : tuple of two floats, default=(1.0, 1.0)
        (a, b) of the stepsizes 1 / (a + b n) of the cells, n the samples at this temperature.
    samples_per_cell : int, default=20
        Samples presented at one temperature, at most, times the cells.
    schedule, max_samples, tol_converge, tol_merge, min_weight, perturbation
        As for `ODAPartition`.
    n_warmup : int, default=200
        Samples of a stream that are gathered first: they tell the scales of inputs and outputs, and how
        much the inputs matter. Until then predictions are those of one ridge plane over them, or with
        other than linear models the mean of their outputs.
    forgetting : {"adwin", None}, default="adwin"
        Whether a stream is watched: samples are judged by what was known before them, and where
        ADWIN finds that they err more than before, learning begins anew from the
        latest samples. `drifts_` tells when. None never forgets: for streams that are ordered, such as
        by class.
    random_state : int, RandomState instance or None, default=None
        Orders the samples of `fit`, and draws perturbations.
    verbose : int, default=0
        As for `ODAPartition`.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        In the units of X.
    weights_ : ndarray of shape (n_codevectors,)
        Probabilities of the cells; they sum to one.
    values_ : ndarray of shape (n_codevectors,) or (n_codevectors, n_outputs)
        What the model of a cell, and a kernel if there is one, predict at its codevector, in the units
        of y.
    coef_ : ndarray of shape (n_codevectors, n_features) or (n_codevectors, n_outputs, n_features)
        Slopes of the same in the units of y per X, at the codevectors; zeros for constant models.
        Not there with a model of your own.
    relevance_ : ndarray of shape (n_features,)
        What a standard deviation of each input counts in the distance; the largest is 1.
    softness_ : float
        The overlap that is used.
    n_codevectors_ : int
        K.
    temperature_ : float
        The temperature reached; infinite before a stream has warmed up.
    converged_ : bool
        Whether the annealing is done.
    n_samples_seen_ : int
        Samples presented so far, repetitions included.
    history_ : list of RegressionPoint
        One record per temperature.
    drifts_ : list of DriftPoint
        Changes of the stream at which learning began anew.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had them.

    See Also
    --------
    ODAPartition : The cells alone.
    sklearn.tree.DecisionTreeRegressor : Constant models over boxes.

    Notes
    -----
    The models follow recursive least squares driven by the error of the mixture: where cells do not
    overlap, that is eq. 27 with the inverse second moments of the cell as the stepsize, and for constant
    models eq. 28 (with f(x) p, not x p). What a model has learned before counts as a few samples when a
    temperature begins, as cells then move; once the annealing is done nothing is forgotten. The
    association probabilities of predictions are those of eq. 6, without the weights of the cells.

    Where inputs have long tails, `fit` also tries them mapped to a normal by their ranks, and keeps that
    if cross-validation finds that it errs clearly less. Models are then linear in what inputs become.
    Of several features it tries their effects, too, functions of one each, linear between its levels
    or quantiles, whose sum is near the outputs: so can features be followed that number kinds, jump or
    bend alike everywhere. `coef_` and `codevectors_` are of the features themselves.

    Predictions go no further beyond the outputs seen than a tenth of their range. Inputs further out
    than a quarter of the range of all but the outermost hundredth of the samples of `fit` count as
    there; or, where there are long tails and cross-validation finds that `fit` then errs clearly less,
    those further out than any of its samples.

    A local model of your own is a Python object, and called for every sample: some 80 times slower.

    References
    ----------
    Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A Hierarchical and Progressive
    Learning Architecture", section III, Algorithms 2 and 3.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODARegressor
    >>> X = np.random.default_rng(0).uniform(0.0, 6.0, (500, 1))
    >>> model = ODARegressor(8, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.05)
    True
    >>> model.coef_.shape, model.values_.shape
    ((8, 1), (8,))
    >>> stream = ODARegressor(8, random_state=0)
    >>> for x in X:
    ...     _ = stream.partial_fit([x], np.sin(x))
    >>> stream.n_samples_seen_
    500
    """

    max_codevectors: int = 60
    _: KW_ONLY
    local_model: str | LocalModel = "linear"
    output_weight: float = 1.0
    softness: float | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = "auto"
    pilot_rounds: int = 2
    kernel: str | None = "auto"
    t_max: float | Literal["auto"] = "auto"
    t_min: float | Literal["auto"] = "auto"
    cooling: float = 0.7
    schedule: str = "temperature"
    finish: bool = True
    max_samples: int | None = None
    stepsize: tuple[float, float] = (1.0, 1.0)
    samples_per_cell: int = 20
    tol_converge: float = 1e-3
    tol_merge: float = 0.01
    min_weight: float = 1e-5
    perturbation: float = 0.1
    n_warmup: int = 200
    forgetting: str | None = "adwin"
    random_state: Any = None
    verbose: int = 0

    _own_constraints: ClassVar = {"local_model": [choice(*KNOWN), LocalModel]}
    _told = (
        *("codevectors_", "weights_", "values_", "coef_", "relevance_", "softness_"),
        "n_codevectors_",
    )

    # -- learning --------------------------------------------------------------------------------

    def _fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        run, samples, weight = self._take_in(X, y, sample_weight, begin=True)
        d = run.n_features
        data = without_copies(Data(samples[:, :d], samples[:, d:], weight))
        run.fit(np.hstack([data.samples, data.targets]), data.weight / data.weight.mean())
        self._publish()

    def _partial_fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        run, samples, weight = self._take_in(X, y, sample_weight, begin=not hasattr(self, "_run"))
        d = run.n_features
        data = Data(samples[:, :d], samples[:, d:], weight)
        self._watched(data)

    def _take_in(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, begin: bool
    ) -> tuple[RegressionRun, Array, Array]:
        """The run, a new one to `begin`; inputs and outputs side by side; weights."""
        settings, models = self._settings(begin)
        data = check_data(self, self._divergence, X, y, sample_weight, reset=begin, targets="outputs")
        outputs = data.targets.reshape(len(data.weight), -1).astype(np.float64)
        n_outputs = outputs.shape[1]
        if begin:
            self._flat = data.targets.ndim == 1
            n_inputs = self.n_features_in_
            self._run = RegressionRun(settings, models, n_inputs, n_outputs, self._generator())
            self._watch = Watch()
        elif n_outputs != self._run.n_outputs:
            raise ValueError(
                f"y must have as many outputs as before, {self._run.n_outputs}, got {n_outputs}."
            )
        else:
            self._run.resume(settings)
        return self._run, np.column_stack([data.samples, outputs]), data.weight

    def _annealing(self) -> Settings:
        return self._settings(begin=False)[0]

    def _observe_one(self, run: RegressionRun, X: Array, y: Any) -> bool:
        row = row_of(run, self._flat, X, y)
        if row is None:
            return False
        outputs = row[:, run.n_features :]
        return self._watched_few(X, outputs, observe_one, run, row, PreparedOutputs) > 0

    def _learn(self, data: Data) -> None:
        self._run.observe(np.hstack([data.samples, data.targets]), data.weight)
        self._count()
        self._tell_later()

    def _judge(self) -> Predictor | None:
        return None if self._run.annealer is None else self._run.predictor.frozen()

    def _losses(self, judge: Predictor, data: Data) -> Array:
        """Squared errors e in variances of the outputs, as e / (1 + e)."""
        deviation = judge.scaling.deviation[-data.targets.shape[1] :]
        error = (judge.outputs(data.samples) - data.targets) / deviation
        squared = (error**2).mean(axis=1)
        return np.asarray(squared / (1.0 + squared))

    def _begin_anew(self, recent: Data) -> None:
        old = self._run
        sizes = old.n_features, old.n_outputs
        run = RegressionRun(old.settings, old.models, *sizes, old.rng)
        run.observe(np.hstack([recent.samples, recent.targets]), recent.weight)
        run.n_seen = old.n_seen
        self._run = run
        self._count()
        self._tell_later()

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: storage.PathOrFile, local_model: LocalModel | None = None) -> Self:  # type: ignore[override]
        """Read an estimator from a model file; `partial_fit` goes on exactly where it was.

        Parameters
        ----------
        path : str, path or binary file
            The file.
        local_model : LocalModel, optional
            Needed if the estimator was saved with a local model of the user's own.

        Returns
        -------
        ODARegressor

        Raises
        ------
        ValueError
            If the file is damaged or holds something else, or needs a local model that was not given.
        """
        state = storage.load(path, cls.__name__, cls._schema())
        saved = state["parameters"]["local_model"]
        if (saved == OWN) != (local_model is not None):
            raise ValueError(
                "local_model must be given to load if the file was saved with one of the user's own, "
                f"which a file cannot hold, and else be left out; it was saved with {saved!r}."
            )
        with storage.restoring(path):
            model: Self = restored(cls, state, local_model=local_model)
            model._set_state(state)
        return model

    # -- inside ----------------------------------------------------------------------------------

    def _read_parameters(self) -> tuple[Settings, ModelSettings]:
        return Settings.of(self), ModelSettings.of(self)

    def _stored(self) -> dict[str, Any]:
        state = super()._stored()
        if self._run.own is not None:
            state["parameters"]["local_model"] = OWN
        return state

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        run = {"n_outputs": "count in [1, inf) as m", "flat": may_be_flat, "run": regression_schema}

        def watch(around: Any, sizes: Sizes) -> Schema:
            model = around["parameters"]["local_model"]
            sizes["linear"] = KNOWN.index(model) if model in KNOWN else -1
            return watch_schema("regressor", judge_schema)

        return declared(cls) | run | {"watch": watch}

    def _get_state(self) -> dict[str, Any]:
        run, watch = self._run.get_state(), self._watch.get_state()
        return {"n_outputs": self._run.n_outputs, "flat": self._flat, "run": run, "watch": watch}

    def _set_state(self, state: dict[str, Any]) -> None:
        self._flat = state["flat"]
        sizes = self.n_features_in_, state["n_outputs"]
        settings, models = self._settings(begin=True)
        self._run = RegressionRun(settings, models, *sizes, np.random.default_rng())
        self._run.set_state(state["run"])
        kind = 1 + self.n_features_in_ if self._run.linear else 1, self._run.own
        self._watch = Watch.restored(state["watch"], lambda judge: Predictor.restored(judge, *kind))
        self._publish()
