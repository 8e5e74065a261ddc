"""How long a call takes."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")
Clock = Callable[[], float]


def timed(
    function: Callable[..., Result], *arguments: Any, clock: Clock = time.perf_counter
) -> tuple[Result, float]:
    """What a call returns, and its seconds."""
    begun = clock()
    result = function(*arguments)
    return result, clock() - begun


def repeated_seconds(
    function: Callable[..., object], *arguments: Any, repeats: int = 5, clock: Clock = time.perf_counter
) -> list[float]:
    """The seconds of several calls. Their least is what a call costs when nothing else runs."""
    return [timed(function, *arguments, clock=clock)[1] for _ in range(repeats)]
