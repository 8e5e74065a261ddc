"""Schemas that declare what a model file may hold, and the check against them (see `oda_rl.storage`).

A schema mirrors the value that it describes:

- a dictionary: exactly these entries, checked in this order; one called `"name?"` may be missing;
- `[schema]`: a list or tuple of any length; a tuple of schemas: a list or tuple of exactly these;
- a text: a number, a text or an array (see below); None: None; a set: one of its values;
- `Either(schema, ...)`: one of these; `Rules(schema, rule, ...)`: the schema, and the rules must hold;
- `Sized(schema, n="d+1")`: the schema, with sizes that follow from others;
- a function of the dictionary around the value and the sizes: it returns the schema to use.

An example of a text is `"float[d, K] in [0, 1]"`; `oda_rl._schema_texts` describes the notation.
A rule is a function of the value and the sizes that calls `expect`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from oda_rl._schema_texts import NotStoredError, RefusedError, Sizes, check_text, expect, refuse, size_of

Schema = Any
# The state of a generator of random numbers.
_WIDE = f"int in [0, {2**128 - 1}]"
GENERATOR = {
    "bit_generator": {"PCG64"},
    "state": {"state": _WIDE, "inc": _WIDE},
    "has_uint32": {0, 1},
    "uinteger": f"int in [0, {2**32 - 1}]",
}


class Either:
    """One of several schemas."""

    def __init__(self, *schemas: Schema) -> None:
        self.schemas = schemas


class Rules:
    """A schema, and rules for its value: functions of the value and the sizes."""

    def __init__(self, schema: Schema, *rules: Callable[[Any, Sizes], None]) -> None:
        self.schema, self.rules = schema, rules


class Sized:
    """A schema with additional sizes: numbers, or sums and products of known sizes."""

    def __init__(self, schema: Schema, **sizes: int | str) -> None:
        self.schema, self.sizes = schema, sizes


def maybe(schema: Schema) -> Either:
    """The schema, or None."""
    return Either(None, schema)


def anything(around: Any, sizes: Sizes) -> Schema:
    """A schema that accepts any value."""
    return anything


def some(value: Any, sizes: Sizes) -> None:
    """A rule: the value is not empty."""
    expect(len(value) > 0, "", "is empty", "at least one item")


def inside(place: str, key: object) -> str:
    """The place of an entry within another."""
    return f"{place}/{key}" if place and key != "" else place or str(key)


def check(schema: Schema, value: Any, sizes: Sizes, whole: bool = True) -> None:
    """Refuse a value that is not as declared.

    Parameters
    ----------
    schema : schema
        As described in the docstring of this module.
    value : object
        From a file.
    sizes : dict of str to int
        The known sizes; those that are found are added.
    whole : bool, default=True
        Whether the value has arrays, not `ArraySpec` in their places; rules are checked only then.

    Raises
    ------
    RefusedError
    """
    _Check(whole).entry(schema, value, sizes, "", None)


class _Check:
    """One walk through a schema and a value: each method checks a part of both.

    `place` is where the value is in the file, `around` the dictionary that contains it.
    """

    def __init__(self, whole: bool) -> None:
        self.whole = whole

    def entry(self, schema: Schema, value: Any, sizes: Sizes, place: str, around: Any) -> None:
        """Check a value of any kind."""
        if schema is anything:
            return
        if isinstance(schema, str):
            check_text(schema, value, sizes, place)
        elif isinstance(schema, Mapping):
            self.entries(schema, value, sizes, place)
        elif isinstance(schema, list | tuple):
            self.list(schema, value, sizes, place, around)
        elif isinstance(schema, Either):
            self.either(schema, value, sizes, place, around)
        elif isinstance(schema, Sized):
            sizes |= {name: int(size_of(str(text), sizes)) for name, text in schema.sizes.items()}
            self.entry(schema.schema, value, sizes, place, around)
        elif isinstance(schema, Rules):
            self.entry(schema.schema, value, sizes, place, around)
            for rule in schema.rules if self.whole else ():
                _own(place, rule, value, sizes)
        elif callable(schema):
            self.entry(_own(place, schema, around, sizes), value, sizes, place, around)
        else:
            values = schema if isinstance(schema, set | frozenset) else {schema}
            if not any(type(value) is type(one) and value == one for one in values):
                refuse(place, value, " or ".join(sorted(map(repr, values))))

    def either(self, schema: Either, value: Any, sizes: Sizes, place: str, around: Any) -> None:
        """Accept the first alternative that fits; else report the most deeply nested error."""
        errors = []
        for one in schema.schemas:
            try:
                found = dict(sizes)
                self.entry(one, value, found, place, around)
                sizes |= found
                return
            except RefusedError as error:
                errors.append(error)
        deepest = max(errors, key=lambda error: error.place.count("/"))
        accepted = " or ".join(e.accepted for e in errors if e.place == deepest.place)
        raise RefusedError(deepest.place, deepest.found, accepted)

    def entries(self, schema: Mapping[str, Schema], value: Any, sizes: Sizes, place: str) -> None:
        """Check a dictionary."""
        if not isinstance(value, dict):
            refuse(place, value, "a dictionary")
        names = {name.removesuffix("?") for name in schema}
        for name in value:
            if name not in names:
                accepted = ", ".join(sorted(names)) or "no entries"
                raise RefusedError(inside(place, name), "is unknown", accepted)
        for name, own in schema.items():
            key = name.removesuffix("?")
            if key in value:
                self.entry(own, value[key], sizes, inside(place, key), value)
            elif key == name:
                raise RefusedError(inside(place, key), "is missing", "an entry of this name")

    def list(self, schema: Any, value: Any, sizes: Sizes, place: str, around: Any) -> None:
        """Check a list, with one schema for all items or one for each."""
        if not isinstance(value, list | tuple):
            refuse(place, value, "a list")
        if isinstance(schema, tuple) and len(schema) != len(value):
            refuse(place, value, f"a list of {len(schema)} items")
        schemas = schema if isinstance(schema, tuple) else schema * len(value)
        for i, (own, part) in enumerate(zip(schemas, value, strict=True)):
            self.entry(own, part, dict(sizes), inside(place, i), around)


def _own(place: str, function: Callable[[Any, Sizes], Any], value: Any, sizes: Sizes) -> Any:
    """Call a rule or a schema function; an error that it raises becomes a RefusedError.

    A NotStoredError does not, since it is not a fault of the value.
    """
    try:
        return function(value, sizes)
    except RefusedError as error:
        raise RefusedError(inside(place, error.place), error.found, error.accepted) from None
    except (NotStoredError, Warning):  # a warning is raised only if the user has made it an error
        raise
    except Exception as error:
        found = f"is inconsistent with other entries ({type(error).__name__}: {error})"
        raise RefusedError(place, found, "a value written by `save`") from error
