"""Draw a model file: codebook, partition, values, policy, annealing, or the codebook growing.

python scripts/plot.py logs/CartPole-v1/TwoTimescaleQ_0_1/model.npz
python scripts/plot.py MODEL --kind value --dimensions 2 3 --at 0 0 0 0
python scripts/plot.py MODEL --kind animation
"""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib
import numpy as np
import tyro
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from rich.console import Console
from stable_baselines3.common.env_util import make_vec_env

import oda_rl
import oda_rl.envs
from oda_rl import plotting, storage
from oda_rl.agents.callbacks import SnapshotCallback
from oda_rl.agents.models import load_model
from oda_rl.estimators.lvq import LVQ
from oda_rl.plotting.planes import make_plane

matplotlib.use("Agg")

ESTIMATORS: dict[str, Any] = {
    "ODAPartition": oda_rl.ODAPartition,
    "ODAClassifier": oda_rl.ODAClassifier,
    "ODARegressor": oda_rl.ODARegressor,
    "LVQ": LVQ,
}
# Snapshots of an animation come at intervals that grow by 7 %: the codebook grows early. 70 make a run.
STRETCH, FIRST_INTERVAL = 1.07, 1.0 / 1600.0


@dataclass
class Args:
    """Draw what is in a model file, an agent's or an estimator's, without a line of Python."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    kind: Literal["all", "codebook", "partition", "value", "policy", "annealing", "animation"] = "all"
    """What to draw; "all" is all that there is but the animation. An agent's animation trains it again
    from its environment, hyperparameters and seed, for as many steps."""
    dimensions: tuple[int, int] | None = None
    """The two dimensions to draw, counted from 0; by default those that tell most."""
    at: tuple[float, ...] | None = None
    """The other coordinates, one number for each dimension (those drawn mean nothing); by default the
    mean of the codevectors."""
    data: Path | None = None
    """Samples to draw over an estimator's partition: a CSV file with a header and a column for each
    feature; one column more, the last, holds classes or outputs."""
    out: Path | None = None
    """Folder for the pictures; that of the model by default."""
    dpi: int = 110
    """Pixels per inch."""


def load(path: Path) -> Any:
    """The model in a file, of whatever class."""
    kind = storage.kind_of(path)
    return ESTIMATORS[kind].load(path) if kind in ESTIMATORS else load_model(path)


def read_samples(path: Path | None, model: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The samples of a CSV file, and their classes or outputs if there is a column more."""
    if path is None:
        return None, None
    if not hasattr(model, "codevectors_"):
        raise ValueError("--data goes with estimators; an agent's model has no data.")
    n = model.n_features_in_
    table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, ndmin=2)
    if table.shape[1] not in (n, n + 1):
        raise ValueError(f"{path} has {table.shape[1]} columns; the model has {n} features.")
    X, y = table[:, :n].astype(float), None
    if table.shape[1] > n:
        classes = getattr(model, "classes_", np.empty(0))
        y = table[:, n].astype(classes.dtype if classes.dtype.kind in "US" else float)
    return X, y


def draw_codebook(model: Any, args: Args) -> Any:
    """All codevectors, seen along two dimensions."""
    view = plotting.view_of(model)
    if not len(view.codevectors):
        raise ValueError("it has no codevectors.")
    if view.n_features == 1:
        raise ValueError("it has one dimension.")
    labels = np.zeros(len(view.codevectors), dtype=int) if view.labels is None else view.labels
    return plotting.plot_codebook(
        view.codevectors,
        labels,
        view.weights,
        make_plane(view, args.dimensions, None).dimensions,
        view.feature_names,
        view.label_names or ["codevectors"],
    )


def draw_partition(model: Any, args: Args) -> Any:
    """Cells in a plane."""
    X, y = read_samples(args.data, model)
    return plotting.plot_partition(model, X, y, args.dimensions, args.at)


def draw_value(model: Any, args: Args) -> Any:
    """Values over a plane."""
    return plotting.plot_value_map(model, args.dimensions, args.at, codebook=True)


