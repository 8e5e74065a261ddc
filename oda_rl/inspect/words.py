"""How numbers and decisions are written."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Features written out of a codevector with many.
MAX_FEATURES = 6


def feature_names_of(model: Any, given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of a model's features; raises a ValueError if there are not as many as features."""
    n = int(model.n_features_in_)
    if given is None:
        given = getattr(model, "feature_names_in_", None)
    names = tuple(f"x[{j}]" for j in range(n)) if given is None else tuple(str(name) for name in given)
    if len(names) != n:
        raise ValueError(f"feature_names must be {n} names, got {len(names)}.")
    return names


def amounts(values: Array, names: Sequence[str], beside: Array | None = None) -> str:
    """Values with their names; of many features those that are furthest from `beside`, or largest."""
    order = np.arange(len(values))
    rest = ""
    if len(values) > MAX_FEATURES:
        size = np.abs(values if beside is None else values - beside)
        order = np.sort(np.argsort(-size, kind="stable")[:MAX_FEATURES])
        rest = f", and {len(values) - MAX_FEATURES} more"
    return ", ".join(f"{names[j]} {number(values[j])}" for j in order.tolist()) + rest


def number(value: Any) -> str:
    """Four digits."""
    return f"{float(value):.4g}"


def told(decision: Any, probabilities: Array | None = None) -> str:
    """A decision as the end of a line; nothing for a partition."""
    if decision is None:
        return ""
    if probabilities is not None:
        return f" -> {decision} ({100.0 * float(np.max(probabilities)):.0f} %)"
    if isinstance(decision, float):
        return f" -> {number(decision)}"
    if isinstance(decision, np.ndarray):
        return " -> " + ", ".join(number(value) for value in decision)
    return f" -> {decision}"
