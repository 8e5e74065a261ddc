"""Trials, which may crash: they run one after the other in a forked child, and give verdicts."""

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
# Beginnings of audit events of the interpreter that a model file must not cause.
FORBIDDEN = ("pickle.", "os.system", "os.exec", "os.posix_spawn", "subprocess.", "socket.", "shutil.")
# Functions of numba that read its cache of pickled code; these events are not caused by a model file.
OWN_READING = (IndexDataCacheFile._load_index.__code__, IndexDataCacheFile._load_data.__code__)


class Verdict(StrEnum):
    """Verdict of a trial; the first three are good."""

    REFUSED = "refused"  # by the one exception that names the file
    EQUAL = "equal"  # to the result without the attack
    VALID = "valid"  # another model, which is as sound as any
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
    """Result of an attack: the verdict, the reason, and MB of memory beyond those without an attack."""

    verdict: str
    detail: str = ""
    memory: float = 0.0


class Outcome(NamedTuple):
    """Result of a trial: its number, its target, the verdict, what was done and found, and MB."""

    number: int
    target: str
    verdict: str
    detail: str
    memory: float = 0.0


# Reports the target of a trial and what is done to it, before anything can crash.
Begin = Callable[[str, str], None]
# Runs one trial, given its number, its own random generator, and a `Begin`.
Attack = Callable[[int, np.random.Generator, Begin], Found]


def run_trials(
    attack: Attack, numbers: range, seed: list[int], forbidden: tuple[str, ...] = FORBIDDEN
) -> Iterator[Outcome]:
    """Run trials in a forked child, which has all code compiled; after a crash fork another child.

    Parameters
    ----------
    attack : callable
        One trial.
    numbers : range
        Numbers of the trials.
    seed : list of int
        Seeds each trial, together with its number.
    forbidden : tuple of str
        Beginnings of audit events of the interpreter that must not occur.

    Yields
    ------
    Outcome
        Results in the order of the numbers.
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
                    detail = f"{at[1]}: {message.detail}"[:600]
                    yield Outcome(number, at[0], message.verdict, detail, message.memory)
                    number += 1
                else:
                    at = message
        except EOFError:  # the child has ended or crashed
            child.join()
        finally:
            child.kill()  # it hangs, or the generator is closed
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
    """Peak growth of this process's memory since `begin`, in bytes; 0 if Linux does not report it."""

    def begin(self) -> None:
        """Reset the peak."""
        self._before = 0
        with suppress(OSError):
            with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
                file.write("5")
            self._before = self._peak()

    @property
    def grown(self) -> int:
        """Bytes that the peak has grown since `begin`."""
        return self._peak() - self._before if self._before else 0

    @staticmethod
    def _peak() -> int:
        with open("/proc/self/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])


def describe(error: BaseException) -> str:
    """Describe an error in one line, with the file and line where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}:{last.lineno}"
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} [{where}]"
