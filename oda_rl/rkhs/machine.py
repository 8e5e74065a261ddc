"""Kernel machines: the arrays of the compiled loop, their growth and their storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from oda_rl import _schema
from oda_rl._schema import GENERATOR, Schema, Sized, Sizes, expect
from oda_rl._types import Array
from oda_rl.rkhs import functional_sgd as sgd
from oda_rl.rkhs.dictionary import Dictionary, evaluate, factorise
from oda_rl.rkhs.hyperparameters import BANDWIDTH, FIXED, HYPERPARAMETERS, KEPT, Rules, make_chains

# Initial capacity for points, in addition to a mini-batch; it doubles when it is used up.
CAPACITY = 64
# Records are joined if there are more chunks of them than this, and then thinned out if there are more.
MOST_CHUNKS, MOST_RECORDS = 1000, 50_000
# Larger values of `max_points` are cut to this one, as compiled code has 64-bit integers.
MOST_POINTS = 2**62
# Limits for model files: values of a hyperparameter, and the residual of the inverse up to which it is
# used as it is, so that learning goes on exactly. Learning keeps it well below.
MOST_VALUES, LARGEST_STORED_RESIDUAL = 100_000, 0.1


def machine_schema(rules: Rules, by_classes: bool) -> Schema:
    """Schema of what `KernelMachine.get_state` returns, for d features and m outputs."""
    expect(rules.n_values <= MOST_VALUES, "", f"has {rules.n_values} values", f"up to {MOST_VALUES}")

    def goes_together(state: Any, sizes: Sizes) -> None:
        """Check that counters fit the arrays, classes are whole numbers, and the bandwidth is not 0."""
        last, (x, targets, _) = int(state["counters"][sgd.N_LAST]), state["waiting"]
        most = rules.batch_size
        expect(last <= most, "counters", f"has a mini-batch of {last} samples", f"at most {most}")
        expect(len(x) < most, "waiting/0", f"has {len(x)} samples", f"fewer than {most}")
        length, total = len(state["records"]), int(state["chunks"].sum())
        expect(total == length, "chunks", f"covers {total} records", f"all {length}")
        whole = not by_classes or np.all(targets == np.round(targets))
        expect(whole, "waiting/1", "has other values than indices of classes", "integers")
        bandwidth = make_chains(rules, 1).sets[BANDWIDTH, state["state"][BANDWIDTH]]
        expect(bandwidth**2 > 0.0, "state", f"has a bandwidth of {bandwidth:.2g}", "a square above 0")

    entries = {
        **{"state": "int[3] in [0, values)", "fitness": "float[3]", "size": "float[3]"},
        **{"n_fitness": "count[3]", "stay": "count[3]", "past": "float[d, window]", "rng": GENERATOR},
        **{"points": "float[d, M]", "weights": "float[M, columns]", "inverse": "float[M, M]"},
        "counters": f"count[{sgd.N_COUNTERS}]",
        **{"records": f"float[R, {sgd.N_COLUMNS}]", "chunks": "count[chunks]"},
        "last": "float[d, batch]",
        "steps": "float[batch, m]",
        "waiting": (
            "float[W, d]",
            "float[W, 1] in [0, m)" if by_classes else _schema.Either("float[0, 1]", "float[W, m]"),
            "float[W] in (0, inf)",
        ),
    }
    sizes = {"values": rules.n_values, "window": rules.n_past, "batch": rules.batch_size}
    columns = "m+m" if rules.average else "m"
    return Sized(_schema.Rules(entries, goes_together), columns=columns, **sizes)


def _residual(points: Array, inverse: Array, bandwidth: float) -> float:
    """The largest residual of the inverse of the Gram matrix of points (M, d); 0 without points."""
    # Distances by differences of coordinates, as in learning: scikit-learn's way by inner products
    # loses precision far from the origin.
    gram = np.exp(-0.5 / bandwidth**2 * cdist(points, points, "sqeuclidean"))
    return float(np.abs(gram @ inverse - np.eye(len(gram))).max(initial=0.0))


class KernelMachine:
    """A function with any number of outputs and one dictionary for all, which learns from samples.

    It learns from full mini-batches. Samples that do not fill a mini-batch wait for the next ones, so
    that the result does not depend on how a stream is cut into chunks.

    `points` (n_points, n_features) are the dictionary. `weights` (n_points, n_outputs) are those of the
    last function, or of the average of all functions. `rng` draws the moves of the hyperparameters.
    """

    def __init__(self, n_features: int, n_outputs: int, rules: Rules, rng: np.random.Generator) -> None:
        self.rules, self.rng, self.n_outputs = rules, rng, n_outputs
        halving = np.inf if rules.stepsize_halving is None else rules.stepsize_halving
        self.settings = sgd.Settings(
            int(rules.kind),
            float(rules.huber_width),
            float(halving),
            float(rules.parsimony),
            float(rules.fitness_rate),
            float(rules.move_probability),
            float(rules.slowing),
            int(rules.batch_size),
            min(int(rules.max_points), MOST_POINTS),
            rules.transfer == "project",
        )
        self.counters = np.zeros(sgd.N_COUNTERS, dtype=np.int64)
        self.chains = make_chains(rules, n_features)
        columns = n_outputs * (2 if rules.average else 1)
        capacity = CAPACITY + rules.batch_size
        empty = np.empty((n_features, 0)), np.empty((0, columns)), np.empty((0, 0))
        self.dictionary = Dictionary.of(capacity, *empty)
        self.batch = self._new_batch(n_features)
        self._records = [np.empty((0, sgd.N_COLUMNS))]
        self.waiting: tuple[Array, ...] = np.empty((0, n_features)), np.empty((0, 1)), np.empty(0)

    @property
    def n_points(self) -> int:
        """The model order, which is the number of points in the dictionary."""
        return int(self.dictionary.size[0])

    @property
    def n_samples_seen(self) -> int:
        """Number of samples given so far, including those that wait."""
        return self.n_learned + len(self.waiting[0])

    @property
    def n_learned(self) -> int:
        """Number of samples learned from, without those that wait."""
        return int(self.counters[sgd.N_SEEN])

    def first_losses(self, n: int) -> Array:
        """The losses of the mini-batches of the first n samples, or of the first mini-batch."""
        records = self.records
        first = records[:, sgd.SEEN] <= max(n, records[0, sgd.SEEN])
        return np.asarray(records[first, sgd.LOSS])

    def first_error(self, n: int) -> float:
        """The root mean square of the errors of a regressor in its first n samples, or mini-batch."""
        return float(np.sqrt(2.0 * self.first_losses(n).mean()))

    @property
    def points(self) -> Array:
        """The dictionary, of shape (n_points, n_features)."""
        return np.ascontiguousarray(self._used()[0].T)

    @property
    def weights(self) -> Array:
        """The output weights, of shape (n_points, n_outputs)."""
        return self._used()[1][:, self._column :][:, : self.n_outputs].copy()

    @property
    def records(self) -> Array:
        """One row per mini-batch with the columns of `functional_sgd`; thinned out if there are many."""
        return np.concatenate(self._records)

    def value_of(self, name: str) -> float:
        """The current "bandwidth", "stepsize" (without its decrease) or "regularization"."""
        u = HYPERPARAMETERS[name]
        return float(self.chains.sets[u, self.chains.state[u]])

    def __call__(self, x: Array) -> Array:
        """f(x), of shape (n, n_outputs), for samples of shape (n, n_features)."""
        values = np.empty((len(x), self.n_outputs))
        points, weights, _, _, similarity, *_ = self.dictionary
        bandwidth, scratch = self.value_of("bandwidth"), np.empty_like(similarity)
        evaluate(x, bandwidth, points, weights, self.n_points, self._column, scratch, values)
        return values

    @property
    def finished(self) -> Self:
        """The machine to predict with: itself, or, before the first mini-batch, a finished copy."""
        if self.counters[sgd.N_BATCHES] > 0:
            return self
        made = deepcopy(self)
        made.finish()
        return made

    def finish(self) -> None:
        """Learn from the waiting samples, as a mini-batch that may not be full."""
        waiting = self.waiting
        self.waiting = tuple(part[:0] for part in waiting)
        self._learn(*waiting)

    def learn(self, x: Array, y: Array, weight: Array) -> None:
        """Learn from samples (n, n_features) in their order, as far as they fill mini-batches.

        `y` (n, 1) or (n, n_outputs) are class indices or outputs, `weight` (n,) is positive. All arrays
        are C-contiguous and writeable.
        """
        if len(self.waiting[0]) > 0:
            x, y, weight = map(np.concatenate, zip(self.waiting, (x, y, weight), strict=True))
        whole = len(x) - len(x) % self.rules.batch_size
        self.waiting = x[whole:].copy(), y[whole:].copy(), weight[whole:].copy()
        self._learn(x[:whole], y[:whole], weight[:whole])

    @contextmanager
    def bandwidth_held(self, held: bool = True) -> Iterator[None]:
        """In this context, if `held`, the bandwidth does not adapt."""
        before = int(self.chains.adapts[BANDWIDTH])
        if held:
            self.chains.adapts[BANDWIDTH] = FIXED
        try:
            yield
        finally:
            self.chains.adapts[BANDWIDTH] = before

    def _learn(self, x: Array, y: Array, weight: Array) -> None:
        if len(x) == 0:
            return
        n_batches = -(-len(x) // self.rules.batch_size)
        draws = self.rng.random((n_batches, len(HYPERPARAMETERS)))
        records = np.empty((n_batches, sgd.N_COLUMNS))
        done = 0
        while True:
            parts = self.settings, self.counters, self.dictionary, self.chains, self.batch
            done = sgd.learn(x, y, weight, done, draws, *parts, records)
            if done == len(x):
                break
            self.dictionary = Dictionary.of(2 * len(self.dictionary.similarity), *self._used())
        self._records.append(records)
        if len(self._records) > MOST_CHUNKS:
            kept = self.records
            self._records = [kept[::2] if len(kept) > MOST_RECORDS else kept]

    def set_outputs(self, kept: NDArray[np.int64], n_outputs: int) -> None:
        """Insert classes: old class i becomes number `kept[i]`, outputs of new ones begin at zero."""
        x, classes, weight = self.waiting
        self.waiting = x, kept[classes.astype(np.int64)].astype(np.float64), weight
        points, old, inverse = self._used()
        n, halves = self.n_outputs, old.shape[1] // self.n_outputs
        weights = np.zeros((len(old), n_outputs * halves))
        for half in range(halves):
            weights[:, half * n_outputs + kept] = old[:, half * n : half * n + n]
        capacity = len(self.dictionary.similarity)
        self.dictionary = Dictionary.of(capacity, points, weights, inverse)
        self.n_outputs, before = n_outputs, self.batch
        self.batch = self._new_batch(len(points))
        self.batch.steps[:, kept] = before.steps
        self.batch.last[:] = before.last

    def multiply(self, factor: float) -> None:
        """Multiply the function, its average and its last step by a factor."""
        self.dictionary.weights[:] *= factor
        self.batch.steps[:] *= factor

    def get_state(self) -> dict[str, Any]:
        """The state of the machine as plain values and arrays."""
        points, weights, inverse = self._used()
        state = {name: getattr(self.chains, name) for name in KEPT}
        return state | {
            "rng": self.rng.bit_generator.state,
            "points": points,
            "weights": weights,
            "inverse": inverse,
            "counters": self.counters,
            "records": self.records,
            "chunks": np.array([len(chunk) for chunk in self._records]),
            "last": self.batch.last,
            "steps": self.batch.steps,
            "waiting": list(self.waiting),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned; an inverse that is wrong is computed anew.

        Earlier versions could store such ones.
        """
        self.rng.bit_generator.state = state["rng"]
        points, weights, inverse = (state[name] for name in ("points", "weights", "inverse"))
        capacity = max(CAPACITY + self.rules.batch_size, 2 * len(weights))
        self.dictionary = Dictionary.of(capacity, points, weights, inverse)
        self.counters[:] = state["counters"]
        self._records = np.split(state["records"], np.cumsum(state["chunks"])[:-1])
        self.batch.last[:] = state["last"]
        self.batch.steps[:] = state["steps"]
        self.waiting = tuple(state["waiting"])
        for name in KEPT:
            getattr(self.chains, name)[:] = state[name]
        bandwidth = self.value_of("bandwidth")
        if not _residual(points.T, inverse, bandwidth) <= LARGEST_STORED_RESIDUAL:
            factorise(self.dictionary, bandwidth)

    @property
    def _column(self) -> int:
        """The first column of the weights that predictions use."""
        return self.n_outputs if self.rules.average else 0

    def _used(self) -> tuple[Array, Array, Array]:
        """The parts of points, weights and inverse that are in use."""
        n, (points, weights, inverse, *_) = self.n_points, self.dictionary
        return points[:, :n], weights[:n], inverse[:n, :n]

    def _new_batch(self, n_features: int) -> sgd.Batch:
        size, n_outputs = self.rules.batch_size, self.n_outputs
        return sgd.Batch(
            values=np.zeros((1, n_outputs)),
            slopes=np.zeros((size, n_outputs)),
            lengths=np.zeros(size),
            similarity=np.zeros(size),
            last=np.zeros((n_features, size)),
            steps=np.zeros((size, n_outputs)),
        )
