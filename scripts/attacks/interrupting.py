"""Ctrl-C at any line of the package, and whether two states are the same."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import oda_rl
from oda_rl import agents

PACKAGES = tuple(str(Path(one.__file__).parent) for one in (oda_rl, agents))


def alike(one: Any, other: Any) -> bool:
    """Whether two states are the same, to the bit."""
    if isinstance(one, dict):
        same = isinstance(other, dict) and one.keys() == other.keys()
        return same and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        same = one.shape == other.shape and one.dtype == other.dtype
        return same and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    return bool(one == other or (one != one and other != other))


def some_lines(rng: np.random.Generator) -> int:
    """Of the package, from its first ones to beyond the end of most of what is interrupted."""
    return int(10.0 ** rng.uniform(1.0, 4.5))


def interrupt(do: Callable[[], object], after: int) -> None:
    """Do something; Ctrl-C comes after so many lines of the package, if there are as many."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGES):
            return None
        if event == "line":
            count += 1
            if count == after:
                signal.raise_signal(signal.SIGINT)
        return trace

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(trace)
    try:
        do()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
