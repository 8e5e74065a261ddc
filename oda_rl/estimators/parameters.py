"""Parameters, names and classes of an estimator as a model file holds them, and back."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import ClassifierMixin

from oda_rl._schema import Either, Rules, Schema, Sizes, anything, expect, maybe
from oda_rl.codebook.divergences import Divergence

# What estimators learn about the form of their data.
FORM = ("n_features_in_", "feature_names_in_", "classes_")


def stored(estimator: Any, /, **others: Any) -> dict[str, Any]:
    """The parameters of a fitted estimator and the form of its data, for `oda_rl.storage.save`.

    A divergence is stored by its name, a generator of random numbers not at all; `others` stand in place
    of parameters that cannot be stored as they are.
    """
    parameters = {**estimator.get_params(deep=False), **others}
    form = {name: getattr(estimator, name) for name in FORM if hasattr(estimator, name)}
    for name, value in parameters.items():
        if isinstance(value, Divergence):
            parameters[name] = value.name
        elif isinstance(value, np.random.RandomState | np.random.Generator):
            parameters[name] = None
    return {"parameters": parameters, "form": form}


def restored(cls: Any, state: Mapping[str, Any], /, **given: Any) -> Any:
    """A new estimator of a class with the parameters and the form of the data that `stored` gave.

    What is `given`, and not None, stands in place of what was stored. Raises a ValueError for a
    parameter that the class does not have.
    """
    stored_ones, names = state["parameters"], cls._get_param_names()
    unknown = sorted(stored_ones.keys() - set(names))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0]!r}, which the file gives it.")
    given = {name: value for name, value in given.items() if value is not None}
    estimator = cls(**{name: given[name] if name in given else stored_ones[name] for name in names})
    for name, value in state["form"].items():
        setattr(estimator, name, value)
    return estimator


# -- what a file may hold ----------------------------------------------------------------------------

_SIMPLE = {
    **{int: "int", float: "float in [-inf, inf]", bool: "bool", str: "text"},
    **{NoneType: None, Any: Either(None, "bool", "int", "float", "text")},
}
SEED = maybe(f"int in [0, {2**32 - 1}]")


def are_numbers(value: Any, sizes: Sizes) -> None:
    """An array of finite numbers, or a number, or lists of them."""
    array = np.asarray(value)
    right = array.dtype.kind in "biuf" and bool(np.isfinite(array).all())
    expect(right, "", f"is {value!r:.60}", "finite numbers")


def are_numbers_by_class(value: Any, sizes: Sizes) -> None:
    """A dictionary of numbers."""
    right = isinstance(value, dict) and all(isinstance(n, int | float) for n in value.values())
    expect(right, "", f"is {value!r:.60}", "a number for each class")


def are_sorted(classes: Any, sizes: Sizes) -> None:
    """Classes are different, and sorted."""
    right = len(classes) > 0 and bool(np.all(classes[1:] > classes[:-1]))
    expect(right, "", "are not sorted, or not different", "sorted classes")


def are_texts(names: Any, sizes: Sizes) -> None:
    """Names of features."""
    expect(all(isinstance(name, str) for name in names), "", "are not all texts", "texts")


FORM_SCHEMA = {
    "n_features_in_": "count in [1, inf) as d",
    "feature_names_in_?": Rules("label[d]", are_texts),
}
CLASSES = Rules("label[C]", are_sorted)


def declared(cls: Any, /, **others: Schema) -> dict[str, Schema]:
    """The schema of what `stored` gives: parameters are of the types that the constructor names.

    Their ranges are checked by the estimator itself, when it is made.

    Parameters
    ----------
    cls : class
        Of the estimator; a classifier's file has the classes, too.
    **others
        The schemas of parameters that are stored in another way.

    Returns
    -------
    dict of str to schema
    """
    hints = get_type_hints(cls.__init__)
    known = {"random_state": SEED, **others}
    parameters = {
        name: known[name] if name in known else _accepted(hints.get(name, Any))
        for name in cls._get_param_names()
    }
    form = FORM_SCHEMA | ({"classes_": CLASSES} if issubclass(cls, ClassifierMixin) else {})
    return {"parameters": parameters, "form": form}


def may_be_flat(around: Any, sizes: Sizes) -> Schema:
    """Whether outputs came as a single column: only if there is a single one."""
    return "bool" if sizes["m"] == 1 else {False}


def _accepted(hint: Any) -> Schema:
    """What a file may hold for a parameter with this annotation."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin is Literal:
        return set(parts)
    if origin is tuple:
        return tuple(_accepted(part) for part in parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Rules(anything, are_numbers_by_class)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_accepted(parts[0])]
    if hint is Divergence or getattr(hint, "_is_protocol", False):
        return "text"  # of the user's own the name
    if parts:
        return Either(*map(_accepted, parts))
    return Rules(anything, are_numbers)
