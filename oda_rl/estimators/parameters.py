"""Parameters, names and classes of an estimator as a model file holds them, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from oda_rl.codebook.divergences import Divergence

# What estimators learn about the form of their data.
FORM = ("n_features_in_", "feature_names_in_", "classes_")
PAIRS, TUPLE, OBJECTS = "__pairs__", "__tuple__", "__objects__"


def stored(estimator: Any) -> dict[str, Any]:
    """The parameters of a fitted estimator, and the form of its data.

    A divergence is stored by its name; a generator of random numbers not at all.

    Parameters
    ----------
    estimator : estimator
        Fitted.

    Returns
    -------
    dict
        For `oda_rl.storage.save`.
    """
    parameters = estimator.get_params(deep=False)
    form = {name: getattr(estimator, name) for name in FORM if hasattr(estimator, name)}
    return {
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "form": {name: _plain(value) for name, value in form.items()},
    }


def restored(cls: Any, state: Mapping[str, Any], **given: Any) -> Any:
    """A new estimator from what `stored` gave.

    Parameters
    ----------
    cls : class
        Of the estimator.
    state : mapping
        What `stored` gave.
    **given
        Parameters in place of those stored; None counts as not given.

    Returns
    -------
    estimator
        With its parameters and the form of its data.
    """
    parameters = {name: _whole(value) for name, value in state["parameters"].items()}
    parameters |= {name: value for name, value in given.items() if value is not None}
    estimator = cls(**parameters)
    for name, value in state["form"].items():
        setattr(estimator, name, _whole(value))
    return estimator


def _plain(value: Any) -> Any:
    if isinstance(value, Divergence):
        return value.name
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, Mapping):  # whose keys may be classes of any type
        return {PAIRS: [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, tuple):
        return {TUPLE: [_plain(part) for part in value]}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return {OBJECTS: [_plain(part) for part in value]}
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    ((form, parts),) = value.items()
    if form == PAIRS:
        return {_whole(key): _whole(part) for key, part in parts}
    if form == TUPLE:
        return tuple(_whole(part) for part in parts)
    return np.array([_whole(part) for part in parts], dtype=object)
