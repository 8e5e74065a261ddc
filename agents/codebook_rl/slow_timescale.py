"""The slow timescale of a learner: its codebook, the annealer that refines it, and its renewal."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.codebook_rl.branches import BranchTree
from oda_rl.agents.config import CodebookConfig, GrowthPlan
from oda_rl.agents.observation_scale import SMALLEST
from oda_rl.agents.warm_up import plan_warm_up
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.schedule import Cooling, Stepsize

# A run counts as so many warm-ups at least: others may follow, for which cells would be too few.
SHORTEST_RUN = 5


class _StayingAnnealer(Annealer):
    """An annealer that does not relocate cells once it is done, because values belong to them."""

    moves_cells = False


class SlowTimescale:
    """The codebook, which the compiled step updates, and its changes between annealing levels.

    `codebook` has the cells, in scaled units; on a `tree` they are in the order of its branches. The
    `annealer` is None until `begin`. `rng` draws the directions of splits.
    """

    def __init__(self, sizes: Sizes, config: CodebookConfig, rng: np.random.Generator) -> None:
        self.codebook = Codebook(sizes.n_features, payload=sizes.payload, capacity=sizes.capacity)
        self.annealer: Annealer | None = None
        self.plan: GrowthPlan = config.plan_growth(sizes.n_joint > 0)
        self._sizes, self._config, self._rng = sizes, config, rng
        self._n_before = 0  # cells of the codebook that this one replaces
        self._grown = False  # whether `max_cells` is the limit, no longer that of growing alone
        self.tree = self._new_tree()

    def begin(self, points: NDArray[np.float64], action_weight: float = 1.0, n_before: int = 0) -> None:
        """Begin with one cell for each label, at its critical temperature.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_observed)
            Observations in scaled units. Continuous actions are taken to be uniform.
        action_weight : float, default=1.0
            Half the range of a continuous action that is part of a location, in scaled units.
        n_before : int, default=0
            Cells of the codebook that this one replaces; it may grow to as many before learning goes on.
        """
        book, n = self.codebook, points.shape[1]
        book.n_cells, self._grown, self._n_before = 0, False, n_before
        centre = np.zeros(book.n_features)
        centre[:n] = points.mean(axis=0)
        covariance = np.eye(book.n_features) * action_weight**2 / 3.0
        covariance[:n, :n] = np.cov(points.T)
        critical = book.divergence.critical_temperature(centre, covariance)
        critical = max(critical, SMALLEST)  # observations that never change have no critical one
        for label in range(self._sizes.n_labels):
            book.add(centre, 1.0 / self._sizes.n_labels, label)
        self.annealer = self._make_annealer(critical, self._config.min_temperature * critical)
        values, vectors = np.linalg.eigh(covariance)
        book.axis[:, : len(book)] = 2.0 * values[-1] * vectors[:, -1:]
        book["density"][:] = 1.0 / len(book)
        self.tree = self._new_tree()

    def number_states(self, counts: NDArray[np.int64]) -> None:
        """Make the codebook a table: one fixed cell for each state.

        Parameters
        ----------
        counts : ndarray of int, shape (n_observed,)
            Number of values of each coordinate of an observation; the last coordinate varies fastest.
        """
        places = np.indices(counts.tolist()).reshape(len(counts), -1)
        self.codebook.set_state(
            {
                "location": places.astype(np.float64),
                "weight": np.full(places.shape[1], 1.0 / places.shape[1]),
                "label": np.zeros(places.shape[1], dtype=np.int64),
                "axis": np.zeros(places.shape),
                "payload": np.zeros((len(self.codebook.payload), places.shape[1])),
            }
        )

    def end_level(self, n: int, distortion: float) -> None:
        """Finish an annealing level after `n` updates: merge, prune, cool, split, renew the branches.

        At the last temperature n goes on from where the last check was.
        """
        assert self.annealer is not None
        self.annealer.distortion = distortion
        self.annealer.n_samples_seen += n - self.annealer.n
        self.annealer.n = n
        self.annealer.end_level()
        self.annealer.use_stepsize(self._stepsize())
        if self.tree:
            self.tree.renew(self.codebook)

    def is_grown(self, steps: int, horizon: int) -> bool:
        """Whether growing without learning is over after `steps`, in a run of `horizon` steps.

        A run that is made call by call has the horizon of the present call, often a short one.
        """
        assert self.annealer is not None
        run = max(horizon, SHORTEST_RUN * plan_warm_up(self._config.warmup_steps))
        longest = min(self.plan.steps, self._config.growth_fraction * run)
        if self._n_before:  # it grows by stored observations, which use up no steps of the run
            longest = self.plan.steps * max(1.0, self._n_before / self.plan.cells)
        return self.annealer.done or steps >= longest

    def go_on(self) -> None:
        """Let the codebook grow up to `max_cells`."""
        self._grown = True
        self.use(self._config)

    def use(self, config: CodebookConfig) -> None:
        """Use other hyperparameters from now on; go on annealing if they allow more cells."""
        self._config, self.plan = config, config.plan_growth(self._sizes.n_joint > 0)
        annealer, settings = self.annealer, self._settings()
        if annealer is not None:
            if settings["max_codevectors"] > annealer.max_codevectors:
                annealer.done = False
            vars(annealer).update(settings)

    def get_state(self, under_way: bool) -> dict[str, Any]:
        """Return plain values and arrays, with traces if `under_way`; empty before `begin`."""
        if self._sizes.is_table:
            values = self.codebook.payload[:, : self.codebook.n_cells]
            rows = self._sizes.trace_rows
            return {"payload": values.copy() if under_way else np.delete(values, rows, axis=0)}
        if self.annealer is None:
            return {}
        annealing = self.annealer.get_state()
        del annealing["reference"]  # unused: a level here ends after a number of samples
        book = self.codebook.get_state()
        if not under_way:
            book["payload"] = np.delete(book["payload"], self._sizes.trace_rows, axis=0)
        return {
            "annealer": annealing,
            "t_max": self.annealer.t_max,
            "t_min": self.annealer.t_min,
            "codebook": book,
            "tree": self.tree.get_state() if self.tree else {},
        }

    def set_state(self, state: dict[str, Any], grown: bool) -> None:
        """Go on from `get_state`; with up to `max_cells` cells if the codebook was `grown`."""
        self._grown = grown
        if self._sizes.is_table:
            self.codebook.payload[:, : self.codebook.n_cells] = self._with_traces(state["payload"])
            return
        if "annealer" not in state:
            self.annealer, self.codebook.n_cells = None, 0
            self.tree = self._new_tree()
            return
        book = dict(state["codebook"])
        book["payload"] = self._with_traces(book["payload"])
        self.codebook.set_state(book)
        self.annealer = self._make_annealer(state["t_max"], state["t_min"])
        # This also restores the generator that the annealer shares to its state after the block.
        reference = self.codebook.location[:, : self.codebook.n_cells]
        self.annealer.set_state({**state["annealer"], "reference": reference})
        if self.tree:
            self.tree.set_state(state["tree"])

    def _with_traces(self, payload: NDArray[np.float64]) -> NDArray[np.float64]:
        """A stored payload with traces; traces of 0 are inserted if it has none."""
        rows = self._sizes.trace_rows
        if len(payload) == len(self.codebook.payload):
            return payload
        silent = np.zeros((rows.stop - rows.start, payload.shape[1]))
        return np.insert(payload, [rows.start], silent, axis=0)

    def _new_tree(self) -> BranchTree | None:
        wanted = self._config.tree and not self._sizes.is_table
        return BranchTree(self._sizes.n_observed) if wanted else None

    def _make_annealer(self, t_max: float, t_min: float) -> Annealer:
        return _StayingAnnealer(
            self.codebook,
            t_max=t_max,
            t_min=t_min,
            tol_converge=0.0,
            bifurcation=self._config.bifurcation,
            seed=self._rng,
            **self._settings(),
        )

    def _settings(self) -> dict[str, Any]:
        """The settings of the annealer that may change."""
        config, plan = self._config, self.plan
        return {
            "cooling": Cooling(config.cooling),
            "stepsize": self._stepsize(),
            "max_codevectors": plan.max_cells if self._grown else max(plan.cells, self._n_before),
            "tol_merge": config.tol_merge,
            "min_weight": config.min_weight,
            "perturbation": config.perturbation,
            "check_every": plan.samples,
            "max_samples": plan.samples,
        }

    def _stepsize(self) -> Stepsize:
        """The stepsize rule of the kernel, without the flattening."""
        return Stepsize(self._config.slow_a * max(1, self.codebook.n_cells), self._config.slow_b)


# -- a new codebook in other units -------------------------------------------------------------------


class FormerCells(NamedTuple):
    """The cells of a codebook that a new one, grown in other units, replaces; in their own units.

    `location` (n_cells, n_observed) and `payload` (n_rows, n_cells) are those of the cells, which
    overlap at `temperature`; at 0 the nearest cell alone is active. `centre` and `scale` (n_observed,)
    are the units. `reach` (2, n_observed) has the lowest and highest coordinates, in these units, to
    which the cells apply; points outside of them are clipped.
    """

    location: Array
    payload: Array
    temperature: float
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    reach: Array


def mix_periods(remembered: Array, visited: Array, era: int, rng: np.random.Generator) -> None:
    """Replace some `remembered` observations (m, n_observed) by `visited` ones (n, n_observed).

    `era` counts from 1 the periods since the warm-up. A share of 1 / (era + 1) is replaced, so that the
    warm-up and all periods stay equally represented.
    """
    replaced = rng.permutation(len(remembered))[: len(remembered) // (era + 1)]
    remembered[replaced] = visited[np.linspace(0, len(visited) - 1, len(replaced)).astype(np.int64)]


def carry_over(former: FormerCells, book: Codebook, centre: Array, scale: Array, sizes: Sizes) -> None:
    """Give the cells of `book`, in units of `centre` and `scale`, what `former` cells have learned.

    The functions of linear cells become tangents of the function that all previous cells make together.
    Visits are redistributed, stepsizes are averages, and traces are set to 0.
    """
    n, basis = len(book), sizes.n_basis
    low, high = former.reach
    points = np.clip((book.codevectors * scale + centre - former.centre) / former.scale, low, high)
    distance = ((points[:, None] - former.location) ** 2).sum(axis=2)
    away = distance - distance.min(axis=1, keepdims=True)
    share = (away == 0.0) * 1.0
    if former.temperature > 0.0:
        share = np.exp(-away / former.temperature)
    share /= share.sum(axis=1, keepdims=True)
    kept = sizes.trace_rows.start
    found = former.payload[:kept] @ share.T
    for first in range(0, sizes.n_rows if basis > 1 else 0, basis):
        slopes = slice(first + 1, first + basis)
        parts = share * (former.payload[first] + points @ former.payload[slopes])
        value = parts.sum(axis=1)
        if former.temperature > 0.0:  # the shares of the cells also depend on the location
            turned = parts @ former.location - value[:, None] * (share @ former.location)
            found[slopes] += 2.0 / former.temperature * turned.T
        found[slopes] *= np.minimum(scale / former.scale, high - low)[:, None]
        found[first] = value - (found[slopes] * book.codevectors.T).sum(axis=0)
    found[sizes.n_rows : sizes.n_rows + sizes.n_actions] *= len(former.location) / n
    book.payload[:kept, :n] = found
    book.payload[sizes.trace_rows, :n] = 0.0
