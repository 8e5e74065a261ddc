# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The limit of temperature zero: Lloyd iterations, relocation of codevectors, and stochastic VQ.

Arrays are laid out as in `association`: `location` is (n_features, capacity), `samples` (n_samples,
n_features), and `sample_weight`, `nearest`, `closest` and `second` have one entry per sample.

Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
"""

from typing import Any

import numpy as np

from oda_rl._jit import kernel
from oda_rl._types import Array
from oda_rl.codebook.association import assign, divergences, index_of_smallest
from oda_rl.codebook.divergences import Divergence

# The most iterations of a quench and the relative gain at which it ends: for trials, for the result.
TRIAL_TURNS, TRIAL_TOLERANCE = 8, 1e-3
MAX_TURNS, TOLERANCE = 300, 1e-5
# Failed moves of a single codevector, each to another sample, after which no more are tried.
SINGLE_MOVES = 3


@kernel
def mean_divergence(sample_weight, closest):
    """The mean divergence of the samples from their codevectors (eq. 1)."""
    total = 0.0
    mass = 0.0
    for t in range(closest.shape[0]):
        total += sample_weight[t] * closest[t]
        mass += sample_weight[t]
    return total / mass


@kernel
def move_to_means(samples, sample_weight, free, nearest, closest, n_cells, location, mass):
    """Move every codevector to the mean of its cell (eq. 10 for hard cells); `mass` gets their weights.

    The codevector of an empty cell moves to the sample with the largest weighted divergence if `free`;
    otherwise it stays.
    """
    mean = np.zeros((n_cells, samples.shape[1]))
    mass[:n_cells] = 0.0
    for t in range(samples.shape[0]):
        mass[nearest[t]] += sample_weight[t]
        row = mean[nearest[t]]
        for j in range(samples.shape[1]):
            row[j] += sample_weight[t] * samples[t, j]
    for i in range(n_cells):
        if mass[i] > 0.0:
            for j in range(samples.shape[1]):
                location[j, i] = mean[i, j] / mass[i]
        elif free:
            worst = 0
            for t in range(samples.shape[0]):
                if sample_weight[t] * closest[t] > sample_weight[worst] * closest[worst]:
                    worst = t
            closest[worst] = 0.0
            for j in range(samples.shape[1]):
                location[j, i] += 0.999 * (samples[worst, j] - location[j, i])


@kernel
def cell_moments(samples, sample_weight, nearest, n_cells, location, mass, spread):
    """Fill `mass` with the cells' shares of the weight, `spread` with variances about codevectors.

    `spread` is (n_features, n_cells); a cell without samples gets zeros.
    """
    mass[:n_cells] = 0.0
    spread[:, :n_cells] = 0.0
    total = 0.0
    for t in range(samples.shape[0]):
        i = nearest[t]
        mass[i] += sample_weight[t]
        total += sample_weight[t]
        for j in range(samples.shape[1]):
            spread[j, i] += sample_weight[t] * (samples[t, j] - location[j, i]) ** 2
    for i in range(n_cells):
        if mass[i] > 0.0:
            for j in range(samples.shape[1]):
                spread[j, i] /= mass[i]
        mass[i] /= total


@kernel
def quench(
    kind,
    samples,
    labels,
    sample_weight,
    centred,
    tolerance,
    max_turns,
    n_cells,
    location,
    label,
    nearest,
    closest,
    second,
):
    """Take codevectors to the limit of temperature zero by Lloyd iterations over the samples, K fixed.

    Ends when an iteration lowers the distortion by at most the fraction `tolerance`, or after
    `max_turns`. The last three arrays then match the final codevectors; `labels`, `label` and `centred`
    are as for `assign`. Returns (distortion, iterations, whether it converged).
    """
    mass = np.empty(n_cells)
    assign(kind, samples, labels, centred, location, label, n_cells, nearest, closest, second)
    best = mean_divergence(sample_weight, closest)
    for turn in range(max_turns):
        free = labels is None
        move_to_means(samples, sample_weight, free, nearest, closest, n_cells, location, mass)
        assign(kind, samples, labels, centred, location, label, n_cells, nearest, closest, second)
        value = mean_divergence(sample_weight, closest)
        if not best - value > tolerance * best:
            return value, turn + 1, True
        best = value
    return best, max_turns, False


@kernel
def relocate(samples, sample_weight, nearest, closest, second, n_cells, location, n_moves, draws):
    """Move the most dispensable codevectors into the cells with the most distortion.

    Without its codevector, the samples of a cell would go to their second nearest; the worth of a cell
    is the distortion that this would add. The codevector moves to a sample of the receiving cell, drawn
    in proportion to its distortion with one of `draws` (uniform in [0, 1)). Returns the moves made.
    """
    worth = np.zeros(n_cells)
    error = np.zeros(n_cells)
    for t in range(samples.shape[0]):
        i = nearest[t]
        worth[i] += sample_weight[t] * (second[t] - closest[t])
        error[i] += sample_weight[t] * closest[t]
    made = 0
    for move in range(n_moves):
        giver = np.argmin(worth)
        error[giver] = -1.0
        taker = np.argmax(error)
        if not worth[giver] < error[taker]:
            break
        threshold = draws[move] * error[taker]
        worth[giver] = np.inf
        worth[taker] = np.inf
        error[taker] = -1.0
        chosen = -1
        for t in range(samples.shape[0]):
            if nearest[t] == taker and sample_weight[t] * closest[t] > 0.0:
                chosen = t
                threshold -= sample_weight[t] * closest[t]
                if threshold < 0.0:
                    break
        if chosen < 0:
            break
        # Stop just short of the sample, which may lie on the border of the divergence's domain.
        for j in range(samples.shape[1]):
            location[j, giver] = location[j, taker] + 0.999 * (samples[chosen, j] - location[j, taker])
        made += 1
    return made


@kernel
def quantize(kind, samples, sample_weight, stepsize_a, stepsize_b, n_cells, location, count, spread):
    """Stochastic vector quantization (Definition 1 of "ODA for Classification and Clustering").

    The nearest codevector moves towards the sample with the stepsize w / (a + b v), at most 1: w is the
    weight of the sample, and v that of the codevector's earlier samples, stored in `count`. `spread`
    follows the variances of the cells. Returns the sum of weight times divergence from the nearest
    codevector, before each move.
    """
    distance = np.empty(n_cells)
    total = 0.0
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        nearest = index_of_smallest(distance, n_cells)
        total += sample_weight[t] * distance[nearest]
        stepsize = min(1.0, sample_weight[t] / (stepsize_a + stepsize_b * count[nearest]))
        count[nearest] += sample_weight[t]
        gain = min(1.0, sample_weight[t] / count[nearest])
        for j in range(samples.shape[1]):
            location[j, nearest] += stepsize * (samples[t, j] - location[j, nearest])
            difference = samples[t, j] - location[j, nearest]
            spread[j, nearest] += gain * (difference * difference - spread[j, nearest])
    return total


def grow_hard(book: Any, samples: Array, sample_weight: Array, n_cells: int) -> None:
    """Split the cells of a codebook at temperature zero, until there are `n_cells`.

    Those with the most distortion split first, along the feature in which they are widest; Lloyd
    iterations follow. `samples` are C-contiguous; the divergence must be the squared distance.
    """
    cells = np.zeros(len(samples), dtype=np.int64), np.empty(len(samples)), np.empty(len(samples))
    kind = book.divergence.kind
    assign(kind, samples, None, False, book.location, None, len(book), *cells)
    while (k := len(book)) < min(n_cells, len(samples)):
        mass, spread = np.empty(k), np.empty((book.n_features, k))
        cell_moments(samples, sample_weight, cells[0], k, book.location, mass, spread)
        distortion = mass * spread.sum(axis=0)
        chosen = np.argsort(-distortion, kind="stable")[: n_cells - k]
        chosen = chosen[distortion[chosen] > 0.0]
        if len(chosen) == 0:
            break
        for i in chosen:
            widest = int(spread[:, i].argmax())
            book.split(int(i), np.sqrt(spread[widest, i]) * (np.arange(book.n_features) == widest))
        quench(
            *(kind, samples, None, sample_weight, False, TRIAL_TOLERANCE, TRIAL_TURNS),
            *(len(book), book.location, None, *cells),
        )


class Quench:
    """Take codevectors to the limit of temperature zero, K fixed.

    Lloyd iterations (eq. 10 with hard associations) converge to a local minimum of the distortion. To
    leave it, codevectors of the cells that are worth least are moved to where the distortion is largest:
    several at a time, and fewer when a trial fails. This is needed because an annealed codebook is soft:
    two of its codevectors may share what becomes one hard cell, while others cover too much.

    `samples` are C-contiguous, inside the domain of the divergence. `rng` draws the samples to which
    codevectors move. All trials together take about `max_trials` iterations at most.

    >>> from oda_rl.codebook.divergences import get_divergence
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    >>> quench = Quench(X, np.ones(6), get_divergence("squared_euclidean"), np.random.default_rng(0))
    >>> codevectors, distortion = quench(np.array([[0.0], [1.0], [15.0]]))
    >>> np.sort(codevectors.ravel()), distortion
    (array([ 0.5, 10.5, 20.5]), 0.25)
    """

    def __init__(
        self,
        samples: Array,
        sample_weight: Array,
        divergence: Divergence,
        rng: np.random.Generator,
        max_trials: int = 60,
    ) -> None:
        # Squared distances of centred data can be computed as matrix products without losing digits.
        self._centred = divergence.is_euclidean
        self._shift = samples.mean(axis=0) if self._centred else np.zeros(samples.shape[1])
        self._samples = samples - self._shift if self._centred else samples
        self._weight = sample_weight
        self._divergence = divergence
        self.rng = rng
        self._max_trials = max_trials
        n = len(samples)
        self._cells = np.zeros(n, dtype=np.int64), np.empty(n), np.empty(n)

    def __call__(self, codevectors: Array) -> tuple[Array, float]:
        """The best codevectors found, (n_codevectors, n_features), and their distortion."""
        location = np.ascontiguousarray((codevectors - self._shift).T)
        if self._max_trials > 0 and len(codevectors) > 1:
            distortion, _ = self._quench(location, TRIAL_TOLERANCE, MAX_TURNS)
            location = self._relocate(location, distortion, self._max_trials)
        distortion, _ = self._quench(location, TOLERANCE, MAX_TURNS)
        return location.T + self._shift, distortion

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return len(self._samples)

    def distortion(self, codevectors: Array) -> float:
        """The mean divergence of the samples from the nearest codevector."""
        location = np.ascontiguousarray((codevectors - self._shift).T)
        k = location.shape[1]
        kind = self._divergence.kind
        assign(kind, self._samples, None, self._centred, location, None, k, *self._cells)
        return float(mean_divergence(self._weight, self._cells[1]))

    def _quench(self, location: Array, tolerance: float, turns: int) -> tuple[float, int]:
        value, spent, _ = quench(
            *(self._divergence.kind, self._samples, None, self._weight, self._centred),
            *(tolerance, turns, location.shape[1], location, None, *self._cells),
        )
        return float(value), int(spent)

    def _relocate(self, location: Array, distortion: float, trials: int) -> Array:
        k = location.shape[1]
        n_moves, chances = max(1, k // 5), SINGLE_MOVES
        cells = tuple(array.copy() for array in self._cells)
        while chances > 0 and trials > 0:
            trial = location.copy()
            draws = self.rng.random(n_moves)
            if not relocate(self._samples, self._weight, *cells, k, trial, n_moves, draws):
                break
            found, spent = self._quench(trial, TRIAL_TOLERANCE, TRIAL_TURNS)
            trials -= spent
            if found < distortion * (1.0 - 1e-6):
                location, distortion = trial, found
                cells = tuple(array.copy() for array in self._cells)
            elif n_moves > 1:
                n_moves //= 2
            else:
                chances -= 1
        return location
