"""Keep models consistent when learning is interrupted by Ctrl-C or another error."""

# The wrappers in `signal` would take as long as everything else that is done for a single sample.
import _signal
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def all_or_nothing(learn: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method that learns from scratch: if it raises, the model is as it was before.

    The method must put what it learns into new objects: only the model's attributes are restored.
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
    """Decorate a method that changes a model in place: Ctrl-C waits for its end, a second one does not.

    This has no effect in threads other than the main one, which do not receive signals.
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

    Numba looks the functions up through Python, and replaces an exception that is raised meanwhile by
    an error of its own.
    """
    return kernel(*what)
