"""A kernel machine: the arrays that the compiled loop works on, and how they grow and are stored."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.rkhs import learning
from oda_rl.rkhs.chains import (
    BANDWIDTH,
    BY_LIKELIHOOD,
    BY_LOSS,
    FIXED,
    REGULARIZATION,
    STEPSIZE,
    Chains,
)
from oda_rl.rkhs.expansions import Expansion

Array = NDArray[np.float64]
# Room for so many points at first; it doubles.
ROOM = 64
# Records are put together when they come in more pieces, and thinned out when there are more.
MOST_CHUNKS, MOST_RECORDS = 1000, 50_000
# A set of values reaches this factor below and above the first one.
REACH = 200.0
HYPERPARAMETERS = {"bandwidth": BANDWIDTH, "stepsize": STEPSIZE, "regularization": REGULARIZATION}


@dataclass(frozen=True)
class Rules:
    """What a machine goes by; the estimators explain the fields.

    `kind` is one of the losses in `losses`; the others have the names of the estimators' parameters.
    """

    kind: int
    bandwidth: float
    stepsize: float
    regularization: float
    batch_size: int = 16
    parsimony: float = 0.04
    stepsize_halving: float | None = None
    huber_width: float = 1.0
    average: bool = False
    adapt: tuple[str, ...] = ()
    fitness: str = "likelihood"
    ratio: float = 1.15
    reach: float = REACH
    fitness_rate: float = 0.01
    move_probability: float = 0.9
    slowing: float = 0.05
    window: int = 3000
    max_points: int = 1000
    transfer: str = "keep"


class KernelMachine:
    """Functional stochastic gradient descent for any number of outputs, one dictionary for all.

    Parameters
    ----------
    n_features, n_outputs : int
        Sizes of a sample and of f(x).
    rules : Rules
        Losses, stepsizes and all that.
    rng : Generator
        Draws the moves of the hyperparameters.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_features)
        The dictionary.
    weights : ndarray of shape (n_points, n_outputs)
        Of the last function, or of the average of the functions so far.
    """

    def __init__(self, n_features: int, n_outputs: int, rules: Rules, rng: np.random.Generator) -> None:
        self.rules = rules
        self.rng = rng
        self.n_outputs = n_outputs
        self._records = [np.empty((0, learning.N_COLUMNS))]
        self.settings = np.zeros(learning.N_SETTINGS)
        self.counters = np.zeros(learning.N_COUNTERS, dtype=np.int64)
        self.chains = _chains(rules, n_features)
        columns = n_outputs * (2 if rules.average else 1)
        self.expansion = _expansion(ROOM + rules.batch_size, n_features, columns)
        self.batch = _batch(rules.batch_size, n_features, n_outputs)
        self._fill()

    # -- looking ---------------------------------------------------------------------------------

    @property
    def n_points(self) -> int:
        """The model order: points of the dictionary."""
        return int(self.expansion.size[0])

    @property
    def points(self) -> Array:
        """The dictionary, of shape (n_points, n_features)."""
        return np.ascontiguousarray(self.expansion.points[:, : self.n_points].T)

    @property
    def weights(self) -> Array:
        """The weights that speak, of shape (n_points, n_outputs)."""
        return self.expansion.weights[: self.n_points, self._column :][:, : self.n_outputs].copy()

    def value_of(self, name: str) -> float:
        """The value at present of "bandwidth", "stepsize" (before it falls) or "regularization"."""
        u = HYPERPARAMETERS[name]
        return float(self.chains.sets[u, self.chains.state[u]])

    def __call__(self, x: Array) -> Array:
        """f(x), of shape (n, n_outputs), for samples of shape (n, n_features)."""
        values = np.empty((len(x), self.n_outputs))
        expansion = self.expansion
        bandwidth = self.value_of("bandwidth")
        learning.evaluate(
            x,
            bandwidth,
            expansion.points,
            expansion.weights,
            self.n_points,
            self._column,
            np.empty_like(expansion.near),
            values,
        )
        return values

    @property
    def records(self) -> Array:
        """One row per mini-batch, by the columns in `learning`; of very many, the older ones thinned."""
        return np.concatenate(self._records)

    # -- learning --------------------------------------------------------------------------------

    def learn(self, x: Array, y: Array, weight: Array) -> None:
        """Learn from samples in their order.

        Parameters
        ----------
        x : ndarray of shape (n, n_features)
            Samples, C-contiguous and writeable, as the others.
        y : ndarray of shape (n, 1) or (n, n_outputs)
            Indices of classes, or outputs.
        weight : ndarray of shape (n,)
            Positive.
        """
        n_batches = -(-len(x) // self.rules.batch_size)
        draws = self.rng.random((n_batches, len(HYPERPARAMETERS)))
        records = np.empty((n_batches, learning.N_COLUMNS))
        done = 0
        while done < len(x):
            done = learning.learn(
                x,
                y,
                weight,
                done,
                draws,
                self.settings,
                self.counters,
                self.expansion,
                self.chains,
                self.batch,
                records,
            )
            if done < len(x):
                self._resize(2 * len(self.expansion.near), self.expansion.weights.shape[1])
        self._records.append(records)
        if len(self._records) > MOST_CHUNKS:
            kept = self.records
            self._records = [kept[::2] if len(kept) > MOST_RECORDS else kept]

    def set_outputs(self, kept: NDArray[np.int64], n_outputs: int) -> None:
        """Have more outputs: old output i becomes number `kept[i]`, the new ones begin at zero."""
        old, n = self.expansion, self.n_outputs
        halves = 2 if self.rules.average else 1
        self._resize(len(old.near), n_outputs * halves, copy_weights=False)
        for half in range(halves):
            self.expansion.weights[:, half * n_outputs + kept] = old.weights[:, half * n : half * n + n]
        steps, last = self.batch.steps, self.batch.last
        self.batch = _batch(self.rules.batch_size, len(old.points), n_outputs)
        self.batch.steps[:, kept] = steps
        self.batch.last[:] = last
        self.n_outputs = n_outputs

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that has been learned: values for JSON, and arrays."""
        n, expansion = self.n_points, self.expansion
        arrays: dict[str, NDArray[Any]] = {
            "points": expansion.points[:, :n],
            "weights": expansion.weights[:n],
            "inverse": expansion.inverse[:n, :n],
            "counters": self.counters,
            "records": self.records,
            "last": self.batch.last,
            "steps": self.batch.steps,
        }
        for name in _KEPT:
            arrays[name] = getattr(self.chains, name)
        return {"rng": self.rng.bit_generator.state, "room": len(expansion.near)}, arrays

    def set_state(self, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from `get_state`."""
        self.rng.bit_generator.state = config["rng"]
        n_features, n = arrays["points"].shape
        self.expansion = _expansion(config["room"], n_features, arrays["weights"].shape[1])
        self.expansion.points[:, :n] = arrays["points"]
        self.expansion.weights[:n] = arrays["weights"]
        self.expansion.inverse[:n, :n] = arrays["inverse"]
        self.expansion.size[0] = n
        self.counters[:] = arrays["counters"]
        self._records = [arrays["records"]]
        self.batch.last[:] = arrays["last"]
        self.batch.steps[:] = arrays["steps"]
        for name in _KEPT:
            getattr(self.chains, name)[:] = arrays[name]

    # -- room ------------------------------------------------------------------------------------

    @property
    def _column(self) -> int:
        """The first column of the weights that speak."""
        return self.n_outputs if self.rules.average else 0

    def _resize(self, room: int, columns: int, copy_weights: bool = True) -> None:
        old, n = self.expansion, self.n_points
        new = _expansion(room, len(old.points), columns)
        new.points[:, :n] = old.points[:, :n]
        if copy_weights:
            new.weights[:n] = old.weights[:n]
        new.inverse[:n, :n] = old.inverse[:n, :n]
        new.size[0] = n
        self.expansion = new

    def _fill(self) -> None:
        """Copy the rules to where the kernels read them."""
        rules, s, c = self.rules, self.settings, self.counters
        s[learning.WIDTH] = rules.huber_width
        s[learning.HALVING] = np.inf if rules.stepsize_halving is None else rules.stepsize_halving
        s[learning.PARSIMONY] = rules.parsimony
        s[learning.GAMMA] = rules.fitness_rate
        s[learning.PROBABILITY] = rules.move_probability
        s[learning.SLOWING] = rules.slowing
        s[learning.AVERAGING] = AVERAGING
        c[learning.KIND] = rules.kind
        c[learning.BATCH] = rules.batch_size
        c[learning.MOST] = rules.max_points
        c[learning.PROJECT] = rules.transfer == "project"


# The budget K eta^(3/2) exceeds the norm eta / sqrt(batch) of a whole step from 1 / (K^2 batch) on:
# stepsizes that move stay below this part of it, as pruning would undo what they are judged by.
LARGEST_STEP = 0.25
# A step never shrinks the function by more, unless the first regularisation asks for it.
LARGEST_SHRINKAGE = 0.5
# The average weighs mini-batch k with k^3: about the last quarter of them counts.
AVERAGING = 4.0
# What a chain has to remember to go on.
_KEPT = ("state", "fitness", "size", "n_fitness", "stay", "past")


def _expansion(room: int, n_features: int, columns: int) -> Expansion:
    return Expansion(
        points=np.zeros((n_features, room)),
        weights=np.zeros((room, columns)),
        inverse=np.zeros((room, room)),
        size=np.zeros(1, dtype=np.int64),
        near=np.zeros(room),
        span=np.zeros(room),
        old_points=np.zeros((room, n_features)),
        old_weights=np.zeros((room, columns)),
    )


def _batch(size: int, n_features: int, n_outputs: int) -> learning.Batch:
    return learning.Batch(
        values=np.zeros(n_outputs),
        slopes=np.zeros((size, n_outputs)),
        trend=np.zeros(size),
        last=np.zeros((n_features, size)),
        steps=np.zeros((size, n_outputs)),
    )


def _chains(rules: Rules, n_features: int) -> Chains:
    """The sets, with the given values in their middles."""
    half = int(np.ceil(np.log(rules.reach) / np.log(rules.ratio)))
    powers = rules.ratio ** np.arange(-half, half + 1.0)
    given = np.array([[getattr(rules, name)] for name in HYPERPARAMETERS])
    sets = given * powers
    swallowed = 1.0 / max(rules.parsimony**2 * rules.batch_size, 1e-300)
    longest = max(rules.stepsize, LARGEST_STEP * swallowed)
    sets[STEPSIZE] = np.minimum(sets[STEPSIZE], longest)
    shrinking = sets[STEPSIZE, -1 if "stepsize" in rules.adapt else half]
    highest = max(rules.regularization, LARGEST_SHRINKAGE / shrinking)
    sets[REGULARIZATION] = np.minimum(sets[REGULARIZATION], highest)
    adapts = np.array([BY_LOSS if name in rules.adapt else FIXED for name in HYPERPARAMETERS])
    if rules.fitness == "likelihood" and adapts[BANDWIDTH] == BY_LOSS:
        adapts[BANDWIDTH] = BY_LIKELIHOOD
    window = rules.window if adapts[BANDWIDTH] == BY_LIKELIHOOD else 1
    n = len(HYPERPARAMETERS)
    return Chains(
        sets=sets,
        state=np.full(n, half),
        adapts=adapts,
        fitness=np.zeros(n),
        size=np.zeros(n),
        n_fitness=np.zeros(n, dtype=np.int64),
        stay=np.zeros(3, dtype=np.int64),
        past=np.zeros((n_features, window)),
        distance=np.zeros(window),
    )
