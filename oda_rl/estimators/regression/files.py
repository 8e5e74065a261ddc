"""Model files of `ODARegressor`."""

from pathlib import Path
from typing import Any

import numpy as np

from oda_rl.estimators.regression.local_models import LocalModel
from oda_rl.estimators.regression.session import Scaling
from oda_rl.estimators.session_files import read_run, restore, write_run
from oda_rl.storage import PathOrFile

OWN = "own"


def save_run(path: PathOrFile, model: Any) -> Path | None:
    """Write a fitted regressor."""
    run = model._run
    parameters = model.get_params(deep=False)
    if run.own is not None:
        parameters["local_model"] = OWN
    if not isinstance(model.random_state, int | np.integer):
        parameters["random_state"] = None  # the generator's state is stored with the run
    extra = {
        "sizes": np.array([run.n_inputs, run.n_outputs, model._flat]),
        "softness": np.array([run.softness]),
        "unexplained": np.array(run.unexplained),
        "first": run.first,
        "first_weight": run.first_weight,
    }
    if run.scaling is not None:
        extra |= run.scaling._asdict()
    if run.annealer is not None:
        extra["figures"] = run.figures
    names = getattr(model, "feature_names_in_", None)
    return write_run(path, type(model).__name__, parameters, run, extra, names)


def load_run(path: PathOrFile, model: Any, local_model: LocalModel | None) -> None:
    """Put a new regressor in the state that `save_run` saw."""
    parameters, extra, names, state = read_run(path, type(model).__name__)
    if parameters["local_model"] == OWN:
        if local_model is None:
            raise ValueError(
                "the file was saved with a local model of the user's own, which a model file cannot "
                "hold: give the object to load as local_model."
            )
        parameters["local_model"] = local_model
    elif local_model is not None:
        raise ValueError(
            f"local_model must be left out: the file was saved with {parameters['local_model']!r}."
        )
    model.set_params(**parameters)
    n_inputs, n_outputs, flat = (int(size) for size in extra["sizes"])
    model.n_features_in_, model._flat = n_inputs, bool(flat)
    if names is not None:
        model.feature_names_in_ = names
    model._begin(*model._settings(), np.empty((0, n_inputs + n_outputs)))
    run = model._run
    run.unexplained = [float(value) for value in extra["unexplained"]]
    run.first, run.first_weight = extra["first"], extra["first_weight"]
    if "metric" in extra:
        run.scaling = Scaling(extra["mean"], extra["deviation"], extra["metric"])
    run.softness = float(extra["softness"][0])
    restore(run, *state)
    if "figures" in extra:
        run.figures[:] = extra["figures"]
