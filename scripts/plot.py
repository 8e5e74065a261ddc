"""Draw a model file: codebook, partition, values, policy, annealing, or the codebook growing.

python scripts/plot.py logs/CartPole-v1/TwoTimescaleQ_0_1/model.npz
python scripts/plot.py MODEL --kind value --dimensions 2 3 --at 0 0 0 0
python scripts/plot.py MODEL --kind animation
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib
import numpy as np
import tyro
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from stable_baselines3.common.env_util import make_vec_env

from common.arguments import Positive
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor, plotting, storage
from oda_rl.agents.callbacks import SnapshotCallback
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.plotting.planes import make_plane
from oda_rl.quantization import LVQ

matplotlib.use("Agg")

LOADED = (ODAPartition, ODAClassifier, ODARegressor, MultiResolutionODA, LVQ)
ESTIMATORS: dict[str, Any] = {estimator.__name__: estimator for estimator in LOADED}
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
    dpi: Positive = 110
    """Pixels per inch."""


def load(path: Path) -> Any:
    """The model in a file, of whatever class."""
    kind = storage.kind_of(path)
    return ESTIMATORS[kind].load(path) if kind in ESTIMATORS else load_model(path)


def read_samples(path: Path | None, model: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The samples of a CSV file, and their classes or outputs if there is a column more."""
    if path is None:
        return None, None
    if isinstance(model, OnlineAlgorithm):
        raise ValueError("--data goes with estimators; an agent's model has no data.")
    view = plotting.view_of(model)
    n = view.n_features
    table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, ndmin=2)
    if table.shape[1] not in (n, n + 1):
        raise ValueError(f"{path} has {table.shape[1]} columns; the model has {n} features.")
    X, y = table[:, :n].astype(float), None
    if table.shape[1] > n:
        named = view.classes is not None and view.classes.dtype.kind in "US"
        y = table[:, n].astype(view.classes.dtype if named else float)
    return X, y


def draw_codebook(model: Any, args: Args) -> Any:
    """All codevectors, over two dimensions."""
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


KINDS: dict[str, Callable[[Any, Args], Any]] = {
    "codebook": draw_codebook,
    "partition": lambda model, args: plotting.plot_partition(
        model, *read_samples(args.data, model), args.dimensions, args.at
    ),
    "value": lambda model, args: plotting.plot_value_map(model, args.dimensions, args.at, codebook=True),
    "policy": lambda model, args: plotting.plot_policy_map(
        model, args.dimensions, args.at, codebook=True
    ),
    "annealing": lambda model, args: plotting.plot_annealing(model)[0],
}


def train_again(model: Any) -> SnapshotCallback:
    """Snapshots of the training of an agent like this one; of its beginning if it is interrupted."""
    if model.env_id is None:
        raise ValueError("the model does not tell what it was trained on.")
    steps = model.num_timesteps
    print(
        f"Training again on {model.env_id} for {steps:,} steps, with the same seed and hyperparameters."
    )
    environment = make_vec_env(model.env_id, model.n_envs, seed=model.seed)
    again = type(model)(env=environment, seed=model.seed, **model.config.to_dict())
    snapshots = SnapshotCallback(max(1, int(FIRST_INTERVAL * steps)), STRETCH)
    try:
        again.learn(steps, callback=snapshots, progress_bar=sys.stdout.isatty())
    except KeyboardInterrupt:
        print("Interrupted: the animation ends here.")
    return snapshots


def animate(model: Any, args: Args, path: Path) -> None:
    """Write the GIF."""
    X, _ = read_samples(args.data, model)
    frames = train_again(model) if isinstance(model, OnlineAlgorithm) else model
    axes = plotting.animate_codebook(frames, path, X, args.dimensions, args.at)
    plt.close(axes[0].figure)


def draw(model: Any, args: Args, folder: Path) -> list[Path]:
    """Write what is wanted, of "all" what the model has; returns the files."""
    written = []
    for kind in KINDS if args.kind == "all" else (args.kind,):
        path = folder / f"{args.model.stem}_{kind}.{'gif' if kind == 'animation' else 'png'}"
        try:
            if kind == "animation":
                animate(model, args, path)
            else:
                figure = KINDS[kind](model, args).figure
                with storage.written_whole(path) as temporary:
                    figure.savefig(temporary, dpi=args.dpi)
                plt.close(figure)
        except ValueError as error:
            if args.kind != "all":
                raise
            print(f"No {kind}: {error}")
            continue
        written.append(path)
    return written


def main(args: Args) -> int:
    """Read, draw, print where."""
    try:
        model = load(args.model)
        folder = args.out or args.model.parent
        folder.mkdir(parents=True, exist_ok=True)
        written = draw(model, args, folder)
    except (FileNotFoundError, ValueError) as error:
        print(f"Cannot draw this: {error}")
        return 1
    if not written:
        return 1
    names = plotting.view_of(model).feature_names
    print(f"{type(model).__name__} with the dimensions")
    print(*(f"  {j}: {name}" for j, name in enumerate(names)), sep="\n")
    print("is drawn in", *(f"  {path}" for path in written), sep="\n")
    if args.kind == "all" and len(written) > 1:
        command = f"  python scripts/plot.py {args.model}"
        if len(names) > 2:
            print(f"Other dimensions, or the codebook as it grew:\n{command} --dimensions 0 1")
        else:
            print("As it grew:")
        print(f"{command} --kind animation")
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args)))
