"""Progressive regression: a scikit-learn estimator with local models in cells."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from oda_rl import storage
from oda_rl._schema import Schema, Sizes
from oda_rl.estimators.copies import without_copies
from oda_rl.estimators.drift import loss_of_mean
from oda_rl.estimators.parameters import choice, declared, may_be_flat, restored
from oda_rl.estimators.regression.local_models import KNOWN, LocalModel, ModelSettings
from oda_rl.estimators.regression.predictor import Predictor, judge_schema
from oda_rl.estimators.regression.session import RegressionRun
from oda_rl.estimators.regression.stream import StreamRegressor
from oda_rl.estimators.session_schema import regression_schema
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.stream_watch import Watch, watch_schema
from oda_rl.estimators.targets import Data, check_data

# Stored in place of a user-defined local model.
OWN = "own"


@dataclass(eq=False, repr=False)
class ODARegressor(StreamRegressor):
    """Regression by online deterministic annealing: a codebook whose cells have local models.

    Cells split as the temperature falls, in the joint space of inputs and outputs, so that they follow
    the function and not only the inputs. Every cell has its own model: a constant or linear one, learned
    by recursive least squares, or a user-defined one. (For the two timescales as printed see
    `oda_rl.papers.LiteralRegressor`.) Predictions are averages of those of the models, weighted by
    association probabilities of the inputs alone.

    Parameters
    ----------
    max_codevectors : int, default=60
        Maximum number of cells (K_max), at which annealing stops. `fit` reduces it so that there are as
        many samples per cell as its model has parameters, and at most 1,000 parameters per output.
        `partial_fit` reduces it so that linear models have a million second moments, (d + 1)^2 per cell.
    local_model : {"linear", "constant"} or LocalModel, default="linear"
        The model of a cell. User-defined ones, see `oda_rl.local_models.LocalModel`, are called in
        Python for every sample: some 80 times slower.
    output_weight : float, default=1.0
        How much outputs count in the distance while cells are learned, relative to inputs, both in
        standard deviations; with 0 cells follow the inputs alone.
    softness : float or "auto", default="auto"
        How far cells overlap in predictions: the temperature of the association probabilities, in mean
        squared distances of inputs from their codevectors. With 0 a prediction is that of the nearest
        cell. With 1 a cell's model approximates the function there. Larger values are more accurate for
        smooth functions, but then the models of single cells mean little. `"auto"` is chosen by `fit`
        by leave-one-out cross-validation, and is 1 in a stream before its samples are fitted.
    ridge : float or "auto", default="auto"
        Strength with which `fit` draws the local models towards that of a single cell. `"auto"` is
        chosen by leave-one-out cross-validation.
    pilot_rounds : int, default=2
        Number of pilots: partitions that `fit` learns first. They scale each input by the slopes of the
        function along it, and provide outputs without noise for the cells to follow. A stream has at
        most one, from its first `n_warmup` samples, until it is fitted (see Notes). With 0 all inputs
        count the same, in standard deviations. `fit` also does without pilots if this clearly lowers
        cross-validated errors or, with few samples per parameter, errors on held-out samples.
    kernel : {"auto", None}, default="auto"
        Whether `fit` finally tries a kernel machine in addition to linear cells, with two or more
        features, over at most 800 of the samples. It is used if that clearly lowers leave-one-out
        errors. These samples are then stored, and cells explain only a part of the predictions. With
        None, or if `softness` or `ridge` is given, there are only cells. Trees have no kernel.
    t_max, t_min : float or "auto", default="auto"
        First and last temperature, in units of the scaled inputs and outputs; as for `ODAPartition`.
    cooling : float, default=0.7
        Factor of the temperature at each step (gamma), in (0, 1).
    finish : bool, default=True
        Whether `fit` ends by taking the cells to temperature zero and fitting all models together by
        ridge regression. Otherwise both stay as learned from one sample after the other.
    stepsize : tuple of two floats, default=(1.0, 1.0)
        (a, b) of the stepsizes 1 / (a + b n) of the cells, n being the samples at this temperature.
    samples_per_cell : int, default=20
        Maximum number of samples presented at one temperature, per cell.
    schedule, max_samples, tol_converge, tol_merge, min_weight, perturbation
        As for `ODAPartition`.
    n_warmup : int, default=200
        Samples of a stream that are buffered first, to estimate the scales of inputs and outputs and
        the relevance of inputs. Until then predictions are those of a linear ridge regression on them,
        or for other than linear models the mean of their outputs.
    forgetting : {"adwin", None}, default="adwin"
        Whether a stream is monitored for changes: outputs are predicted before they are learned, and if
        ADWIN detects larger errors than before, learning restarts from the latest samples (see
        `drifts_`). None never forgets, and never fits a stream's samples: for ordered streams.
    random_state : int, RandomState instance or None, default=None
        Shuffles the samples of `fit`, and draws perturbations.
    verbose : int, default=0
        As for `ODAPartition`.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        In the units of X.
    weights_ : ndarray of shape (n_codevectors,)
        Probabilities of the cells; they sum to one.
    values_ : ndarray of shape (n_codevectors,) or (n_codevectors, n_outputs)
        Prediction of the model of each cell, plus the kernel if there is one, at its codevector, in the
        units of y.
    coef_ : ndarray of shape (n_codevectors, n_features) or (n_codevectors, n_outputs, n_features)
        Slopes of these predictions at the codevectors, in the units of y per X; zeros for constant
        models. Missing with a user-defined model.
    relevance_ : ndarray of shape (n_features,)
        How much a standard deviation of each input counts in the distance; the largest is 1.
    softness_ : float
        The overlap in use.
    n_codevectors_ : int
        K.
    temperature_ : float
        The current temperature; infinite before a stream has warmed up.
    converged_ : bool
        Whether the annealing is done.
    n_samples_seen_ : int
        Samples presented so far, repetitions included.
    history_ : list of RegressionPoint
        One record per temperature.
    drifts_ : list of DriftPoint
        Changes of the stream at which learning restarted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had them.

    See Also
    --------
    ODAPartition : The cells alone.

    Notes
    -----
    The models are learned by recursive least squares, driven by the error of the mixture. If cells do
    not overlap, this is eq. 27 with the inverse second moments of the cell as the stepsize, and for
    constant models eq. 28 (with f(x) p, not x p). When a temperature begins, what a model has learned
    counts as only a few samples, since cells then move; later nothing is forgotten. Predictions use the
    association probabilities of eq. 6, without weights.

    If inputs have long tails, `fit` maps them to a normal distribution by their ranks, if this clearly
    lowers cross-validated errors. Models are then linear in the mapped inputs. With several features it
    also tries their effects as further inputs: functions of one feature each, linear between its levels
    or quantiles, whose sum approximates the outputs. They suit features that are codes of categories, or
    whose effect jumps or bends in the same way everywhere. `coef_` and `codevectors_` are those of the
    features themselves.

    A stream is fitted, too, at 256 and 1,024 samples since learning began, without a kernel machine; if
    inputs advance, only where that predicts the latest better. Then cells rest until a change is found.
    Before `n_warmup` samples, fits at 32 and each doubling predict, unless inputs advance; learning then
    begins again with all samples, as if there had been none of these. So it is after a change.

    Predictions are clipped at a tenth of the range of the outputs seen beyond that range. `fit` clips
    inputs at a quarter of their range beyond it, where the range is that of all samples but the
    outermost hundredth; or, with long tails and if this clearly lowers cross-validated errors, at the
    range of all samples. A stream after `fit` widens this range by the samples that it learns from, at
    first by at most a quarter of a standard deviation each, except for inputs mapped by their ranks.

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
    _lazy_attributes = (
        *("codevectors_", "weights_", "values_", "coef_", "relevance_", "softness_"),
        "n_codevectors_",
    )

    # -- learning --------------------------------------------------------------------------------

    def _fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        data = self._checked(X, y, sample_weight, begin=True)
        data = without_copies(data._replace(weight=self._begin_weights(data.weight)))
        self._run.fit(np.hstack(data[:2]), data.weight / data.weight.mean())
        self._publish()
        self._expect_no_change(data, loss_of_mean(data))

    def _partial_fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        self._watched(self._checked(X, y, sample_weight, begin=not hasattr(self, "_run")))

    def _checked(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, begin: bool
    ) -> Data:
        """Validated data with outputs (n_samples, n_outputs), for the run: a new one if `begin`."""
        settings, models = self._settings(begin)
        data = check_data(self, self._divergence, X, y, sample_weight, reset=begin, targets="outputs")
        outputs = data.targets.reshape(len(data.weight), -1).astype(np.float64)
        n_outputs = outputs.shape[1]
        if begin:
            self._flat = data.targets.ndim == 1
            own = settings, models, self.n_features_in_, n_outputs
            self._run = RegressionRun(*own, self._generator())
            self._watch = Watch()
        elif n_outputs != self._run.n_outputs:
            raise ValueError(
                f"y must have {self._run.n_outputs} outputs, as in earlier calls, got {n_outputs}."
            )
        else:
            self._run.resume(settings)
        return data._replace(targets=outputs)

    def _annealing(self) -> Settings:
        return self._settings(begin=False)[0]

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: storage.PathOrFile, local_model: LocalModel | None = None) -> Self:  # type: ignore[override]
        """Read an estimator from a model file; `partial_fit` continues exactly where it stopped.

        Parameters
        ----------
        path : str, path or binary file
            The file.
        local_model : LocalModel, optional
            Needed if the estimator was saved with a user-defined local model.

        Returns
        -------
        ODARegressor

        Raises
        ------
        ValueError
            If the file is damaged or holds something else, or if `local_model` is missing or not needed.
        """
        state = storage.load(path, cls.__name__, cls._schema())
        saved = state["parameters"]["local_model"]
        if (saved == OWN) != (local_model is not None):
            raise ValueError(
                "local_model must be given if, and only if, the file was saved with a user-defined "
                f"local model, which a file cannot store; it was saved with {saved!r}."
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
        (settings, models), m = self._settings(begin=True), state["n_outputs"]
        self._run = RegressionRun(settings, models, self.n_features_in_, m, np.random.default_rng())
        self._run.set_state(state["run"])
        q = 1 + self.n_features_in_ if self._run.linear else 1
        judge = partial(Predictor.restored, q=q, own=self._run.own)
        self._watch = Watch.restored(state["watch"], judge, self._relearn_at)
        self._publish()
