"""Command lines: whole numbers with ranges, error messages, and the command to type again."""

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from tyro.constructors import PrimitiveConstructorSpec

T = TypeVar("T")


def whole(low: int, *others: int, most: int | None = None) -> Any:
    """Specify for tyro a whole number from `low` to `most`, or one of `others`, as --help shows."""
    usual = f"{low} or more" if most is None else f"{low} to {most}"
    accepted = " or ".join([usual, *map(str, others)])

    def read(typed: list[str]) -> int:
        number = int(typed[0]) if typed[0].removeprefix("-").isdecimal() else None
        is_within = number is not None and low <= number and (most is None or number <= most)
        if number is None or not (is_within or number in others):
            raise ValueError(f"must be an integer, {accepted}; got {typed[0]}.")
        return number

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"INT({accepted})",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


Count = Annotated[int, whole(0)]
"""0, 1, 2, ..."""
Positive = Annotated[int, whole(1)]
"""1, 2, 3, ..."""
Jobs = Annotated[int, whole(1, -1)]
"""Number of processes: 1, 2, 3, ..., or -1 for one per core."""


def read_options(read: Callable[[], T]) -> T:
    """Return the options that `read` parses; exit with the message if a hyperparameter is invalid."""
    try:
        return read()
    except ValueError as error:
        sys.exit(f"{error}")


def typed_again(script: str, **changed: Sequence[object] | None) -> str:
    """Return the command that was typed, with some options changed; None removes an option."""
    kept, is_changed = [], False
    for word in sys.argv[1:]:
        if word.startswith("--"):
            is_changed = word[2:].partition("=")[0].replace("-", "_") in changed
        kept += [] if is_changed else [word]
    for name, values in changed.items():
        kept += [] if values is None else [f"--{name.replace('_', '-')}", *map(str, values)]
    return shlex.join(["python", f"scripts/{script}.py", *kept])
