"""Trials: what may crash runs in a forked child, one trial after the other, and comes to verdicts."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import FrameType
from typing import NamedTuple

import numpy as np
from numba.core.caching import IndexDataCacheFile

FORK = get_context("fork")
SECONDS = 180
# Events of the interpreter that a model file must not lead to.
FORBIDDEN = ("pickle.", "os.system", "os.exec", "os.posix_spawn", "subprocess.", "socket.", "shutil.")
# Where numba reads its folder of compiled code, of pickles: the same events, but not of a model file.
OWN_READING = (IndexDataCacheFile._load_index.__code__, IndexDataCacheFile._load_data.__code__)


class Verdict(StrEnum):
    """What may come out of a trial. The first three are as they should be."""

    REFUSED = "refused"  # by the one exception that names the file
    EQUAL = "equal"  # to what is without the attack
    VALID = "valid"  # another model, which acts as soundly as any
    CRASH = "crash"
    NAN = "NaN"
    RAW = "raw error"
    LATE = "late error"
    RAN = "ran code"
    MEMORY = "memory"
    HANG = "hang"
    WRONG = "wrong"


GOOD = (Verdict.REFUSED, Verdict.EQUAL, Verdict.VALID)
BAD = tuple(verdict for verdict in Verdict if verdict not in GOOD)


class Found(NamedTuple):
    """What an attack found: the verdict, why, and the MB that it took more than without an attack."""

    verdict: str
    detail: str = ""
    memory: float = 0.0


class Outcome(NamedTuple):
    """What came of a trial: its number, on what, and what was found, with what was done."""

    number: int
    target: str
    verdict: str
    detail: str
    memory: float = 0.0


# Tells on what a trial is, and what is done, before anything can crash.
Begin = Callable[[str, str], None]
# One trial, by its number and a generator of its own.
Attack = Callable[[int, np.random.Generator, Begin], Found]


def run_trials(
    attack: Attack, numbers: range, seed: list[int], forbidden: tuple[str, ...] = FORBIDDEN
) -> Iterator[Outcome]:
    """Run trials in a forked child, in which all code is compiled already; in another one after a crash.

    Parameters
    ----------
    attack : callable
        One trial.
    numbers : range
        Those of the trials.
    seed : list of int
        With its number it seeds every trial.
    forbidden : tuple of str
        Events of the interpreter, by their beginnings, that must not come about.

    Yields
    ------
    Outcome
        In the order of the numbers.
    """
    number = numbers.start
    while number < numbers.stop:
        receiving, sending = FORK.Pipe(duplex=False)
        work = (attack, range(number, numbers.stop), seed, sending, forbidden)
        child = FORK.Process(target=_make_trials, args=work)
        child.start()
        sending.close()
        at, timely = ("", ""), True
        try:
            while timely := receiving.poll(SECONDS):
                message = receiving.recv()
                if isinstance(message, Found):
                    told = f"{at[1]}: {message.detail}"[:600]
                    yield Outcome(number, at[0], message.verdict, told, message.memory)
                    number += 1
                else:
                    at = message
        except EOFError:  # the child has ended, one way or another
            child.join()
        finally:
            child.kill()  # it hangs, or nobody asks for more
            child.join()
        if number < numbers.stop:
            died = f"signal {-child.exitcode}" if child.exitcode < 0 else f"exit {child.exitcode}"
            verdict, how = (Verdict.CRASH, died) if timely else (Verdict.HANG, f"{SECONDS} s")
            yield Outcome(number, at[0], verdict, f"{at[1]}: {how}")
            number += 1


def _make_trials(
    attack: Attack, numbers: range, seed: list[int], sending: Connection, forbidden: tuple[str, ...]
) -> None:
    ran: set[str] = set()

    def watch(event: str, _: object) -> None:
        if event.startswith(forbidden) and not _numba_reads():
            ran.add(event)

    sys.addaudithook(watch)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for number in numbers:
        try:
            found = attack(number, np.random.default_rng([*seed, number]), lambda *at: sending.send(at))
        except BaseException as error:
            found = Found(Verdict.RAW, describe(error))
        if ran:
            found = Found(Verdict.RAN, ", ".join(sorted(ran)))
            ran.clear()
        sending.send(found)


def _numba_reads() -> bool:
    """Whether compiled code is being read from numba's folder."""
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_code not in OWN_READING:
        frame = frame.f_back
    return frame is not None


class Memory:
    """How much this process has grown at most since `begin`, in bytes; 0 where Linux does not tell."""

    def begin(self) -> None:
        """Forget the peak so far."""
        self._before = 0
        with suppress(OSError):
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            self._before = self._peak()

    @property
    def grown(self) -> int:
        """Since then."""
        return self._peak() - self._before if self._before else 0

    @staticmethod
    def _peak() -> int:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])


def describe(error: BaseException) -> str:
    """An error in one line, with where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}:{last.lineno}"
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} [{where}]"
