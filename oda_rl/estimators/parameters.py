"""Parameters, names and classes of an estimator as a model file holds them, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from oda_rl._schema import Either, Rules, Schema, Sizes, anything, expect
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

    What is `given`, and not None, stands in place of what was stored.
    """
    given = {name: value for name, value in given.items() if value is not None}
    estimator = cls(**{**state["parameters"], **given})
    for name, value in state["form"].items():
        setattr(estimator, name, value)
    return estimator


# -- what a file may hold ----------------------------------------------------------------------------


def are_numbers(value: Any, sizes: Sizes) -> None:
    """None, a text, or finite numbers, in lists, an array, or by class."""
    if value is None or isinstance(value, str):
        return
    array = np.asarray(list(value.values()) if isinstance(value, dict) else value)
    right = array.dtype.kind in "biuf" and bool(np.isfinite(array).all())
    expect(right, "", f"is {value!r:.60}", "finite numbers")


def are_sorted(classes: Any, sizes: Sizes) -> None:
    """Classes are different, and sorted, and such as scikit-learn's classifiers have."""
    check_classification_targets(classes)
    right = len(classes) > 0 and bool(np.all(classes[1:] > classes[:-1]))
    expect(right, "", "are not sorted, or not different", "sorted classes")


def are_texts(names: Any, sizes: Sizes) -> None:
    """Names of features."""
    expect(all(isinstance(name, str) for name in names), "", "are not all texts", "texts")


_NUMBERS = Rules(anything, are_numbers)
# Parameters that an estimator's own check does not look into.
LOOSE = {
    **dict.fromkeys(("class_weight", "init", "init_labels", "scale", "stepsize"), _NUMBERS),
    "reject_label": Either(None, "bool", "int", "float", "text"),
}
FORM_SCHEMA = {
    "n_features_in_": "count in [1, inf) as d",
    "feature_names_in_?": Rules("label[d]", are_texts),
}
CLASSES = Rules("label[C]", are_sorted)


def declared(cls: Any) -> dict[str, Schema]:
    """The schema of what `stored` gives: parameters, which the estimator itself checks, and form.

    Parameters
    ----------
    cls : class
        Of the estimator; a classifier's file has the classes, too.

    Returns
    -------
    dict of str to schema
    """
    parameters = {name: LOOSE.get(name, anything) for name in cls._get_param_names()}
    form = FORM_SCHEMA | ({"classes_": CLASSES} if issubclass(cls, ClassifierMixin) else {})
    return {"parameters": parameters, "form": form}


def may_be_flat(around: Any, sizes: Sizes) -> Schema:
    """Whether outputs came as a single column: only if there is a single one."""
    return "bool" if sizes["m"] == 1 else {False}
