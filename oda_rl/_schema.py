"""What a model file may hold: how a part declares it, and the one check of all (see `oda_rl.storage`).

A schema mirrors what it describes:

- a dictionary: exactly these entries, checked in this order; one called `"name?"` may be missing;
- `[schema]`: a list of any length; a tuple of schemas: a list of exactly these;
- a text: a number, a text or an array, see below; None: None; a set: one of its values;
- `Either(schema, ...)`: one of them; `Rules(schema, ...)`: besides, these rules must hold;
- a function of the entries around it and the sizes: returns the schema to go by.

A text is `kind[sizes] in interval, property as name`, of which all but the kind may be left out:

- kind: `int` and `float` (64 bits), `bool`, `text`; with sizes an array of these, without a single one;
- sizes: numbers and names such as `d, K` or `K+1`. A name that is not known yet stands, from then on,
  for what is found; inside of a list, until the end of its entry;
- interval: `[0, 1)`, `[0, K)`. Without, and at an open end `inf`, numbers are finite and no larger than
  `LARGEST`; a closed end `inf` lets infinity in, and all below it. `any` in place of it lets NaN in;
- property: `rising`, `unique` or `sums to 1`, along the last axis;
- name: of a size that the number is from then on.

A rule is a function of the value and the sizes that calls `expect`.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Schema = Any
Sizes = dict[str, int]
# The square of a larger number, times a dimension, may not be a number any more.
LARGEST = 1e150
SUM_TOLERANCE = 1e-6
# The state of a generator of random numbers.
_WIDE = f"int in [0, {2**128 - 1}]"
GENERATOR = {
    "bit_generator": {"PCG64"},
    "state": {"state": _WIDE, "inc": _WIDE},
    "has_uint32": {0, 1},
    "uinteger": f"int in [0, {2**32 - 1}]",
}
DTYPES = {"float": "<f8", "int": "<i8", "bool": "|b1", "text": "<U"}
TYPES = {"float": (int, float), "int": (int,), "bool": (bool,), "text": (str,)}
_FORM = re.compile(
    r"(?P<kind>\w+)(?:\[(?P<shape>[^\]]*)\])?(?: in (?P<within>any|[\[(][^\])]+[\])]))?"
    r"(?:, (?P<property>rising|unique|sums to 1))?(?: as (?P<name>\w+))?"
)


class RefusedError(Exception):
    """An entry of a file is not as declared.

    Parameters
    ----------
    place : str
        The entry.
    found, accepted : str
        What it is, and what it may be.
    """

    def __init__(self, place: str, found: str, accepted: str) -> None:
        super().__init__(f"its entry {place!r} {found}; accepted is {accepted}")
        self.place, self.found, self.accepted = place, found, accepted


class Told(NamedTuple):
    """What is told of an array that has not been read."""

    dtype: str
    shape: tuple[int, ...]


class Either:
    """One of several schemas."""

    def __init__(self, *schemas: Schema) -> None:
        self.schemas = schemas


class Rules:
    """A schema, and rules between its entries: functions of the value and the sizes."""

    def __init__(self, schema: Schema, *rules: Callable[[Any, Sizes], None]) -> None:
        self.schema, self.rules = schema, rules


def maybe(schema: Schema) -> Either:
    """The schema, or None."""
    return Either(None, schema)


def anything(around: Any, sizes: Sizes) -> Schema:
    """A schema that accepts whatever there is."""
    return anything


def expect(holds: Any, place: str, found: str, accepted: str) -> None:
    """Refuse a file unless a rule holds; `place` is relative to where the rule stands."""
    if not holds:
        raise RefusedError(place, found, accepted)


def inside(place: str, key: object) -> str:
    """The place of an entry within another."""
    return f"{place}/{key}" if place and key != "" else place or str(key)


def check(
    schema: Schema, value: Any, sizes: Sizes, place: str = "", around: Any = None, whole: bool = True
) -> None:
    """Refuse a value that is not as declared.

    Parameters
    ----------
    schema : schema
        See above.
    value : object
        From a file.
    sizes : dict of str to int
        Those that are known; takes those that are found.
    place : str
        Where the value is in the file.
    around : object
        The dictionary that the value is in.
    whole : bool, default=True
        Whether there are arrays, and not `Told` in their places; rules are checked only then.

    Raises
    ------
    RefusedError
    """
    if callable(schema):
        made = schema(around, sizes)
        if made is not anything:
            check(made, value, sizes, place, around, whole)
    elif isinstance(schema, str):
        _check_text(schema, value, sizes, place)
    elif isinstance(schema, Either):
        _check_either(schema, value, sizes, place, around, whole)
    elif isinstance(schema, Rules):
        check(schema.schema, value, sizes, place, around, whole)
        for rule in schema.rules if whole else ():
            try:
                rule(value, sizes)
            except RefusedError as error:
                raise RefusedError(inside(place, error.place), error.found, error.accepted) from None
    elif isinstance(schema, Mapping):
        _check_entries(schema, value, sizes, place, whole)
    elif isinstance(schema, list | tuple):
        _check_list(schema, value, sizes, place, around, whole)
    else:
        values = schema if isinstance(schema, set | frozenset) else {schema}
        known = any(type(value) is type(one) and value == one for one in values)
        expect(known, place, f"is {_shown(value)}", " or ".join(sorted(map(repr, values))))


def _check_either(
    schema: Either, value: Any, sizes: Sizes, place: str, around: Any, whole: bool
) -> None:
    errors = []
    for one in schema.schemas:
        try:
            found = dict(sizes)
            check(one, value, found, place, around, whole)
            sizes.update(found)
            return
        except RefusedError as error:
            errors.append(error)
    # The most particular of them: what is wrong inside, before what is wrong as a whole.
    deepest = max(errors, key=lambda error: error.place.count("/"))
    accepted = " or ".join(e.accepted for e in errors if e.place == deepest.place)
    raise RefusedError(deepest.place, deepest.found, accepted)


def _check_entries(
    schema: Mapping[str, Schema], value: Any, sizes: Sizes, place: str, whole: bool
) -> None:
    expect(isinstance(value, dict), place, f"is {_shown(value)}", "a dictionary")
    names = {name.removesuffix("?") for name in schema}
    for name in value:
        expect(name in names, inside(place, name), "is not known there", ", ".join(sorted(names)))
    for name, own in schema.items():
        key = name.removesuffix("?")
        if key in value:
            check(own, value[key], sizes, inside(place, key), value, whole)
        else:
            expect(name != key, inside(place, key), "is missing", "a file that has it")


def _check_list(
    schema: list[Schema] | tuple[Schema, ...],
    value: Any,
    sizes: Sizes,
    place: str,
    around: Any,
    whole: bool,
) -> None:
    listed = isinstance(value, list | tuple)
    if isinstance(schema, list):
        expect(listed, place, f"is {_shown(value)}", "a list")
        for i, part in enumerate(value):
            check(schema[0], part, dict(sizes), inside(place, i), around, whole)
        return
    right = listed and len(value) == len(schema)
    expect(right, place, f"is {_shown(value)}", f"a list of {len(schema)}")
    for i, (own, part) in enumerate(zip(schema, value, strict=True)):
        check(own, part, sizes, inside(place, i), around, whole)


# -- numbers, texts, arrays --------------------------------------------------------------------------


class _Form(NamedTuple):
    """A text, taken apart."""

    kind: str
    shape: tuple[str, ...] | None
    within: tuple[str, ...]
    property: str | None
    name: str | None


@lru_cache(maxsize=1000)
def _read(text: str) -> _Form:
    found = _FORM.fullmatch(text)
    if found is None or found["kind"] not in DTYPES:
        raise TypeError(f"{text!r} declares nothing; see oda_rl._schema.")
    shape = None if found["shape"] is None else tuple(re.split(r",\s*", found["shape"]))
    within = found["within"] or "(-inf, inf)"
    ends = (within,)
    if within != "any":
        ends = (within[0], *re.split(r",\s*", within[1:-1]), within[-1])
    return _Form(found["kind"], shape, ends, found["property"], found["name"])


def _check_text(text: str, value: Any, sizes: Sizes, place: str) -> None:
    form = _read(text)
    if form.shape is None:
        right = type(value) in TYPES[form.kind]
        expect(right, place, f"is {_shown(value)}", text)
        numbers = np.array([value]) if form.kind in ("int", "float") else None
    else:
        numbers = _check_form(text, form, value, sizes, place)
    if numbers is not None and form.kind in ("int", "float"):
        _check_numbers(text, form, numbers, sizes, place)
    if form.name is not None:
        sizes[form.name] = value


def _check_form(text: str, form: _Form, value: Any, sizes: Sizes, place: str) -> Any:
    """Dtype and shape; returns the array if it has been read."""
    dtype = value.dtype if isinstance(value, Told) else getattr(value, "dtype", np.dtype(object)).str
    expect(dtype.startswith(DTYPES[form.kind]), place, f"is {_shown(value)}", _accepted(text, sizes))
    assert form.shape is not None
    shape = tuple(value.shape)
    expect(len(shape) == len(form.shape), place, f"is {_shown(value)}", _accepted(text, sizes))
    for name, n in zip(form.shape, shape, strict=True):
        wanted = sizes.setdefault(name, n) if name.isidentifier() else _size(name, sizes)
        expect(wanted == n, place, f"is {_shown(value)}", _accepted(text, sizes))
    return None if isinstance(value, Told) else value


def _check_numbers(text: str, form: _Form, numbers: Any, sizes: Sizes, place: str) -> None:
    if form.within != ("any",):
        opening, low, high, closing = form.within
        lower, upper = _size(low, sizes), _size(high, sizes)
        largest = 2**63 - 1 if form.kind == "int" else LARGEST
        lower = -largest if lower == -np.inf and opening == "(" else lower
        upper = largest if upper == np.inf and closing == ")" else upper
        above = numbers >= lower if opening == "[" or low == "-inf" else numbers > lower
        below = numbers <= upper if closing == "]" or high == "inf" else numbers < upper
        if not np.all(above & below):
            at = np.unravel_index(int(np.argmin(above & below)), numbers.shape)
            where = f" at {list(map(int, at))}" if form.shape is not None else ""
            expect(False, place, f"is {_shown(numbers[at])}{where}", _accepted(text, sizes))
    holds = {
        None: lambda: True,
        "rising": lambda: np.all(numbers[..., 1:] >= numbers[..., :-1]),
        "unique": lambda: len(np.unique(numbers)) == numbers.size,
        "sums to 1": lambda: np.all(np.abs(numbers.sum(axis=-1) - 1.0) <= SUM_TOLERANCE),
    }[form.property]()
    expect(holds, place, f"is {_shown(numbers.tolist())}", _accepted(text, sizes))


def _size(text: str, sizes: Sizes) -> float:
    """A number, or a size with a number added, such as K+1."""
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        sign, name, rest = re.fullmatch(r"(-?)([A-Za-z_]\w*)([+-]\d+)?", text).groups()  # type: ignore[union-attr]
        return (-1 if sign else 1) * sizes[name] + int(rest or 0)


def _accepted(text: str, sizes: Sizes) -> str:
    """A declaration, with the sizes that it names."""
    form = _read(text)
    names = re.findall(r"[A-Za-z_]\w*", " ".join((*(form.shape or ()), *form.within)))
    known = [f"{name} = {sizes[name]}" for name in dict.fromkeys(names) if name in sizes]
    return f"{text} ({', '.join(known)})" if known else text


def _shown(value: Any) -> str:
    """What was found, in a few words."""
    if isinstance(value, Told | np.ndarray):
        dtype = value.dtype if isinstance(value, Told) else value.dtype.str
        return f"an array {np.dtype(dtype).name} of the shape {tuple(value.shape)}"
    if isinstance(value, np.generic):
        value = value.item()
    try:
        text = repr(value)
    except ValueError:  # of a number with thousands of digits
        text = "a number of very many digits"
    return text if len(text) <= 60 else text[:57] + "..."