def draw_policy(model: Any, args: Args) -> Any:
    """What is decided, over a plane."""
    return plotting.plot_policy_map(model, args.dimensions, args.at, codebook=True)


def draw_annealing(model: Any, args: Args) -> Any:
    """Cells, distortion and temperature."""
    return plotting.plot_annealing(model)[0]


KINDS: dict[str, Callable[[Any, Args], Any]] = {
    "codebook": draw_codebook,
    "partition": draw_partition,
    "value": draw_value,
    "policy": draw_policy,
    "annealing": draw_annealing,
}


def train_again(model: Any, console: Console) -> SnapshotCallback:
    """Snapshots of the training of an agent like this one; of its beginning if it is interrupted."""
    if model.env_id is None:
        raise ValueError("the model does not say what it was trained on.")
    steps = model.num_timesteps
    console.print(
        f"Training again on {model.env_id} for {steps:,} steps, with the same seed and hyperparameters.",
        highlight=False,
        soft_wrap=True,
    )
    environment = make_vec_env(model.env_id, model.n_envs, seed=model.seed)
    again = type(model)(env=environment, seed=model.seed, **model.config.to_dict())
    snapshots = SnapshotCallback(max(1, int(FIRST_INTERVAL * steps)), STRETCH)
    try:
        again.learn(steps, callback=snapshots, progress_bar=console.is_terminal)
    except KeyboardInterrupt:
        console.print("Interrupted: the animation ends here.")
    return snapshots


def animate(model: Any, args: Args, path: Path, console: Console) -> None:
    """Write the GIF."""
    if hasattr(model, "codevectors_"):
        X, _ = read_samples(args.data, model)
        axes = plotting.animate_codebook(model, path, X, args.dimensions, args.at)
    else:
        snapshots = train_again(model, console)
        axes = plotting.animate_codebook(snapshots, path, None, args.dimensions, args.at)
    plt.close(axes[0].figure)


def write_picture(figure: Any, path: Path, dpi: int) -> None:
    """Write a picture under a temporary name, then rename it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    figure.savefig(temporary, dpi=dpi)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    plt.close(figure)


def draw(model: Any, args: Args, folder: Path, console: Console) -> list[Path]:
    """Write what is wanted, of "all" what the model has; returns the files."""
    written = []
    for kind in KINDS if args.kind == "all" else (args.kind,):
        path = folder / f"{args.model.stem}_{kind}.{'gif' if kind == 'animation' else 'png'}"
        try:
            if kind == "animation":
                animate(model, args, path, console)
            else:
                write_picture(KINDS[kind](model, args).figure, path, args.dpi)
        except ValueError as error:
            if args.kind != "all":
                raise
            console.print(f"No {kind}: {error}", highlight=False, soft_wrap=True)
            continue
        written.append(path)
    return written


def main(args: Args) -> int:
    """Read, draw, tell where."""
    console = Console()
    try:
        model = load(args.model)
        folder = args.out or args.model.parent
        folder.mkdir(parents=True, exist_ok=True)
        written = draw(model, args, folder, console)
    except (FileNotFoundError, ValueError) as error:
        console.print(f"Cannot draw this: {error}", highlight=False, soft_wrap=True)
        return 1
    if not written:
        return 1
    names = plotting.view_of(model).feature_names
    console.print(f"{type(model).__name__} with the dimensions", highlight=False)
    for j, name in enumerate(names):
        console.print(f"  {j}: {name}", highlight=False, soft_wrap=True)
    console.print("is drawn in")
    for path in written:
        console.print(f"  {path}", highlight=False, soft_wrap=True)
    if args.kind == "all" and len(written) > 1:
        options = " --dimensions 0 1" if len(names) > 2 else ""
        console.print("Other dimensions, or the codebook as it grew:" if options else "As it grew:")
        if options:
            console.print(
                f"  python scripts/plot.py {args.model}{options}", highlight=False, soft_wrap=True
            )
        console.print(
            f"  python scripts/plot.py {args.model} --kind animation", highlight=False, soft_wrap=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args)))
