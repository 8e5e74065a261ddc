"""Progress messages of long fits, for the parameter `verbose` of the estimators.

Learning code calls `report` and `begin_stage` anywhere; the messages are printed if the estimator that
is being fitted is `verbose`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from numba.core import event

# Least number of seconds between two lines of an estimator with verbose=1.
PAUSE = 1.0


class Progress:
    """The messages of one estimator; each line begins with its `name`."""

    def __init__(self, name: str) -> None:
        self.name, self.verbose, self.stage = name, 0, ""
        self.begun = self.last = time.perf_counter()
        self.has_compiled = False

    def report(self, text: str, always: bool = False) -> None:
        """Print a line; with verbose=1 only if the last one is `PAUSE` seconds ago, or if `always`."""
        now = time.perf_counter()
        if always or self.verbose > 1 or now - self.last >= PAUSE:
            self.last = now
            print(f"[{self.name}] {self.stage}{text}, {now - self.begun:.1f} s", flush=True)


class _Compiling(event.Listener):
    """Reports once that code is being compiled; code loaded from the cache on disk does not count."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_start(self, event: object) -> None:
        if not self._progress.has_compiled:
            self._progress.has_compiled = True
            self._progress.report("compiling: the first use on this machine takes longer", always=True)

    def on_end(self, event: object) -> None:
        pass


_CURRENT: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def reporting(progress: Progress, verbose: int) -> Iterator[None]:
    """Print messages from inside via `progress`, by `verbose`: 0 none, 1 one per `PAUSE`, 2 all."""
    progress.verbose, progress.stage = verbose, ""
    token = _CURRENT.set(progress)
    try:
        with event.install_listener("numba:compile", _Compiling(progress)):
            yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def silence() -> Iterator[None]:
    """Print no messages from inside."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def report(text: str) -> None:
    """Report that a step is done."""
    progress = _CURRENT.get()
    if progress is not None:
        progress.report(text)


def begin_stage(text: str) -> None:
    """Set the prefix of the following messages: the stage that the steps belong to."""
    progress = _CURRENT.get()
    if progress is not None:
        progress.stage = f"{text}: "
