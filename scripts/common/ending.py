"""How a script ends: with a line, also where it is interrupted or cannot read or write a file."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn


def run_and_exit(main: Callable[[], Any]) -> NoReturn:
    """Call `main`, and end with the code that it returns."""
    try:
        code = main()
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
    except OSError as error:  # a full disk, a file in place of a folder, one that may not be written
        sys.exit(f"It cannot go on: {error}. What was written before is still there.")
    sys.exit(code)
