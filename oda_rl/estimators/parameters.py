"""Parameters, names and classes of an estimator as a model file holds them, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from oda_rl.codebook.divergences import Divergence

# What estimators learn about the form of their data.
FORM = ("n_features_in_", "feature_names_in_", "classes_")


def stored(estimator: Any, /, **others: Any) -> dict[str, Any]:
    """The parameters of a fitted estimator, and the form of its data.

    A divergence is stored by its name; a generator of random numbers not at all.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    **others
        Values in place of those of parameters that cannot be stored as they are.

    Returns
    -------
    dict
        For `oda_rl.storage.save`.
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

    Raises
    ------
    ValueError
        If a parameter is missing, or is none of the estimator's.
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
