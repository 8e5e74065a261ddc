"""Model files of `ODAClassifier`: a stream as plain values and arrays, and back."""

from pathlib import Path
from typing import Any

import numpy as np

from oda_rl import storage
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification.annealing import Choice
from oda_rl.estimators.classification.book import ClassBook
from oda_rl.estimators.classification.names import class_names, plain_parameters, set_class_names
from oda_rl.estimators.classification.session import ClassSession
from oda_rl.estimators.classification.settings import ClassSettings
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.session_files import plain, restore, state_of
from oda_rl.estimators.targets import Data

MOMENTS = ("count", "mean", "scatter", "bounds")
COUNTERS = ("n_seen", "n_measured", "rescale_at")


def write(path: storage.PathOrFile, model: Any) -> Path | None:
    """Write a fitted classifier."""
    stream: ClassSession = model._session
    parameters = plain_parameters(model)
    if isinstance(model.class_weight, dict):
        parameters["class_weight"] = [[plain(k), plain(v)] for k, v in model.class_weight.items()]
    config: dict[str, Any] = {
        "parameters": parameters,
        "choice": list(stream.choice),
        "rng": stream.rng.bit_generator.state,
        "runs": [],
        **class_names(model),
    }
    config |= {name: int(getattr(stream, name)) for name in COUNTERS}
    arrays = {f"moments/{name}": getattr(stream.moments, name) for name in MOMENTS}
    arrays |= {f"scaling/{i}": part for i, part in enumerate(stream.scaling)}
    arrays |= {f"waiting/{i}": part for i, part in enumerate(stream.waiting)}
    arrays |= {f"book/{i}": part for i, part in enumerate(stream.book())}
    arrays |= {"mass": stream.mass, "counts": stream.counts}
    for c, run in enumerate(stream.runs):
        state, own = state_of(run)
        config["runs"].append([plain(run.settings.max_codevectors), state])
        arrays |= {f"run/{c}/{name}": array for name, array in own.items()}
    return storage.save(path, type(model).__name__, config, arrays)


def read(path: storage.PathOrFile, cls: Any, divergence: Divergence | None) -> Any:
    """Read what `write` wrote."""
    config, arrays = storage.load(path, cls.__name__)
    parameters = config["parameters"]
    parameters["stepsize"] = tuple(parameters["stepsize"])
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    if divergence is not None:
        parameters["divergence"] = divergence
    model = cls(**parameters)
    set_class_names(model, config)
    model.n_features_in_ = arrays["moments/mean"].shape[1]
    stream = _stream_of(model, config, arrays)
    model._publish(stream)
    return model


def _stream_of(model: Any, config: dict[str, Any], arrays: dict[str, Any]) -> ClassSession:
    rng = np.random.default_rng()
    stream = ClassSession(ClassSettings.of(model), model.n_features_in_, rng)
    rng.bit_generator.state = config["rng"]
    for name in COUNTERS:
        setattr(stream, name, config[name])
    for name in MOMENTS:
        setattr(stream.moments, name, arrays[f"moments/{name}"])
    level, own, factor, losses = config["choice"]
    stream.choice = Choice(level, own, factor, tuple(losses))
    stream.scaling = Scaling(*(arrays[f"scaling/{i}"] for i in range(3)))
    stream.waiting = Data(*(arrays[f"waiting/{i}"] for i in range(3)))
    stream.mass, stream.counts = arrays["mass"], arrays["counts"]
    for c, (room, state) in enumerate(config["runs"]):
        run = stream.new_run()
        run.settings = run.settings._replace(max_codevectors=room)
        if stream.settings.shared:
            run.payload = {"votes": (stream.n_classes, "count")}
        prefix = f"run/{c}/"
        own_arrays = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
        kept = rng.bit_generator.state
        restore(run, state, own_arrays)
        rng.bit_generator.state = kept
        stream.runs.append(run)
    stream.fixed = ClassBook(*(arrays[f"book/{i}"] for i in range(len(ClassBook._fields))))
    return stream
