"""Model files of `ODAPartition`: a run as plain values and arrays, and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl import storage
from oda_rl.estimators.session import Run

Array = NDArray[Any]
FITTED = "fitted/"


def write_run(
    path: storage.PathOrFile,
    kind: str,
    parameters: Mapping[str, Any],
    run: Run,
    fitted: Mapping[str, Array],
    feature_names: Array | None,
) -> Path | None:
    """Write a fitted estimator: its parameters, its run and its fitted arrays."""
    state, arrays = state_of(run)
    config = {
        "parameters": {name: plain(value) for name, value in parameters.items()},
        "run": state,
        "feature_names": None if feature_names is None else [str(name) for name in feature_names],
    }
    arrays |= {FITTED + name: array for name, array in fitted.items()}
    return storage.save(path, kind, config, arrays)


def read_run(
    path: storage.PathOrFile, kind: str
) -> tuple[dict[str, Any], dict[str, Array], Array | None, tuple[dict[str, Any], dict[str, Array]]]:
    """Read what `write_run` wrote: parameters, fitted arrays, names of features, state for `restore`."""
    config, arrays = storage.load(path, kind)
    parameters = config["parameters"]
    parameters["stepsize"] = tuple(parameters["stepsize"])
    fitted = {
        name.removeprefix(FITTED): array for name, array in arrays.items() if name.startswith(FITTED)
    }
    names = config["feature_names"]
    names = None if names is None else np.array(names, dtype=object)
    return parameters, fitted, names, (config["run"], arrays)


def state_of(run: Run) -> tuple[dict[str, Any], dict[str, Array]]:
    """All of a run as plain values and arrays, for a model file."""
    config: dict[str, Any] = {
        "seconds": run.seconds,
        "n_seen": run.n_seen,
        "n_dropped": run.n_dropped,
        "rng": run.rng.bit_generator.state,
        "path": [[distortion, seconds] for distortion, seconds, _ in run.path],
        "annealer": None,
    }
    arrays = {"buffer": run.buffer, "buffer_weight": run.buffer_weight}
    arrays |= {f"path/{i}": codevectors for i, (_, _, codevectors) in enumerate(run.path)}
    if run.annealer is not None:
        state = run.annealer.get_state()
        arrays["reference"] = state.pop("reference")
        arrays |= {f"book/{name}": array for name, array in run.annealer.codebook.get_state().items()}
        config["annealer"] = state | {"t_max": run.annealer.t_max, "t_min": run.annealer.t_min}
        if run.identities is not None:
            config["identities"] = run.identities.get_state()
    return config, arrays


def restore(run: Run, config: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Put a new run in the state that `state_of` saw."""
    run.seconds = float(config["seconds"])
    run.n_seen, run.n_dropped = int(config["n_seen"]), int(config["n_dropped"])
    run.path = [(d, s, arrays[f"path/{i}"]) for i, (d, s) in enumerate(config["path"])]
    run.buffer, run.buffer_weight = arrays["buffer"], arrays["buffer_weight"]
    state = config["annealer"]
    if state is not None:
        book = {name[5:]: array for name, array in arrays.items() if name.startswith("book/")}
        annealer = run.begin(book["location"].T, np.ones(book["location"].shape[1]))
        if run.identities is None:
            annealer.codebook.set_state(book)
        elif "identities" in config:
            annealer.codebook.set_state(book)
            run.identities.set_state(config["identities"])
        else:  # the file is from before cells had numbers
            book["payload"] = np.vstack([book["payload"], np.zeros(book["location"].shape[1])])
            annealer.codebook.set_state(book)
            run.identities.restart(annealer.codebook)
        annealer.t_max, annealer.t_min = float(state["t_max"]), float(state["t_min"])
        annealer.set_state(state | {"reference": arrays["reference"]})
    run.rng.bit_generator.state = config["rng"]


def plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value
