"""Bifurcation by perturbation, and relocation of whole cells.

Every cell gets a twin at a small distance, and the pair is merged again unless it separates (Algorithm
1). A pair that separates is moved to where theory expects it: `oda_rl.codebook.events.split_critical`,
which splits cells at their critical temperatures instead, has the derivation.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
K. Rose, "Deterministic annealing for clustering, compression, classification, regression, and related
optimization problems", Proceedings of the IEEE 86 (1998), for the phase transitions.
"""

from typing import Any

import numpy as np

from oda_rl._schema import Rules, Sizes, expect
from oda_rl._types import Array
from oda_rl.codebook.book import Codebook


def pairs_have_one_size(state: Any, sizes: Sizes) -> None:
    """A rule: there is a row of differences for each feature, all of the same length."""
    lengths = {len(row) for row in state["differences"]}
    right = len(state["differences"]) == sizes["n"] and len(lengths) == 1
    expect(right, "differences", f"has rows of {lengths}", f"{sizes['n']} rows of equal length")


# The schema of `Pairs.get_state`.
PAIRS = Rules({"differences": [["float"]], "time": "float", "measured": "bool"}, pairs_have_one_size)


def random_directions(n: int, n_features: int, rng: np.random.Generator) -> Array:
    """Unit vectors, uniform on the sphere, of shape (n, n_features)."""
    directions = rng.normal(size=(n, n_features))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def seed_axes(book: Codebook, rng: np.random.Generator) -> None:
    """Set axes of length zero to tiny random vectors, as they need a direction in order to grow."""
    blank = book.critical_temperatures == 0.0
    directions = random_directions(int(blank.sum()), book.n_features, rng)
    book.axis[:, : len(book)][:, blank] = 1e-12 * directions.T


def double(
    book: Codebook,
    temperature: float,
    perturbation: float,
    rng: np.random.Generator,
    by_spread: bool = True,
) -> None:
    """Give every cell a twin in a random direction: cell i and cell n + i are a pair.

    `perturbation` is in standard deviations of the cell, or, if not `by_spread` or the cell has none, in
    units of the square root of the temperature.
    """
    critical = book.critical_temperatures
    for i, direction in enumerate(random_directions(len(book), book.n_features, rng)):
        deviation = np.sqrt(critical[i] if by_spread and critical[i] > 0.0 else temperature)
        offset = perturbation * deviation * direction
        book.split(i, offset / book.divergence.scale(book.location[:, i]))


def pair_differences(book: Codebook, n_pairs: int) -> Array:
    """mu_i - mu_(n + i) of every pair, of shape (n_features, n_pairs)."""
    return book.location[:, :n_pairs] - book.location[:, n_pairs : 2 * n_pairs]


