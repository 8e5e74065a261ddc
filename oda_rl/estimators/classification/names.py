"""Parameters, classes and names of features of a classifier as JSON can hold them."""

from typing import Any

import numpy as np

from oda_rl.estimators.session_files import plain


def plain_parameters(model: Any) -> dict[str, Any]:
    """Parameters; a divergence by its name, a generator of random numbers not at all."""
    parameters = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    parameters["divergence"] = model._divergence.name
    if not isinstance(model.random_state, int | np.integer):
        parameters["random_state"] = None
    return parameters


def class_names(model: Any) -> dict[str, Any]:
    """Classes and names of features."""
    classes = np.asarray(model.classes_)
    names = getattr(model, "feature_names_in_", None)
    return {
        "classes": [plain(c) for c in classes],
        "dtype": classes.dtype.str,
        "feature_names": None if names is None else [str(name) for name in names],
    }


def set_class_names(model: Any, config: dict[str, Any]) -> None:
    """Put back what `class_names` took."""
    model.classes_ = np.array(config["classes"], dtype=np.dtype(config["dtype"]))
    if config["feature_names"] is not None:
        model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
