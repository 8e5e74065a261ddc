"""What an interrupt, or another error, leaves of a model that was about to learn: nothing by halves."""

# What the functions of `signal` call: these take as long as all else that a single sample does.
import _signal
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def all_or_nothing(learn: Callable[P, R]) -> Callable[P, R]:
    """Have a model that learns anew as it was before if the method does not come to its end.

    What the method learns must be in new objects: only the model's attributes are put back.
    """

    @wraps(learn)
    def method(*args: P.args, **options: P.kwargs) -> R:
        attributes: Any = vars(args[0])
        before = attributes.copy()
        try:
            return learn(*args, **options)
        except BaseException:
            attributes.clear()
            attributes.update(before)
            raise

    return method


def interrupts_wait(learn: Callable[P, R]) -> Callable[P, R]:
    """Have Ctrl-C wait for the end of a method that changes a model in place; a second one breaks off.

    In other threads than the main one, which gets no signals, nothing is done.
    """

    @wraps(learn)
    def method(*args: P.args, **options: P.kwargs) -> R:
        before: Any = None
        if threading.current_thread() is threading.main_thread():
            before = _signal.getsignal(_signal.SIGINT)
        if not callable(before):
            return learn(*args, **options)
        came: list[tuple[int, FrameType | None]] = []

        def note(number: int, frame: FrameType | None) -> None:
            came.append((number, frame))
            if len(came) > 1:
                before(number, frame)

        _signal.signal(_signal.SIGINT, note)
        try:
            found = learn(*args, **options)
        finally:
            _signal.signal(_signal.SIGINT, before)
        if came:
            before(*came[0])
        return found

    return method


@interrupts_wait
def call_compiled(kernel: Callable[..., R], *what: Any) -> R:
    """Call compiled code that takes functions, with arguments `what`; Ctrl-C waits for its end.

    Numba asks Python where the functions are, and an error of its own replaces what is raised meanwhile.
    """
    return kernel(*what)
