"""Conversion of fitted maps to plain values and arrays, and back, as model files hold no pickles."""

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from oda_rl._schema import Either, Rules, Sizes, anything, expect
from oda_rl._schema_texts import LARGEST_STORED
from oda_rl.resolutions.base import BaseMap

# Classes that may be stored in a file, and their modules. Reading a file makes objects of no others.
KNOWN = {
    "Projection": "oda_rl.resolutions.projection",
    "EffectMap": "oda_rl.resolutions.univariate",
    "RankMap": "oda_rl.resolutions.univariate",
    "ScoreMap": "oda_rl.resolutions.univariate",
    "WaveletPyramid": "oda_rl.resolutions.wavelets",
    "Scattering": "oda_rl.resolutions.scattering",
    "FeatureMap": "oda_rl.resolutions.maps",
    "PCA": "sklearn.decomposition",
    "IncrementalPCA": "sklearn.decomposition",
    "TruncatedSVD": "sklearn.decomposition",
    "LinearDiscriminantAnalysis": "sklearn.discriminant_analysis",
    "StandardScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "MaxAbsScaler": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "Pipeline": "sklearn.pipeline",
    "FeatureUnion": "sklearn.pipeline",
}
CLASS = "class"


def _are_finite(state: Any, sizes: Sizes) -> None:
    """A rule of the schema: all float arrays in a nested state are finite."""
    for name, value in state.items() if isinstance(state, dict) else enumerate(state):
        if isinstance(value, dict | list | tuple):
            _are_finite(value, sizes)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            right = np.all(np.abs(value) <= LARGEST_STORED)
            expect(right, str(name), "has NaN, infinity or too large a number", "finite numbers")


# Schema of what `get_state` and `FeatureMap.get_state` return; `check_fitted` checks the map further.
_KEPT = Rules(anything, _are_finite)
MAP = Either(
    {CLASS: {"FeatureMap"}, "parameters": _KEPT, "fitted": _KEPT},
    {
        **dict.fromkeys(("user", "name"), "text"),
        **dict.fromkeys(("n_features_in_", "n_features_out_"), "count in [1, inf)"),
    },
)


def get_state(estimator: BaseEstimator) -> dict[str, Any]:
    """The state of a map, fitted or not, in the form that a model file can hold.

    Parameters
    ----------
    estimator : transformer
        A map of `oda_rl.resolutions`, or of scikit-learn: PCA, IncrementalPCA, TruncatedSVD,
        LinearDiscriminantAnalysis, the scalers, and pipelines and unions of them.

    Returns
    -------
    dict
        Plain values and arrays, for `restore`.

    Raises
    ------
    TypeError
        If the map is of another class, or holds something that cannot be stored.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> restore(get_state(PCA(2).fit(X))).transform(X).shape
    (20, 2)
    """
    state: dict[str, Any] = _encode(estimator)
    return state


def restore(state: dict[str, Any], given: Any = None) -> Any:
    """The map whose state `get_state` returned.

    Parameters
    ----------
    state : dict
        From `get_state`.
    given : callable or fitted transformer, optional
        The user's own map, if it is one that a file cannot hold.

    Returns
    -------
    transformer
        The same map, fitted if it was fitted.

    Raises
    ------
    ValueError
        If the map was the user's own and is not given, or `state` does not come from `get_state`.
    """
    user = state.get("user")
    if user is None and CLASS not in state:
        raise ValueError(
            f"a dictionary with the keys {', '.join(state)} is not the state of a feature map."
        )
    if user is None:
        return _decode(state)
    if given is None:
        raise ValueError(
            f"{state['name']} was {user}, which a model file cannot store: pass it to load again."
        )
    return import_module(KNOWN["FeatureMap"]).FeatureMap.of_users(given, state)


def is_known(value: Any) -> bool:
    """Whether a model file may hold the class of a map; a class of the same name does not count."""
    name = type(value).__name__
    return name in KNOWN and getattr(import_module(KNOWN[name]), name) is type(value)


def _encode(value: Any) -> Any:
    """The value with maps replaced by dictionaries, also within lists, tuples and dictionaries."""
    if isinstance(value, np.ndarray):
        plain = not value.dtype.hasobject or all(isinstance(item, str) for item in value.ravel())
    else:
        plain = value is None or isinstance(value, bool | int | float | str | slice | np.generic)
    if plain:
        return value
    if isinstance(value, list | range):
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_encode(item) for item in value)
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # only used in `fit`
    if is_known(value):
        parameters = value.get_params(deep=False)
        fitted = {key: item for key, item in vars(value).items() if key not in parameters}
        return {
            CLASS: type(value).__name__,
            "parameters": _encode(parameters),
            "fitted": _encode(fitted),
        }
    raise TypeError(f"{value!r} cannot be stored in a model file.")


def _decode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    if CLASS not in value:
        return {key: _decode(item) for key, item in value.items()}
    name = value[CLASS]
    if name not in KNOWN:
        raise ValueError(
            f"{name} is not a feature map that model files support; they support {', '.join(KNOWN)}."
        )
    cls = getattr(import_module(KNOWN[name]), name)
    made = cls(**_decode(value["parameters"]))
    for key, item in _decode(value["fitted"]).items():
        if hasattr(cls, key) or key.startswith("__"):
            raise ValueError(f"{key} is not a learned attribute of {name}.")
        setattr(made, key, item)
    if hasattr(made, "n_jobs"):
        made.n_jobs = None  # depends on the machine that reads the file
    if isinstance(made, BaseMap) and value["fitted"]:
        made.check_fitted()
    return made
