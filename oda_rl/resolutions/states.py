"""Fitted maps as JSON and plain arrays, and back: model files hold no pickles."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Arrays = dict[str, NDArray[Any]]

# What may be stored and made anew from a file, and where it lives. Reading a file makes nothing else.
KNOWN = {
    "Projection": "oda_rl.resolutions.projection",
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


def get_state(estimator: BaseEstimator) -> tuple[dict[str, Any], Arrays]:
    """A map, fitted or not, as JSON and arrays.

    Parameters
    ----------
    estimator : transformer
        One of `oda_rl.resolutions`, or of scikit-learn: PCA, IncrementalPCA, TruncatedSVD,
        LinearDiscriminantAnalysis, the scalers, and pipelines and unions of them.

    Returns
    -------
    config : dict
        What JSON can hold.
    arrays : dict of str to ndarray
        Plain arrays. `restore` takes both.

    Raises
    ------
    TypeError
        If the map is of another class, or holds something that cannot be stored.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> config, arrays = get_state(PCA(2).fit(X))
    >>> restore(config, arrays).transform(X).shape
    (20, 2)
    """
    arrays: Arrays = {}
    config = _encode(estimator, "", arrays)
    return dict(config), arrays


def restore(config: dict[str, Any], arrays: Arrays, given: Any = None) -> Any:
    """The map that `get_state` was asked about.

    Parameters
    ----------
    config : dict
        From `get_state`.
    arrays : dict of str to ndarray
        From `get_state`.
    given : callable or fitted transformer, optional
        The user's own map, if the resolution was one that a file cannot hold.

    Returns
    -------
    transformer
        As it was, fitted if it was fitted.

    Raises
    ------
    ValueError
        If the map was the user's own and is not given, or the config is not one of `get_state`.
    """
    user = config.get("user")
    if user is not None:
        if given is None:
            raise ValueError(
                f"{config['name']} was {user}, which a model file cannot hold: give it again at load."
            )
        module = import_module(KNOWN["FeatureMap"])
        return module.FeatureMap.of_users(given, config)
    return _decode(config, arrays)


def is_known(value: Any) -> bool:
    """Whether a map is of a class, not merely of a name, that a model file may hold."""
    name = type(value).__name__
    return name in KNOWN and getattr(import_module(KNOWN[name]), name) is type(value)


def _encode(value: Any, path: str, arrays: Arrays) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item(), path, arrays)
    if isinstance(value, np.ndarray):
        if value.dtype == object and all(isinstance(item, str) for item in value.ravel()):
            return {"names": value.tolist()}
        if value.dtype.hasobject:
            raise TypeError(f"{path} holds Python objects; only numbers and texts are stored.")
        arrays[path] = value
        return {"array": path}
    if isinstance(value, slice):
        return {"slice": [_encode(part, path, arrays) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, list | tuple | range):
        kind = "list" if isinstance(value, list | range) else "tuple"
        return {kind: [_encode(item, _under(path, i), arrays) for i, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[k, _encode(item, f"{path}/{k}", arrays)] for k, item in value.items()]}
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # has done its part in `fit`
    if is_known(value):
        parameters = value.get_params(deep=False)
        fitted = {key: item for key, item in vars(value).items() if key not in parameters}
        return {
            "class": type(value).__name__,
            "parameters": {k: _encode(v, _under(path, k), arrays) for k, v in parameters.items()},
            "fitted": {k: _encode(v, _under(path, k), arrays) for k, v in fitted.items()},
        }
    raise TypeError(f"{value!r} cannot be stored in a model file.")


def _under(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _decode(value: Any, arrays: Arrays) -> Any:
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return _made(value, arrays)
    (kind, content), *more = value.items()
    if kind == "array" and not more:
        return arrays[content]
    if kind == "names":
        return np.array(content, dtype=object)
    if kind == "dict":
        return {key: _decode(item, arrays) for key, item in content}
    makers: dict[str, Callable[[list[Any]], Any]] = {
        "list": list,
        "tuple": tuple,
        "slice": lambda parts: slice(*parts),
    }
    if kind not in makers:
        raise ValueError(f"{json.dumps(value)[:80]} is no state of a feature map.")
    return makers[kind]([_decode(item, arrays) for item in content])


def _made(config: dict[str, Any], arrays: Arrays) -> Any:
    name = config["class"]
    if name not in KNOWN:
        raise ValueError(f"{name} is no feature map that a model file may hold: {', '.join(KNOWN)}.")
    parameters = {key: _decode(item, arrays) for key, item in config["parameters"].items()}
    made = getattr(import_module(KNOWN[name]), name)(**parameters)
    for key, item in config["fitted"].items():
        setattr(made, key, _decode(item, arrays))
    return made
