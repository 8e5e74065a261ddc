"""What long fits tell of themselves: the parameter `verbose` of the estimators.

Whoever learns calls `tell` and `begin_stage`, wherever that is; what they say is printed if the
estimator that has been asked to learn is `verbose`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from numba.core import event

# Seconds between two lines, at least, of an estimator with verbose=1.
PAUSE = 1.0


class Progress:
    """The lines of one estimator; `name` stands at the beginning of each."""

    def __init__(self, name: str) -> None:
        self.name, self.verbose, self.stage = name, 0, ""
        self.begun = self.last = time.perf_counter()
        self.has_compiled = False

    def tell(self, text: str, always: bool = False) -> None:
        """Print a line; with verbose=1 no more than one in a while, unless it is told `always`."""
        now = time.perf_counter()
        if always or self.verbose > 1 or now - self.last >= PAUSE:
            self.last = now
            print(f"[{self.name}] {self.stage}{text}, {now - self.begun:.1f} s", flush=True)


class _Compiling(event.Listener):
    """Says why nothing seems to happen, once; not where compiled code is read from the disk."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_start(self, event: object) -> None:
        if not self._progress.has_compiled:
            self._progress.has_compiled = True
            self._progress.tell("compiling: the first use on this machine takes longer", always=True)

    def on_end(self, event: object) -> None:
        pass


_NOW: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def telling(progress: Progress, verbose: int) -> Iterator[None]:
    """Let `progress` say what happens inside, as `verbose` has it: 0 nothing, 1 now and then, 2 all."""
    progress.verbose, progress.stage = verbose, ""
    token = _NOW.set(progress)
    try:
        with event.install_listener("numba:compile", _Compiling(progress)):
            yield
    finally:
        _NOW.reset(token)


def tell(text: str) -> None:
    """Say that a step is done."""
    progress = _NOW.get()
    if progress is not None:
        progress.tell(text)


def begin_stage(text: str) -> None:
    """Say what the steps that follow are part of."""
    progress = _NOW.get()
    if progress is not None:
        progress.stage = f"{text}: "
