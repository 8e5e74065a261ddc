"""Load models of any class and samples for them, and repeat the training of an agent."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.env_util import make_vec_env

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor, plotting, storage
from oda_rl.agents.callbacks import SnapshotCallback
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.env_origin import find_environment
from oda_rl.quantization import LVQ

LOADED = (ODAPartition, ODAClassifier, ODARegressor, MultiResolutionODA, LVQ)
ESTIMATORS: dict[str, Any] = {estimator.__name__: estimator for estimator in LOADED}
# Growth of the intervals between snapshots, as the codebook grows early; and the first interval, as a
# part of the run. Together they give about 70 snapshots.
STRETCH, FIRST_INTERVAL = 1.07, 1.0 / 1600.0

# What to do for an environment that cannot be made again
OTHERWISE = (
    "To animate it, give a SnapshotCallback to learn, and its views() to plotting.animate_codebook or "
    "write_report."
)


def load(path: Path) -> Any:
    """Load the model in a file, whatever its class."""
    kind = storage.kind_of(path)
    return ESTIMATORS[kind].load(path) if kind in ESTIMATORS else load_model(path)


def read_samples(path: Path | None, model: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Read the samples of a CSV file, and their classes or outputs if it has one more column."""
    if path is None:
        return None, None
    if isinstance(model, OnlineAlgorithm):
        raise ValueError("--data can be given only for an estimator, and the model is an agent.")
    view = plotting.view_of(model)
    n = view.n_features
    table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, ndmin=2)
    if table.shape[1] not in (n, n + 1):
        raise ValueError(
            f"{path} must have {n} columns, as the model has {n} features, or one more, got "
            f"{table.shape[1]}."
        )
    X, y = table[:, :n].astype(float), None
    if table.shape[1] > n:
        named = view.classes is not None and view.classes.dtype.kind in "US"
        y = table[:, n].astype(view.classes.dtype if named else float)
    return X, y


def train_again(model: Any) -> SnapshotCallback:
    """Repeat the training of an agent; returns its snapshots, also if Ctrl-C ends it early.

    Raises a ValueError if its environment cannot be made again.
    """
    try:
        env_id, kwargs = find_environment(model)
    except ValueError as error:
        raise ValueError(f"{error} {OTHERWISE}") from error
    steps, name = model.num_timesteps, model.env_origin.describe(env_id)
    print(f"Training again on {name} for {steps:,} steps, with the same seed and hyperparameters.")
    environment = make_vec_env(env_id, model.n_envs, seed=model.seed, env_kwargs=kwargs)
    again = type(model)(env=environment, seed=model.seed, **model.config.to_dict())
    snapshots = SnapshotCallback(max(1, int(FIRST_INTERVAL * steps)), STRETCH)
    try:
        again.learn(steps, callback=snapshots, progress_bar=sys.stdout.isatty())
    except KeyboardInterrupt:
        print("Interrupted: the animation ends here.")
    return snapshots
