# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Hyperparameters: those that are given, and those that move as Markov chains (BARRETTE, Algorithm 1).

Each of bandwidth, stepsize and regularisation has a set of values, a state in it, and a running fitness
R (eq. 7) that tells which way to go; at times the next state is drawn from P(R) (eq. 8).

Arguments of the kernels: x (n_features,), a sample; past (n_features, window), a ring of past samples;
bandwidth, in the units of the samples; rate, of the running fitness, in (0, 1].
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
# A set of values reaches this factor below and above the first one.
REACH = 200.0
# The budget K eta^(3/2) exceeds the norm eta / sqrt(batch) of a whole step from 1 / (K^2 batch) on:
# stepsizes that move stay below this part of it, as pruning would undo what they are judged by.
LARGEST_STEP = 0.25
# A step never shrinks the function by more, unless the first regularisation asks for it.
LARGEST_SHRINKAGE = 0.5
# Every so many samples one is held against the window of past ones.
PROBE_EVERY = 4
# Fewer past samples than this tell nothing of the bandwidth.
LEAST_PAST = 16
# Samples between two moves: at least this many, and this share of all seen.
LEAST_STAY = 32
# Those that adapt by the loss stay where the mean of a gradient is below this part of its mean size.
UNDECIDED = 0.1


@dataclass(frozen=True)
class Rules:
    """What a kernel machine goes by; the estimators explain the fields.

    `kind` is one of the losses of `functional_sgd`; the others have the names of the estimators'
    parameters, which check their ranges. Raises a ValueError if `adapt` has another name, or stepsize
    times regularization is 1 or more.
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
            raise ValueError(f"adapt must be some of {tuple(HYPERPARAMETERS)}, got {self.adapt!r}.")
        if not self.stepsize * self.regularization < 1.0:
            raise ValueError(
                "stepsize times regularization must be below 1, got "
                f"{self.stepsize} and {self.regularization}."
            )

    @property
    def n_values(self) -> int:
        """How many values a hyperparameter has."""
        return 2 * int(np.ceil(np.log(self.reach) / np.log(self.ratio))) + 1

    @property
    def n_past(self) -> int:
        """Past samples that the bandwidth is adapted by."""
        return self.window if "bandwidth" in self.adapt and self.fitness == "likelihood" else 1


class Chains(NamedTuple):
    """One row or entry for each of bandwidth, stepsize and regularisation.

    `sets` (3, n_values), rising; `state`, an index into its row; `adapts`; `fitness` R; `size`, the mean
    absolute fitness, or the mean curvature of the likelihood; `n_fitness`, how many made them; `stay`,
    [samples seen, samples since a move was last considered, past samples]; `past` (n_features, window);
    `distance` (window,), a scratch array.
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


# What a chain has to remember to go on.
KEPT = ("state", "fitness", "size", "n_fitness", "stay", "past")


def make_chains(rules: Rules, n_features: int) -> Chains:
    """The chains as they begin: each in the middle of its set, at the value given."""
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

    The likelihood is that of a Gaussian kernel density estimate, the slope p (q - 1) where q is the
    sample's term of eq. 9, in squares of the present bandwidth, and p the number of features. The
    curvature is minus the second derivative. Both are divided by p. A past sample that coincides with x
    tells nothing of a scale and is left out; of nothing but such samples the curvature is -1.
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
    """Credit the hyperparameters with what would have done better on a new sample (eq. 7).

    By the loss, the fitness is minus the derivative of the loss with respect to the logarithm of the
    hyperparameter, for stepsize and regularisation through the last step alone. By the likelihood, one
    sample in a few is held against the past ones, which it then joins.

    `x` (n_features,) is the sample, of which `dictionary.similarity` has the similarities; `shrinkage`
    is the stepsize times the regularisation; `slope` (n_outputs,) the gradient of the loss at the
    outputs `batch.values`; `n_last` the samples of the mini-batch before this one, 0 if there was none.
    """
    fitness, size, counts = 0.0, 0.0, False
    for u in range(chains.state.shape[0]):
        counts = chains.adapts[u] == BY_LOSS and n_last > 0
        if u == BANDWIDTH and counts:
            # The squared distance of a point, in squares of the bandwidth, is -2 log(similarity).
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
    """After n more samples, draw the next states if it is time (eq. 8); whether the bandwidth moved.

    A fitness points up or down, or nowhere: by the loss, where its mean is small beside its size; by the
    likelihood, where the likeliest value, by Newton's method, is nearest to the present state. `draws`
    (3,) are uniform in [0, 1): below `probability` the move goes where the fitness points.
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
                # What is known of the slope holds at the new state too, by the curvature.
                chains.fitness[u] -= max(size, 0.0) * math.log(row[state] / row[chains.state[u]])
            chains.state[u] = state
            chains.n_fitness[u] //= 2
            moved = moved or u == BANDWIDTH
    return moved
