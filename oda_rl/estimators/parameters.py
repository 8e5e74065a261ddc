"""Parameters, names and classes of an estimator as a model file holds them, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

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
