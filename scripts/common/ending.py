"""End of a script: with one line if it is interrupted, or cannot read or write a file.

Scripts import this module first: the other imports take seconds, and Ctrl-C may come meanwhile. Some
modules would take a KeyboardInterrupt for a failed optional import, and continue.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn


def code_of(number: int) -> int:
    """The exit code by which shells report a command that was ended by the signal of this number."""
    return 128 + number


INTERRUPTED = code_of(signal.SIGINT)
SIGPIPE = 13  # which the module signal does not have on Windows


def run_and_exit(main: Callable[[], Any]) -> NoReturn:
    """Call `main`, and exit with the code that it returns."""
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # of a reader such as head, which has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes
        sys.exit(code_of(SIGPIPE))
    except OSError as error:  # a full disk, a file in place of a folder, no permission
        sys.exit(f"Cannot continue: {str(error).rstrip('.')}. Files written before are kept.")
    sys.exit(code)


def _end_at_once(*_: object) -> NoReturn:
    """Exit at once on Ctrl-C before `main`: half-imported modules have nothing to close."""
    print("Interrupted.", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _is_started() -> bool:
    """Whether the main program is one of these scripts, and not a worker or a test."""
    started = getattr(sys.modules["__main__"], "__file__", None) or ""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.abspath(started).startswith(folder + os.sep)


if _is_started() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end_at_once)
