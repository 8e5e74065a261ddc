"""Command lines: numbers with ranges, output files, error messages, and the command to type again."""

import math
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tyro.constructors import PrimitiveConstructorSpec

from oda_rl.storage import with_suffix

T = TypeVar("T")


def _one_word(
    metavar: str, read: Callable[[str], Any], kind: Any, choices: tuple[str, ...] | None = None
) -> Any:
    """Specify for tyro an argument of one word, which `read` converts to a value of this `kind`."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda typed: read(typed[0]),
        is_instance=lambda value: isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
        choices=choices,
    )


def whole(low: int, *others: int, most: int | None = None) -> Any:
    """Specify for tyro a whole number from `low` to `most`, or one of `others`, as --help shows."""
    usual = f"{low} or more" if most is None else f"{low} to {most}"
    accepted = " or ".join([usual, *map(str, others)])

    def read(typed: str) -> int:
        number = int(typed) if typed.removeprefix("-").isdecimal() else None
        is_within = number is not None and low <= number and (most is None or number <= most)
        if number is None or not (is_within or number in others):
            raise ValueError(f"must be an integer, {accepted}; got {typed}.")
        return number

    return _one_word(f"INT({accepted})", read, int)


def real(low: float, is_excluded: bool = False, most: float = math.inf) -> Any:
    """Specify for tyro a finite number from `low` to `most`; above `low` if that is excluded."""
    accepted = f"above {low:g}" if is_excluded else f"{low:g} or more"
    accepted += f", {most:g} at most" if math.isfinite(most) else ""

    def read(typed: str) -> float:
        try:
            number = float(typed)
        except ValueError:
            number = math.nan
        is_within = low < number if is_excluded else low <= number
        if not (math.isfinite(number) and is_within and number <= most):
            raise ValueError(f"must be a number, {accepted}; got {typed}.")
        return number

    return _one_word(f"FLOAT({accepted})", read, int | float)


def one_of(known: Collection[str]) -> Any:
    """Specify for tyro a text that is one of `known`, as --help shows; its default may be None."""
    names = tuple(known)
    return _one_word(f"{{{'|'.join(names)}}}", str, str | None, choices=names)


Count = Annotated[int, whole(0)]
"""0, 1, 2, ..."""
Positive = Annotated[int, whole(1)]
"""1, 2, 3, ..."""
Jobs = Annotated[int, whole(1, -1)]
"""Number of processes: 1, 2, 3, ..., or -1 for one per core."""
NonNegative = Annotated[float, real(0.0)]
"""A finite number from 0 on."""
PositiveReal = Annotated[float, real(0.0, is_excluded=True)]
"""A finite number above 0."""


def check_lists(args: Any, *may_be_empty: str) -> str | None:
    """What is wrong with a list of values, if anything: duplicates, or no value where one is needed."""
    for one in fields(args):
        given = getattr(args, one.name)
        if not isinstance(given, tuple):
            continue
        needs_some = one.default != () and one.name not in may_be_empty
        if (needs_some and not given) or len(set(given)) < len(given):
            accepted = "at least one value and no duplicates" if needs_some else "no duplicates"
            return f"--{one.name.replace('_', '-')} must have {accepted}, got {list(given)}."
    return None


def open_out(args: Any, *may_be_empty: str) -> None:
    """Make the folder `args.out`; exit with 1 and a line if `check_lists` finds a mistake."""
    if mistake := check_lists(args, *may_be_empty):
        print(mistake)
        sys.exit(1)
    args.out.mkdir(parents=True, exist_ok=True)


def check_folder(option: str, path: Path | None) -> None:
    """Raise a ValueError if a folder to write into is given, but there is a file of its name."""
    if path is not None and path.exists() and not path.is_dir():
        raise ValueError(f"{option} must be a folder, got the file {path}.")


def check_output(option: str, path: Path, endings: Sequence[str], source: Path) -> None:
    """Raise a ValueError unless an output file has one of the endings, and is not the one read.

    Parameters
    ----------
    option : str
        The option, `--to` say, for the message.
    path : Path
        The file to write.
    endings : sequence of str
        Accepted suffixes, with their dots.
    source : Path
        The model file that is read; without a suffix, that of a model file is appended.
    """
    if path.suffix not in endings or path.is_dir():
        accepted = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise ValueError(f"{option} must be a file ending in {accepted}, got {path}.")
    if path.resolve() == with_suffix(source).resolve():
        raise ValueError(
            f"the file to write is {path}, the model that is read: give another one with {option}."
        )


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
