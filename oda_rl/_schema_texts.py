"""Texts of a schema: numbers, texts and arrays as a model file may hold them (see `oda_rl._schema`).

A text is `kind[sizes] in interval, property as name`. Everything but the kind is optional:

- kind: `int` and `float` (64 bits), `count` (an int of 0 to `MAX_COUNT`), `bool`, `text`: an array if
  there are sizes, else a single value; `label`: always an array, of any of these;
- sizes: numbers, names, and sums of products of these, such as `d, K+1` or `q*q+m`. A name that is not
  yet known is set to the size found; inside a list, it is valid until the end of the item;
- interval: `[0, 1)`, `[0, K)`. Without one, or at an open end `inf`, numbers are finite and no larger
  than `LARGEST_STORED`; a closed end `inf` includes infinity. `any` instead of an interval also accepts
  NaN;
- property: `rising`, `unique` or `sums to 1`, along the last axis;
- name: of a size that is set to the number.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

Sizes = dict[str, int]
# The square of a larger number, times a dimension, may overflow.
LARGEST_STORED = 1e150
# Upper bound of counters, so that they and what is computed from them stay far from 2^63.
MAX_COUNT = 2**48
SUM_TOLERANCE = 1e-6
DTYPES: dict[str, Any] = {"float": "<f8", "int": "<i8", "count": "<i8", "bool": "|b1", "text": "<U"}
DTYPES["label"] = ("|b", "|i", "<i", "|u", "<u", "<f", "<U", "|O")
TYPES = {"float": (int, float), "int": (int,), "count": (int,), "bool": (bool,), "text": (str,)}
NUMBERS = {"float": LARGEST_STORED, "int": 2**63 - 1, "count": MAX_COUNT}
_FORM = re.compile(
    r"(?P<kind>\w+)(?:\[(?P<shape>[^\]]*)\])?(?: in (?P<within>any|[\[(][^\])]+[\])]))?"
    r"(?:, (?P<property>rising|unique|sums to 1))?(?: as (?P<name>\w+))?"
)


class RefusedError(Exception):
    """An entry of a file is not as declared.

    Parameters
    ----------
    place : str
        The place of the entry.
    found, accepted : str
        What was found there, and what would be accepted.
    """

    def __init__(self, place: str, found: str, accepted: str) -> None:
        super().__init__(f"its entry {place!r} {found}; expected {accepted}")
        self.place, self.found, self.accepted = place, found, accepted


class NotStoredError(ValueError):
    """A model needs an object that its file does not contain, and that must be given to `load`."""


class ArraySpec(NamedTuple):
    """Dtype and shape of an array that has not been read."""

    dtype: str
    shape: tuple[int, ...]


def expect(holds: Any, place: str, found: str, accepted: str) -> None:
    """Refuse a file unless a rule holds; `place` is relative to the value that the rule belongs to."""
    if not holds:
        raise RefusedError(place, found, accepted)


def refuse(place: str, value: Any, accepted: str) -> NoReturn:
    """Raise a RefusedError that shows the value found and what is accepted."""
    raise RefusedError(place, f"is {_shown(value)}", accepted)


class _Form(NamedTuple):
    """A parsed text."""

    kind: str
    shape: tuple[str, ...] | None
    within: tuple[str, ...]
    property: str | None
    name: str | None


@lru_cache(maxsize=1000)
def _read(text: str) -> _Form:
    found = _FORM.fullmatch(text)
    if found is None or found["kind"] not in DTYPES:
        raise TypeError(f"{text!r} is not a valid schema; see oda_rl._schema.")
    shape = None if found["shape"] is None else tuple(re.split(r",\s*", found["shape"]))
    within = found["within"] or ("[0, inf)" if found["kind"] == "count" else "(-inf, inf)")
    ends: tuple[str, ...] = (within,)
    if within != "any":
        ends = (within[0], *re.split(r",\s*", within[1:-1]), within[-1])
    return _Form(found["kind"], shape, ends, found["property"], found["name"])


def check_text(text: str, value: Any, sizes: Sizes, place: str) -> None:
    form = _read(text)
    if form.shape is not None:
        _check_form(text, form, value, sizes, place)
    elif type(value) not in TYPES[form.kind]:
        refuse(place, value, text)
    elif form.kind == "float" and type(value) is int and abs(value) > 2**63:
        refuse(place, value, text)  # too large an integer for compiled code
    if form.kind in NUMBERS and not isinstance(value, ArraySpec):
        _check_numbers(text, form, value, sizes, place)
    if form.name is not None:
        sizes[form.name] = value


def _check_form(text: str, form: _Form, value: Any, sizes: Sizes, place: str) -> None:
    """Check the dtype and shape of an array."""
    assert form.shape is not None
    dtype = value.dtype.str if isinstance(value, np.ndarray) else getattr(value, "dtype", "")
    right = dtype.startswith(DTYPES[form.kind]) and len(value.shape) == len(form.shape)
    for name, n in zip(form.shape, value.shape, strict=True) if right else ():
        wanted = sizes.setdefault(name, n) if name.isidentifier() else size_of(name, sizes)
        right = right and wanted == n
    if not right:
        refuse(place, value, _accepted(text, sizes))


def _check_numbers(text: str, form: _Form, numbers: Any, sizes: Sizes, place: str) -> None:
    """Check the interval and the property of an array of numbers, or of a single one."""
    if form.within != ("any",):
        opening, low, high, closing = form.within
        lower, upper, largest = size_of(low, sizes), size_of(high, sizes), NUMBERS[form.kind]
        lower = -largest if lower == -np.inf and opening == "(" else lower
        upper = largest if upper == np.inf and closing == ")" else upper
        above = numbers >= lower if opening == "[" or low == "-inf" else numbers > lower
        below = numbers <= upper if closing == "]" or high == "inf" else numbers < upper
        if not np.all(above & below):
            _refuse_one(text, numbers, above & below, sizes, place)
    if form.property is not None and not _PROPERTIES[form.property](numbers):
        refuse(place, numbers.tolist(), _accepted(text, sizes))


def _refuse_one(text: str, numbers: Any, right: Any, sizes: Sizes, place: str) -> NoReturn:
    """Refuse numbers, with the first wrong one and its index in the message."""
    if not isinstance(numbers, np.ndarray):
        refuse(place, numbers, _accepted(text, sizes))
    at = np.unravel_index(int(np.argmin(right)), numbers.shape)
    found = f"is {_shown(numbers[at])} at {list(map(int, at))}"
    raise RefusedError(place, found, _accepted(text, sizes))


_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "rising": lambda x: np.all(x[..., 1:] >= x[..., :-1]),
    "unique": lambda x: len(np.unique(x)) == x.size,
    "sums to 1": lambda x: np.all(np.abs(x.sum(axis=-1) - 1.0) <= SUM_TOLERANCE),
}


def size_of(text: str, sizes: Sizes) -> float:
    """A number, or a sum of products of sizes and numbers."""
    constant, terms = _terms(text)
    return constant + sum(sign * prod(sizes[name] for name in names) for sign, names in terms)


@lru_cache(maxsize=1000)
def _terms(text: str) -> tuple[float, list[tuple[int, list[str]]]]:
    """Parse a sum: its constant, and for each product of sizes a factor and the names."""
    try:
        return (int(text) if text.lstrip("-").isdigit() else float(text)), []
    except ValueError:
        pass
    constant, terms = 0, []
    for sign, term in re.findall(r"([+-]?)([\w*]+)", text):
        factors = term.split("*")
        factor = prod((int(f) for f in factors if f.isdigit()), start=-1 if sign == "-" else 1)
        names = [f for f in factors if not f.isdigit()]
        if names:
            terms.append((factor, names))
        else:
            constant += factor
    return constant, terms


def _accepted(text: str, sizes: Sizes) -> str:
    """A text for messages, with the values of the sizes that it names."""
    form = _read(text)
    names = re.findall(r"[A-Za-z_]\w*", " ".join((*(form.shape or ()), *form.within)))
    known = [f"{name} = {sizes[name]}" for name in dict.fromkeys(names) if name in sizes]
    return f"{text} ({', '.join(known)})" if known else text


def _shown(value: Any) -> str:
    """A short description of a value for messages."""
    if isinstance(value, ArraySpec | np.ndarray):
        dtype = value.dtype if isinstance(value, ArraySpec) else value.dtype.str
        return f"a {np.dtype(dtype).name} array of shape {tuple(value.shape)}"
    if isinstance(value, np.generic):
        value = value.item()
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        text = "an integer with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."
