"""What would change a decision: for each coordinate the nearest value at which it is another one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, copysign, floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Points tried along each direction of a coordinate, and halvings of the step in which the decision
# changes
N_POINTS, HALVINGS = 400, 30
# Digits of a change as it is printed: three, and more only where three do not change the decision
DIGITS = range(3, 16)


@dataclass(frozen=True)
class Counterfactual:
    """The smallest change of one coordinate, up or down, that changes a decision.

    Attributes
    ----------
    feature : str
        Name of the coordinate.
    change : float
        In the coordinate's own units.
    at : float
        The coordinate with the change.
    decision : object
        The decision there.
    rounded : float
        The change as it is printed, rounded away from zero: it changes the decision as well.
    """

    feature: str
    change: float
    at: float
    decision: Any
    rounded: float


def find_counterfactuals(
    decide: Callable[[Array], NDArray[Any]],
    sample: Array,
    low: Array,
    high: Array,
    names: Sequence[str],
) -> list[Counterfactual]:
    """For each coordinate, up and down, the smallest change that changes a decision.

    `decide` takes points (n, n_features) to a decision for each; the search goes from `sample` to `low`
    and `high` (n_features,). The smallest change, as a part of that range, comes first. Coordinates that
    change nothing in their range are left out.
    """
    low, high = np.minimum(low, sample), np.maximum(high, sample)
    found = []
    for j, name in enumerate(names):

        def ask(values: Any, j: int = j) -> NDArray[Any]:
            points = np.repeat(sample[None], len(values), axis=0)
            points[:, j] = values
            return decide(points)

        for end in (low[j], high[j]):
            at = _first_change(ask, float(sample[j]), end)
            if at is not None:
                change, decision = at - float(sample[j]), ask([at])[0]
                rounded = _round_outwards(ask, float(sample[j]), change, (low[j], high[j]))
                part = abs(change) / (high[j] - low[j])
                found.append((part, Counterfactual(name, change, at, decision, rounded)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _first_change(ask: Callable[[Any], NDArray[Any]], start: float, end: float) -> float | None:
    """Where, on the way from `start` to `end`, another decision is made; None where none is."""
    way = np.linspace(start, end, N_POINTS + 1)
    decision, *others = ask(way)
    changed = np.flatnonzero(np.asarray(others) != decision)
    if len(changed) == 0:
        return None
    same, other = way[changed[0]], way[changed[0] + 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (same + other)
        if ask([middle])[0] == decision:
            same = middle
        else:
            other = middle
    return float(other)


def _round_outwards(
    ask: Callable[[Any], NDArray[Any]], start: float, change: float, ends: tuple[float, float]
) -> float:
    """The change with as few digits as lead to the same decision, set as printed."""
    decision = ask([start + change])[0]
    for digits in DIGITS:
        unit = 10.0 ** (floor(log10(abs(change))) - digits + 1)
        rounded = float(f"{copysign(ceil(abs(change) / unit) * unit, change):.{digits}g}")
        tried = [start + rounded, float(f"{start:g}") + rounded]
        if ends[0] <= tried[0] <= ends[1] and (ask(tried) == decision).all():
            return rounded
    return change
