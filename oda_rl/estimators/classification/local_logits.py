"""Linear logits in a few soft cells: local models of the classes, learned on the faster timescale."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._effects import Effects
from oda_rl._statistics import Ranks
from oda_rl._types import Array, Labels
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.divergences import get_divergence
from oda_rl.codebook.lloyd import grow_hard
from oda_rl.codebook.model_learning import INPUT_DISTORTION
from oda_rl.estimators.classification.logistic import Basis, Logits, fit_logistic
from oda_rl.estimators.classification.logit_view import LogitView
from oda_rl.estimators.feature_selection import UNIMPORTANT
from oda_rl.estimators.regression import mixture
from oda_rl.estimators.regression.fitting import set_gains
from oda_rl.estimators.regression.local_models import ModelAnnealer, ModelSettings
from oda_rl.estimators.regression.scaling import Scaling
from oda_rl.estimators.regression.session import RegressionRun
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data, make_place

# Default number of cells; inverse penalties that are tried, the strongest penalty first.
USUAL, PENALTIES = 16, (1.0, 10.0, 100.0)
# Maximum number of cells that are annealed.
ANNEALED = 100
# Maximum number of samples from which a fit learns logits.
LARGEST = 20_000
# Overlap of the cells in a stream, in mean squared distances of samples from the nearest codevector.
STREAM_SOFTNESS = 0.5
# Least width of cells relative to their spacing, for when every sample has a cell of its own.
NARROWEST = 1e-100
# Logit of a class without samples.
ABSENT = -10.0


class LogitTrial(NamedTuple):
    """Number of cells, inverse penalty, the features that are `kept` (None: all), and overlap of cells.

    The unit of `overlap` is the spacing: the median squared distance of a cell from the nearest other.
    Any `effects` of the features' ranks are further features.
    """

    cells: int = USUAL
    penalty: float = PENALTIES[0]
    kept: NDArray[np.bool_] | None = None
    overlap: float = 1.0
    effects: Effects | None = None


class LogitAnnealer(ModelAnnealer):
    """Annealer whose local models are logits: their errors are those of probabilities."""

    link = True

    def grow_hard(self, samples: Array, sample_weight: Array, n_cells: int) -> None:
        """Split cells at temperature zero until there are `n_cells`; see `lloyd.grow_hard`."""
        grow_hard(self.codebook, np.ascontiguousarray(samples), sample_weight, n_cells)
        self.max_codevectors = max(self.max_codevectors, n_cells)
        self._begin_check()


class LogitRun(RegressionRun):
    """A run over features and one-hot classes, whose local models are logits."""

    annealer_type: type[Annealer] = LogitAnnealer
    kept: NDArray[np.bool_] | None = None  # features in use; None: all
    # Spacing of the cells, in mean squared distances of samples from the nearest codevector.
    apart = STREAM_SOFTNESS

    def __init__(
        self, settings: Settings, n_features: int, n_classes: int, rng: np.random.Generator
    ) -> None:
        models = ModelSettings("linear", 0.0, STREAM_SOFTNESS, "auto", 0, None, None)
        super().__init__(settings, models, n_features, n_classes, rng)
        del self.payload["noise"]

    def _in_units(self, samples: Array) -> tuple[Array, Array | None]:
        scaled, _ = super()._in_units(samples)
        return scaled, np.ascontiguousarray(samples[:, self.n_inputs :])

    def fit_cells(self, samples: Array, weight: Array, trial: LogitTrial) -> None:
        """Anneal the cells of a trial, without models; split them at temperature zero beyond `ANNEALED`.

        Features that are not `kept` hardly count for the cells, and models do not use them at all.
        """
        d = self.n_inputs
        samples = self.insert_effects(samples)
        self.scaling = Scaling.of(samples, weight, d, 0.0)
        if trial.kept is not None:
            self.kept = np.concatenate([trial.kept, np.ones(d - self.n_features, dtype=np.bool_)])
            self.scaling.deviation[:d] /= np.where(self.kept, 1.0, UNIMPORTANT)
        scaled = self.scaling.with_outputs(samples, d) * self.scaling.metric
        self.anneal_cells(scaled, weight)
        if trial.cells > ANNEALED:
            assert isinstance(self.annealer, LogitAnnealer)
            self.annealer.grow_hard(scaled, weight, trial.cells)
        codevectors = self.book.codevectors[:, :d]
        width = max(mixture.mean_distance(scaled[:, :d], codevectors, weight), 1e-300)
        if len(codevectors) > 1:
            spacing = mixture.spacing(codevectors)
            width = max(width, NARROWEST * spacing)
            self.apart = spacing / width
        self.figures[INPUT_DISTORTION] = width
        self.overlap(trial.overlap)

    def overlap(self, part: float) -> None:
        """Set the overlap of the cells, in units of their spacing."""
        assert isinstance(self.annealer, ModelAnnealer)
        self.softness = self.annealer.softness = part * self.apart

    def basis(self, samples: Array) -> Basis:
        """The basis functions of the logits: the shares of the cells, and shares times x - mu."""
        assert self.scaling is not None
        d = self.n_inputs
        kept = np.ones(d, dtype=np.bool_) if self.kept is None else self.kept
        inputs = self.scaling.standardise(self.insert_effects(samples)[:, :d])
        return Basis.of(inputs, self.book.codevectors[:, :d], self.gating_temperature, kept)

    def fit_logits(
        self,
        samples: Array,
        labels: Labels,
        weight: Array,
        penalty: float,
        begin: Logits | None = None,
    ) -> None:
        """Fit all local models together by logistic regression, starting at `begin` or at zero."""
        assert self.scaling is not None
        d, book = self.n_inputs, self.book
        logits = fit_logistic(self.basis(samples), labels, weight, penalty, begin)
        used = np.flatnonzero(np.ones(d + 1) if self.kept is None else np.r_[True, self.kept])
        theta = np.zeros((self.n_outputs, d + 1, len(book)))
        theta[np.ix_(logits.of, used)] = logits.models.transpose(1, 2, 0)
        theta[:, 0] -= np.einsum("cdk,kd->ck", theta[:, 1:], book.codevectors[:, :d])
        theta[:, 0] += of_all_classes(logits.of, logits.constant[None], self.n_outputs).T
        book["theta"][:] = theta.reshape(-1, len(book))
        inputs = self.scaling.standardise(self.insert_effects(samples)[:, :d])
        set_gains(self, inputs, np.ones(d), weight, self.gating_temperature)


def of_all_classes(known: Labels, logits: Array, n_classes: int) -> Array:
    """Logits (n_samples, n_classes) of all classes, from those (n_samples, n_known) of `known` ones."""
    every = np.full((len(logits), n_classes), ABSENT)
    every[:, known] = logits
    return every


class LocalLogits:
    """Ranks, cells and logits of an `ODAClassifier`, and their weight relative to its densities.

    Log-probabilities of the two are added with the weights `density` and `logits`, and normalised. In a
    stream they begin after the warm-up, and not before there are the `least` number of samples.
    """

    def __init__(
        self,
        settings: Settings,
        n_features: int,
        n_classes: int,
        rng: np.random.Generator,
        least: int = 1,
    ) -> None:
        self.wanted = max(settings.n_warmup, least)
        self.settings = settings._replace(
            max_codevectors=USUAL,
            divergence=get_divergence("squared_euclidean"),
            t_max="auto",
            t_min="auto",
            finish=True,
        )
        self.n_features, self.n_classes, self.rng = n_features, n_classes, rng
        self.density, self.logits = 0.0, 1.0
        self.ranks: Ranks | None = None
        self.run: LogitRun | None = None
        self._view: LogitView | None = None  # made for predictions, until the logits learn
        self.waiting = Data(np.empty((0, n_features)), np.empty(0, dtype=np.int64), np.empty(0))

    @property
    def is_ready(self) -> bool:
        """Whether logits have been fitted, or a stream of them has warmed up."""
        return self.run is not None and self.run.annealer is not None

    @property
    def view(self) -> LogitView | None:
        """The current state of all that predicts; None without logits."""
        if self.run is None or self.run.annealer is None:
            return None
        own, known = (self.density, self.logits), self._view
        if known is None or own != (known.density, known.logits):
            assert self.ranks is not None
            self._view = LogitView.of(self.ranks, self.run.predictor, *own)
        return self._view

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_view": None}  # views of arrays that are copied by themselves

    # -- all samples at hand ---------------------------------------------------------------------

    def fit(
        self,
        data: Data,
        trial: LogitTrial,
        run: LogitRun | None = None,
        begin: Logits | None = None,
    ) -> None:
        """Learn cells, unless a `run` has them, and logits from raw samples with class numbers."""
        data, self._view = self.some(data), None
        if run is None:
            self.ranks = Ranks.of(data.samples, weight=data.weight)
        self.run = run or self.run_over(data, trial)
        samples = self.side_by_side(data)
        self.run.fit_logits(samples, data.targets, data.weight, trial.penalty, begin)

    def some(self, data: Data) -> Data:
        """All samples, or `LARGEST` random ones if there are more."""
        n = LARGEST
        if len(data.weight) <= n:
            return data
        return data.take(np.sort(self.rng.choice(len(data.weight), n, replace=False)))

    def effects_of(self, data: Data) -> Effects | None:
        """Effects of the ranks of features on the indicators of classes, if there are any."""
        samples, d = self.side_by_side(data), self.n_features
        found = Effects.of(samples[:, :d], samples[:, d:], data.weight)
        return None if found is None else found[0]

    def run_over(self, data: Data, trial: LogitTrial) -> LogitRun:
        """A run with the cells of a trial."""
        settings = self.settings._replace(max_codevectors=min(trial.cells, ANNEALED))
        run = LogitRun(settings, self.n_features, self.n_classes, self.rng)
        if trial.effects is not None:
            run.use_effects(trial.effects)
        run.fit_cells(self.side_by_side(data), data.weight / data.weight.mean(), trial)
        return run

    # -- a stream --------------------------------------------------------------------------------

    def observe(self, data: Data) -> None:
        """Learn from raw samples with class numbers, in their order."""
        self._view = None
        if not self.is_ready:
            self.waiting = self.waiting.joined(data)
            if len(self.waiting.weight) < self.wanted:
                return
            data, self.waiting = self.waiting, self.waiting.take(slice(0, 0))
            first = data.take(slice(0, self.settings.n_warmup))
            self.ranks = Ranks.of(first.samples, weight=first.weight)
            self.run = LogitRun(self.settings, self.n_features, self.n_classes, self.rng)
        assert self.run is not None
        self.run.observe(self.side_by_side(data), data.weight)

    def insert_classes(self, places: list[int]) -> None:
        """Insert new classes, whose numbers among all classes are `places`; the logits restart."""
        for place in places:
            self.n_classes += 1
            self.waiting = self.waiting._replace(targets=make_place(self.waiting.targets, place))
        if places:
            self.run = None

    def side_by_side(self, data: Data) -> Array:
        """The samples of a run: normal scores of the features, and one-hot classes."""
        assert self.ranks is not None
        return np.hstack([self.ranks(data.samples), np.eye(self.n_classes)[data.targets]])

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        return {
            "density": self.density,
            "logits": self.logits,
            "knots": None if self.ranks is None else self.ranks.knots,
            "waiting": self.waiting._asdict(),
            "run": None if self.run is None else self.run.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned, in a new object."""
        self.density, self.logits = float(state["density"]), float(state["logits"])
        self.ranks = None if state["knots"] is None else Ranks(state["knots"])
        self.waiting = Data(**state["waiting"])
        if state["run"] is not None:
            self.run = LogitRun(self.settings, self.n_features, self.n_classes, self.rng)
            self.run.set_state(state["run"])
            assert isinstance(self.run.annealer, ModelAnnealer)
            self.run.annealer.softness = self.run.softness
