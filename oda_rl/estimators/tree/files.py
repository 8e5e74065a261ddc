"""Model files of `MultiResolutionODA`: a tree as plain values and arrays, and back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from oda_rl import storage
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import get_divergence
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.growth import GrowthPoint
from oda_rl.estimators.tree.layers import Layer
from oda_rl.estimators.tree.learned import Learned
from oda_rl.estimators.tree.plan import KINDS, kind_of
from oda_rl.estimators.tree.stream import Bud
from oda_rl.estimators.tree.tree import NAMES, Cell, Data


def plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


Arrays = dict[str, NDArray[Any]]
OWN = ("max_children", "min_support", "min_improvement", "max_leaves", "n_jobs")
STATE = ("n_seen", "n_received", "try_at", "look_at")


def write(path: storage.PathOrFile, model: Any) -> Path | None:
    """Write a fitted tree."""
    check_is_fitted(model, "n_samples_seen_")
    learned: Learned = model._fitted
    arrays: Arrays = {}
    config: dict[str, Any] = {
        "parameters": {name: plain(getattr(model, name)) for name in OWN},
        "layers": model.layers
        if isinstance(model.layers, int)
        else [{k: plain(v) for k, v in Layer.of(layer)._asdict().items()} for layer in model.layers],
        "random_state": plain(model.random_state)
        if isinstance(model.random_state, int | np.integer)
        else None,
        "estimator": _template(model._template),
        "resolutions": _maps(learned.tree.features, arrays),
        "given": model.resolutions is not None,
        "n_samples_seen": int(model.n_samples_seen_),
        "warm": model._waiting is None,
        "entropy": learned.grower.entropy,
        "n_seen": learned.grower.n_seen,
        "history": [[list(point[0]), *map(plain, point[1:])] for point in learned.grower.history],
        "buds": _buds(learned, arrays),
        "feature_names": _names(model),
    }
    if hasattr(model, "classes_"):
        config["classes"] = [plain(c) for c in model.classes_]
        config["dtype"] = np.asarray(model.classes_).dtype.str
    if hasattr(model, "_flat"):
        config["flat"] = model._flat
        arrays |= {"outputs/mean": model._mean, "outputs/deviation": model._deviation}
    if hasattr(model, "labels_"):
        arrays["labels"] = model.labels_
    if model._waiting is not None:
        config["stream"] = model._rng.bit_generator.state
        arrays |= {f"waiting/{i}": part for i, part in enumerate(model._waiting)}
    for layer, cells in enumerate(learned.tree.layers):
        arrays[f"layer/{layer}/location"] = cells.location
        arrays |= {f"layer/{layer}/{name}": getattr(cells, name) for name in NAMES}
    return storage.save(path, type(model).__name__, config, arrays)


def read(path: storage.PathOrFile, cls: Any, resolutions: Sequence[Any] | None) -> Any:
    """Read what `write` wrote."""
    config, arrays = storage.load(path, cls.__name__)
    features, maps = _features(config["resolutions"], arrays, resolutions)
    layers = config["layers"]
    model = cls(
        _estimator(config["estimator"]),
        layers=layers,
        resolutions=maps if config["given"] else None,
        random_state=config["random_state"],
        **config["parameters"],
    )
    model.n_features_in_ = features.n_raw
    model.n_samples_seen_ = config["n_samples_seen"]
    if config["feature_names"] is not None:
        model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    if "classes" in config:
        model.classes_ = np.array(config["classes"], dtype=np.dtype(config["dtype"]))
    if "flat" in config:
        model._flat = config["flat"]
        model._mean, model._deviation = arrays["outputs/mean"], arrays["outputs/deviation"]
        model._n_outputs = len(model._mean)
    if "labels" in arrays:
        model.labels_ = arrays["labels"]
    model._waiting = None
    if not config["warm"]:
        model._waiting = Data(*(arrays[f"waiting/{i}"] for i in range(3)))
        model._rng = _generator(config["stream"])
    model._learned = _learned(model, config, arrays, features)
    return model


def _learned(model: Any, config: dict[str, Any], arrays: Arrays, features: Features) -> Learned:
    plan, layers = model._plan()
    n_classes = len(model.classes_) if plan.kind == "classifier" else 1
    n_outputs = len(model._mean) if plan.kind == "regressor" else 1
    rng = np.random.default_rng(0)
    learned = Learned(plan, layers, features, n_classes, n_outputs, rng, model.n_jobs, model.max_leaves)
    tree, grower = learned.tree, learned.grower
    tree.layers = []
    while f"layer/{len(tree.layers)}/location" in arrays:
        layer = len(tree.layers)
        cells = tree.new_cells(layer)
        cells.location = np.ascontiguousarray(arrays[f"layer/{layer}/location"])
        for name in NAMES:
            setattr(cells, name, arrays[f"layer/{layer}/{name}"])
        tree.layers.append(cells)
    grower.entropy, grower.n_seen = config["entropy"], config["n_seen"]
    grower.n_leaves = tree.n_leaves
    grower.history = [GrowthPoint(tuple(point[0]), *point[1:]) for point in config["history"]]
    for i, state in enumerate(config["buds"]):
        _restore_bud(learned, state, arrays, f"bud/{i}/")
    return learned


def _buds(learned: Learned, arrays: Arrays) -> list[dict[str, Any]]:
    states = []
    for i, (cell, bud) in enumerate(learned.sprouting.buds.items()):
        arrays |= {f"bud/{i}/{k}": part for k, part in enumerate(bud.data)}
        state: dict[str, Any] = {"cell": list(cell), "annealer": None}
        state |= {name: int(getattr(bud, name)) for name in STATE}
        if bud.annealer is not None:
            own = bud.annealer.get_state()
            arrays[f"bud/{i}/reference"] = own.pop("reference")
            state |= {"annealer": own, "room": int(bud.annealer.max_codevectors)}
            state["t_min"] = float(bud.annealer.t_min)
            book = bud.annealer.codebook.get_state()
            arrays |= {f"bud/{i}/book/{name}": array for name, array in book.items()}
        states.append(state)
    return states


def _restore_bud(learned: Learned, state: dict[str, Any], arrays: Arrays, prefix: str) -> None:
    cell = Cell(*state["cell"])
    bud = Bud(learned.layers[cell.layer], Data(*(arrays[f"{prefix}{k}"] for k in range(3))))
    for name in STATE:
        setattr(bud, name, state[name])
    if state["annealer"] is not None:
        parts = {
            name: arrays[f"{prefix}book/{name}"] for name in ("location", "weight", "label", "axis")
        }
        parts["payload"] = arrays[f"{prefix}book/payload"]
        book = Codebook(len(parts["location"]), {}, learned.tree.divergence)
        book.set_state(parts)
        annealer = learned.sprouting.annealer_for(book, 1.0, bud.layer, np.random.default_rng())
        annealer.set_state({**state["annealer"], "reference": arrays[f"{prefix}reference"]})
        annealer.max_codevectors, annealer.t_min = state["room"], state["t_min"]
        bud.annealer = annealer
    learned.sprouting.buds[cell] = bud


def _maps(features: Features, arrays: Arrays) -> list[dict[str, Any]]:
    states = []
    for i, one in enumerate(features.maps):
        config = {} if one is None else one.get_state()
        arrays |= {f"scaling/{i}/{k}": part for k, part in enumerate(features.scalings[i])}
        states.append({"map": config, "n_features": features.n_features(i), "n_raw": features.n_raw})
    return states


def _features(
    states: list[dict[str, Any]], arrays: Arrays, given: Sequence[Any] | None
) -> tuple[Features, list[Any]]:
    from oda_rl.resolutions import restore

    maps = []
    for i, state in enumerate(states):
        again = given[i] if given is not None and i < len(given) else None
        maps.append(restore(state["map"], again) if state["map"] else None)
    scalings = [Scaling(*(arrays[f"scaling/{i}/{k}"] for k in range(3))) for i in range(len(states))]
    sizes = [state["n_features"] for state in states]
    return Features(maps, scalings, states[0]["n_raw"], sizes), [
        None if one is None else one.spec for one in maps
    ]


def _template(estimator: Any) -> dict[str, Any]:
    parameters = {
        k: plain(v) for k, v in estimator.get_params(deep=False).items() if k != "random_state"
    }
    if "divergence" in parameters:
        parameters["divergence"] = get_divergence(estimator.divergence).name
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = [[plain(k), plain(v)] for k, v in estimator.class_weight.items()]
    return {"kind": kind_of(estimator), "parameters": parameters}


def _estimator(config: dict[str, Any]) -> Any:
    parameters = dict(config["parameters"])
    parameters["stepsize"] = tuple(parameters["stepsize"])
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    return KINDS[config["kind"]](**parameters)


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _generator(state: dict[str, Any]) -> np.random.Generator:
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return rng
