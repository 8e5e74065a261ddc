# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Hyperparameters: fixed ones, and those that adapt as Markov chains (BARRETTE, Algorithm 1).

Each of bandwidth, stepsize and regularisation has a set of values, a state in this set, and a running
fitness R (eq. 7) that determines the direction. At intervals the next state is drawn from P(R) (eq. 8).

Arguments of the compiled functions: x (n_features,), a sample; past (n_features, window), a ring buffer
of past samples; bandwidth, in the units of the samples; rate, of the running fitness, in (0, 1].
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import lean_kernel, vector_kernel
from oda_rl.rkhs.dictionary import similarities

BANDWIDTH, STEPSIZE, REGULARIZATION = 0, 1, 2
HYPERPARAMETERS = {"bandwidth": BANDWIDTH, "stepsize": STEPSIZE, "regularization": REGULARIZATION}
# How a hyperparameter adapts: not at all, by the likelihood, or by a gradient of the loss.
FIXED, BY_LIKELIHOOD, BY_LOSS = 0, 1, 2
FITNESSES, TRANSFERS = ("likelihood", "loss"), ("keep", "project")
# A set of values reaches down and up by this factor from the initial value.
REACH = 200.0
# From the stepsize eta = 1 / (K^2 batch) on, the budget K eta^(3/2) exceeds the norm eta / sqrt(batch)
# of a whole step. Adaptive stepsizes stay below this part of it, as pruning would otherwise undo the
# step by which they are evaluated.
LARGEST_STEP = 0.25
# A step shrinks the function by at most this part, unless the initial regularisation is larger.
LARGEST_SHRINKAGE = 0.5
# One sample in this many is used to evaluate the likelihood, given the window of past ones.
PROBE_EVERY = 4
# The likelihood needs at least this many past samples.
LEAST_PAST = 16
# Smallest number of samples between two moves, which otherwise grows as the share `slowing` of all seen.
LEAST_STAY = 32
# By the loss, a state is kept if the mean of the fitness is below this part of its mean absolute value.
UNDECIDED = 0.1


