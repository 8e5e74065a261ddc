"""Load models of any class and samples for them, and repeat the training of an agent."""

import csv
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
from oda_rl.agents.sb3.env_origin import EnvOrigin, find_environment
from oda_rl.quantization import LVQ

LOADED = (ODAPartition, ODAClassifier, ODARegressor, MultiResolutionODA, LVQ)
ESTIMATORS: dict[str, Any] = {estimator.__name__: estimator for estimator in LOADED}
# Growth of the intervals between snapshots, as the codebook grows early; and the first interval, as a
# part of the run. Together they give about 70 snapshots.
STRETCH, FIRST_INTERVAL = 1.07, 1.0 / 1600.0
# The largest number of lines, or of classes, that a message names
MOST_LISTED = 8

# What to do for an environment that cannot be made again
OTHERWISE = (
    "To animate it, give --env-id; or a SnapshotCallback to learn, and its views() to "
    "plotting.animate_codebook or write_report."
)


def load(path: Path) -> Any:
    """Load the model in a file, whatever its class."""
    kind = storage.kind_of(path)
    return ESTIMATORS[kind].load(path) if kind in ESTIMATORS else load_model(path)


def read_samples(path: Path | None, model: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Read the samples of a CSV file, and their classes or outputs if it has one more column.

    Parameters
    ----------
    path : Path or None
        A file with a header; None for no samples.
    model : estimator
        The fitted model whose features, and classes if any, the columns are.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features) or None
    y : ndarray of shape (n_samples,) or None

    Raises
    ------
    ValueError
        If the model is an agent, or the file does not fit the model; the message names the lines.
    """
    if path is None:
        return None, None
    if isinstance(model, OnlineAlgorithm):
        raise ValueError("--data can be given only for an estimator, and the model is an agent.")
    view = plotting.view_of(model)
    n = view.n_features
    rows = _read_rows(path)
    has_targets = _check_widths(path, rows, n)
    header = rows.pop(min(rows))
    X = np.array([_read_numbers(path, line, header[:n], row) for line, row in rows.items()])
    if not has_targets:
        return X, None
    if view.classes is not None:
        return X, _read_classes(path, {line: row[n] for line, row in rows.items()}, view.classes)
    y = [_read_numbers(path, line, header[n:], row[n:], n) for line, row in rows.items()]
    return X, np.array(y)[:, 0]


def _read_rows(path: Path) -> dict[int, list[str]]:
    """The rows of a CSV file, the header first, by the line where each ends; blank lines are left out.

    Raises a ValueError if the file is not CSV in UTF-8, or has no row below the header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} must be a CSV file in UTF-8; it cannot be read: {error}.") from error
    rows = {line: row for line, row in lines if len(row) > 1 or "".join(row).strip()}
    if len(rows) < 2:
        what = "only one line" if rows else "empty"
        raise ValueError(f"{path} must have a header and a line for each sample; it is {what}.")
    return rows


def _check_widths(path: Path, rows: dict[int, list[str]], n: int) -> bool:
    """Whether rows have a column besides the n features; raises a ValueError if they differ, or have
    another number of columns."""
    width = len(rows[min(rows)])
    accepted = (width,) if width in (n, n + 1) else (n, n + 1)
    wrong = [f"{len(row)} in line {line}" for line, row in rows.items() if len(row) not in accepted]
    if wrong:
        raise ValueError(
            f"{path} must have {n} columns, as the model has {n} features, or one more, the same "
            f"number in each line and separated by commas; got {_listed(wrong)}."
        )
    return width > n


def _read_numbers(
    path: Path, line: int, header: list[str], row: list[str], first: int = 0
) -> list[float]:
    """The numbers of a row under the names in `header`, of which the first is in column `first`."""
    numbers = []
    for j, (name, text) in enumerate(zip(header, row, strict=False)):
        try:
            number = float(text)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            place = f"line {line}, column {first + j + 1} ({name})"
            raise ValueError(f"{path} must have finite numbers, got {text!r} in {place}.")
        numbers.append(number)
    return numbers


def _read_classes(path: Path, texts: dict[int, str], classes: NDArray[Any]) -> NDArray[Any]:
    """The classes in the last column, whose texts are given by line, as values of `classes`."""
    known: dict[Any, Any] = {label: label for label in classes.tolist()}
    known |= {str(label): label for label in known}
    found = [known.get(text, known.get(_number_or_none(text))) for text in texts.values()]
    unknown: dict[str, str] = {}
    for label, (line, text) in zip(found, texts.items(), strict=True):
        if label is None:
            unknown.setdefault(text, f"{text!r} in line {line}")
    if unknown:
        raise ValueError(
            f"{path} must have only classes of the model in its last column, which are "
            f"{_listed([repr(label) for label in classes.tolist()])}; got "
            f"{_listed(list(unknown.values()))}."
        )
    return np.array(found, dtype=classes.dtype)


def _number_or_none(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _listed(texts: list[str]) -> str:
    """The first texts, and the number of the others."""
    more = f", and {len(texts) - MOST_LISTED:,} more" if len(texts) > MOST_LISTED else ""
    return ", ".join(texts[:MOST_LISTED]) + more


def train_again(model: Any, env_id: str | None = None) -> SnapshotCallback:
    """Repeat the training of an agent; returns its snapshots, also if Ctrl-C ends it early.

    Its environment is that of `env_id`, by default the one that it was trained on. Raises a ValueError
    if that cannot be made again.
    """
    kwargs: dict[str, Any] = {}
    if env_id is None:
        try:
            env_id, kwargs = find_environment(model)
        except ValueError as error:
            raise ValueError(f"{error} {OTHERWISE}") from error
    steps, name = model.num_timesteps, EnvOrigin(kwargs).describe(env_id)
    print(f"Training again on {name} for {steps:,} steps, with the same seed and hyperparameters.")
    environment = make_vec_env(env_id, model.n_envs, seed=model.seed, env_kwargs=kwargs)
    again = type(model)(env=environment, seed=model.seed, **model.config.to_dict())
    snapshots = SnapshotCallback(max(1, int(FIRST_INTERVAL * steps)), STRETCH)
    try:
        again.learn(steps, callback=snapshots, progress_bar=sys.stdout.isatty())
    except KeyboardInterrupt:
        print("Interrupted: the animation ends here.")
    return snapshots