class Pairs:
    """The pairs of one temperature, and their differences when they were last measured."""

    def __init__(self, n_features: int) -> None:
        self.differences = np.empty((n_features, 0))
        self.time = 0.0
        self.measured = False

    @property
    def waiting(self) -> bool:
        """Whether there are pairs that have not been measured since `begin`."""
        return self.differences.shape[1] > 0 and not self.measured

    def begin(self, book: Codebook, time: float) -> None:
        """Store the differences of the pairs that `double` has just made of all cells."""
        self.differences = pair_differences(book, len(book) // 2)
        self.time, self.measured = time, False

    def measure(self, book: Codebook, time: float) -> None:
        """Measure growth from now on, as the components that do not grow have died out."""
        self.differences = pair_differences(book, self.differences.shape[1])
        self.time, self.measured = time, True

    def resolve(self, book: Codebook, time: float, temperature: float) -> int:
        """Merge the pairs that do not separate, clear all, and return how many were merged."""
        earlier, self.differences = self.differences, self.differences[:, :0]
        n_pairs = earlier.shape[1]
        if n_pairs == 0 or 2 * n_pairs != len(book):
            return 0
        return resolve_pairs(book, earlier, time - self.time, temperature)

    def get_state(self) -> dict[str, Any]:
        """Plain values."""
        return {"differences": self.differences.tolist(), "time": self.time, "measured": self.measured}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self.differences = np.array(state["differences"]).reshape(len(self.differences), -1)
        self.time, self.measured = float(state["time"]), bool(state["measured"])


def resolve_pairs(book: Codebook, earlier: Array, duration: float, temperature: float) -> int:
    """Merge the pairs that do not separate, move the others further apart; returns the mergers.

    As long as a pair is close, its difference e obeys de/dt = (phi'' C / T - 1) e in the time of the
    learning rule (the sum of the stepsizes). Below the critical temperature, the component along the
    leading eigenvector grows at the rate T_c / T - 1, while the others die out. So a pair separates if
    its difference has grown along the direction in which it points now. This criterion depends neither
    on the distance reached nor on the dimension. A pair that separates is moved apart to the distance
    expected for this rate, unless it is further apart already.

    The pairs (i, n + i) of the book, which is changed in place, differed by `earlier` (n_features, n)
    when last measured; `duration` is the sum of the stepsizes since then.
    """
    n = earlier.shape[1]
    now = pair_differences(book, n)
    merged = 0
    # Backwards, so that the cell that fills a gap is not one that is still to be processed.
    for i in range(n - 1, -1, -1):
        scale = book.divergence.scale(book.location[:, i])
        end, begin = scale * now[:, i], scale * earlier[:, i]
        length = float(np.linalg.norm(end))
        before = float(end @ begin) / length if length > 0.0 else 0.0
        if length == 0.0 or 0.0 < length <= before:
            book.merge(i, n + i)
            merged += 1
            continue
        rate = np.log(length / before) / duration if before > 0.0 and duration > 0.0 else 0.0
        expected = np.sqrt(max(0.0, rate) * temperature)
        if length < 2.0 * expected:
            _spread_pair(book, i, n + i, expected / length * now[:, i])
    return merged


def _spread_pair(book: Codebook, i: int, k: int, offset: Array) -> None:
    middle = 0.5 * (book.location[:, i] + book.location[:, k])
    most = np.min((middle - book.divergence.minimum) / np.maximum(np.abs(offset), 1e-300))
    offset = min(1.0, 0.9 * float(most)) * offset
    book.location[:, i] = middle + offset
    book.location[:, k] = middle - offset


def relocate(book: Codebook, margin: float = 1.5, temperature: float = 0.0) -> int:
    """At the last temperature: merge two cells and split another if that lowers the distortion.

    A merger costs w_i w_k / (w_i + w_k) d(mu_i, mu_k), up to the asymmetry of d. A split removes the
    fraction 2 / pi of the variance along the axis, if the cell is like a Gaussian. As d is half a
    squared distance in the scale of the axis, the gain is half of that. Above temperature zero, only the
    variance in excess of `temperature` counts. The gain must be more than `margin` times the cost.

    The book is changed in place; K stays the same. Returns the number of moves: at most a tenth of the
    cells, but at least one if any is possible.
    """
    moves = 0
    while moves < max(1, len(book) // 10) and len(book) > 2:
        weights = book.weights
        cost = book.pair_distances() * np.multiply.outer(weights, weights)
        cost /= np.add.outer(weights, weights)
        i, k = divmod(int(cost.argmin()), len(book))
        gain = np.maximum(book.critical_temperatures - temperature, 0.0) * weights / np.pi
        gain[[i, k]] = 0.0
        taker = int(gain.argmax())
        if not gain[taker] > margin * cost[i, k]:
            break
        critical = book.critical_temperatures[taker]
        direction = book.axis[:, taker] / critical
        offset = np.sqrt(2.0 / np.pi * critical) * direction
        new = book.split(taker, offset / book.divergence.scale(book.location[:, taker]))
        book.axis[:, [taker, new]] *= 1.0 - 2.0 / np.pi
        book.merge(min(i, k), max(i, k))
        moves += 1
    return moves
