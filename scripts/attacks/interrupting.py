"""Simulate Ctrl-C at any line of the package, and compare states."""

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
    """Whether two states are equal bit for bit."""
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
    """Draw a number of lines, log-uniform from 10 to 30,000; most interrupted calls run fewer."""
    return int(10.0 ** rng.uniform(1.0, 4.5))


def interrupt(do: Callable[[], object], after: int) -> None:
    """Call `do`, with Ctrl-C after `after` lines of the package, if it runs that many."""
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