@dataclass(frozen=True)
class Rules:
    """The settings of a kernel machine, as described in the estimators.

    `kind` is one of the losses of `functional_sgd`. The other fields have the names of the estimators'
    parameters, whose ranges the estimators check. Raises a ValueError if `adapt` has an unknown name, or
    stepsize times regularization is 1 or more.
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

    def __post_init__(self) -> None:
        if any(name not in HYPERPARAMETERS for name in self.adapt):
            raise ValueError(f"adapt must be a subset of {tuple(HYPERPARAMETERS)}, got {self.adapt!r}.")
        if not self.stepsize * self.regularization < 1.0:
            raise ValueError(
                f"stepsize * regularization must be below 1, got stepsize={self.stepsize} and "
                f"regularization={self.regularization}."
            )

    @property
    def n_values(self) -> int:
        """Number of values in the set of a hyperparameter."""
        return 2 * int(np.ceil(np.log(self.reach) / np.log(self.ratio))) + 1

    @property
    def n_past(self) -> int:
        """Number of past samples that are kept to adapt the bandwidth, at least 1."""
        return self.window if "bandwidth" in self.adapt and self.fitness == "likelihood" else 1


class Chains(NamedTuple):
    """The Markov chains of bandwidth, stepsize and regularisation: one row or entry for each.

    `sets` (3, n_values) are the values, rising; `state` the index into its row; `adapts` how it adapts;
    `fitness` the running fitness R; `size` its mean absolute value, or the mean curvature of the
    likelihood; `n_fitness` the number of samples in these means. There is one `stay`: [samples seen,
    samples since a move was last considered, samples added to `past`]. `past` (n_features, window) is
    the ring buffer, and `distance` (window,) a scratch array.
    """

    sets: Any
    state: Any
    adapts: Any
    fitness: Any
    size: Any
    n_fitness: Any
    stay: Any
    past: Any
    distance: Any


# Fields of `Chains` that a model file stores.
KEPT = ("state", "fitness", "size", "n_fitness", "stay", "past")


def make_chains(rules: Rules, n_features: int) -> Chains:
    """The initial chains: each is in the middle of its set, at the given value."""
    half = rules.n_values // 2
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
    n = len(HYPERPARAMETERS)
    return Chains(
        sets=sets,
        state=np.full(n, half),
        adapts=adapts,
        fitness=np.zeros(n),
        size=np.zeros(n),
        n_fitness=np.zeros(n, dtype=np.int64),
        stay=np.zeros(3, dtype=np.int64),
        past=np.zeros((n_features, rules.n_past)),
        distance=np.zeros(rules.n_past),
    )


@vector_kernel
def likelihood(past, n, x, bandwidth, distance):
    """Slope and curvature in log(bandwidth) of the log-likelihood of one sample, given n past ones.

    The likelihood is that of a Gaussian kernel density estimate. Its slope is p (q - 1), where q is the
    sample's term of eq. 9 in squares of the current bandwidth, and p the number of features. The
    curvature is minus the second derivative. Both are divided by p. Past samples that coincide with x
    have no information about the scale and are left out; without any others the curvature is -1.
    """
    nearest = math.inf
    for j in range(n):
        distance[j] = 0.0
    for i in range(past.shape[0]):
        row = past[i]
        for j in range(n):
            difference = row[j] - x[i]
            distance[j] += difference * difference
    for j in range(n):
        if 0.0 < distance[j] < nearest:
            nearest = distance[j]
    if nearest == math.inf:
        return 0.0, -1.0
    square = bandwidth * bandwidth
    total = 0.0
    first = 0.0
    second = 0.0
    for j in range(n):
        if distance[j] > 0.0:
            share = math.exp(0.5 * (nearest - distance[j]) / square)
            total += share
            first += share * distance[j]
            second += share * distance[j] * distance[j]
    first /= total * square
    second /= total * square * square
    p = past.shape[0]
    return first / p - 1.0, (2.0 * first - (second - first * first)) / p


@lean_kernel
def credit(x, bandwidth, shrinkage, slope, rate, dictionary, chains, batch, n_last):
    """Update the running fitness of the hyperparameters with a new sample (eq. 7).

    By the loss, the fitness is minus the derivative of the loss with respect to the logarithm of the
    hyperparameter; for stepsize and regularisation, only the effect of the last step counts. By the
    likelihood, one sample in `PROBE_EVERY` is evaluated given the past ones; all are added to these.

    `x` (n_features,) is the sample, whose kernel row is in `dictionary.similarity`; `shrinkage` is the
    stepsize times the regularisation; `slope` (n_outputs,) is the gradient of the loss at the outputs
    `batch.values`; `n_last` is the number of samples of the previous mini-batch, 0 without one.
    """
    fitness, size, counts = 0.0, 0.0, False
    for u in range(chains.state.shape[0]):
        counts = chains.adapts[u] == BY_LOSS and n_last > 0
        if u == BANDWIDTH and counts:
            # The squared distance of a point, in units of the squared bandwidth, is -2 log(similarity).
            fitness = 0.0
            for j in range(dictionary.size[0]):
                similarity = dictionary.similarity[j]
                if similarity > 0.0:
                    effect = 0.0
                    for c in range(slope.shape[0]):
                        effect += slope[c] * dictionary.weights[j, c]
                    fitness += 2.0 * similarity * math.log(similarity) * effect
            size = abs(fitness)
        elif u == BANDWIDTH and chains.adapts[u] == BY_LIKELIHOOD:
            past, stay = chains.past, chains.stay
            n = min(stay[2], past.shape[1])
            if stay[2] % PROBE_EVERY == 0 and n >= LEAST_PAST:
                fitness, size = likelihood(past, n, x, bandwidth, chains.distance)
                counts = fitness != 0.0 or size >= 0.0
            place = stay[2] % past.shape[1]
            for i in range(past.shape[0]):
                past[i, place] = x[i]
            stay[2] += 1
        elif counts:
            fitness = 0.0
            for c in range(slope.shape[0]):
                fitness += slope[c] * shrinkage * batch.values[0, c]
            if u == STEPSIZE:
                by_moving = 0.0
                similarities(batch.last, n_last, x, bandwidth, batch.similarity)
                for k in range(n_last):
                    for c in range(slope.shape[0]):
                        by_moving += slope[c] * batch.steps[k, c] * batch.similarity[k]
                fitness -= by_moving
            size = abs(fitness)
        if counts:  # a plain mean at first
            chains.n_fitness[u] += 1
            share = max(rate, 1.0 / chains.n_fitness[u])
            chains.fitness[u] += share * (fitness - chains.fitness[u])
            chains.size[u] += share * (size - chains.size[u])


@lean_kernel
def move(chains, n, draws, probability, slowing):
    """Draw the next states if a move is due after n more samples (eq. 8); True if the bandwidth moved.

    The sign of the fitness is the direction. A state is kept, by the loss, if the mean fitness is small
    compared with its mean absolute value, and by the likelihood, if it is the value nearest to the
    likeliest one by Newton's method. `draws` (3,) are uniform in [0, 1): below `probability` the move
    follows the fitness, otherwise it goes the opposite way.
    """
    stay = chains.stay
    stay[0] += n
    stay[1] += n
    if stay[1] < max(LEAST_STAY, slowing * stay[0]):
        return False
    stay[1] = 0
    moved = False
    for u in range(chains.state.shape[0]):
        fitness, size, row = chains.fitness[u], chains.size[u], chains.sets[u]
        least = UNDECIDED * size
        if chains.adapts[u] == BY_LIKELIHOOD:
            least = 0.5 * math.log(row[1] / row[0]) * max(size, 0.0)
        if chains.adapts[u] == FIXED or chains.n_fitness[u] == 0 or abs(fitness) <= least:
            continue
        way = 1 if (fitness > 0.0) == (draws[u] < probability) else -1
        state = min(max(chains.state[u] + way, 0), chains.sets.shape[1] - 1)
        if state != chains.state[u]:
            if chains.adapts[u] == BY_LIKELIHOOD:
                # Extrapolate the slope to the new state by the curvature.
                chains.fitness[u] -= max(size, 0.0) * math.log(row[state] / row[chains.state[u]])
            chains.state[u] = state
            chains.n_fitness[u] //= 2
            moved = moved or u == BANDWIDTH
    return moved
