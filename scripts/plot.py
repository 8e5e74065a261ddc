"""Draw a model file: codebook, partition, values, policy, annealing, or the growth of the codebook.

python scripts/plot.py logs/CartPole-v1/TwoTimescaleQ_0_1/model.npz
python scripts/plot.py MODEL --kind value --dimensions 2 3 --at 0 0 0 0
python scripts/plot.py MODEL --kind animation
"""

from common.ending import run_and_exit

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import tyro

from common.arguments import check_folder, whole
from common.evaluation import refused_in_a_line
from common.pictures import plt, save
from common.reading import load, read_samples, train_again
from oda_rl import plotting
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.inspect.planes import make_plane

# Largest resolution: a picture then takes some 250 MB of memory
MOST_DPI = 1200


@dataclass
class Args:
    """Draw the agent or estimator in a model file."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    kind: Literal["all", "codebook", "partition", "value", "policy", "annealing", "animation"] = "all"
    """What to draw; "all" is everything but the animation. To animate an agent, its training is repeated
    with the same environment, hyperparameters, seed and number of steps."""
    env_id: str | None = None
    """Environment of that training; by default the one that the model was trained on."""
    dimensions: tuple[int, int] | None = None
    """The two dimensions to draw, counted from 0; by default the most informative ones."""
    at: tuple[float, ...] | None = None
    """The other coordinates: one number for each dimension (ignored for those drawn); by default the
    mean of the codevectors."""
    data: Path | None = None
    """Samples to draw over an estimator's partition: a CSV file with a header and a column for each
    feature. One more column, the last, holds classes or outputs."""
    out: Path | None = None
    """Folder for the pictures; by default that of the model."""
    dpi: Annotated[int, whole(1, most=MOST_DPI)] = 110
    """Pixels per inch."""


KINDS: dict[str, Callable[[Any, Args], Any]] = {
    "codebook": lambda model, args: plotting.plot_codebook(model, args.dimensions),
    "partition": lambda model, args: plotting.plot_partition(
        model, *read_samples(args.data, model), args.dimensions, args.at
    ),
    "value": lambda model, args: plotting.plot_value_map(model, args.dimensions, args.at, codebook=True),
    "policy": lambda model, args: plotting.plot_policy_map(
        model, args.dimensions, args.at, codebook=True
    ),
    "annealing": lambda model, args: plotting.plot_annealing(model)[0],
}


def animate(model: Any, args: Args, path: Path) -> None:
    """Write the animation as a GIF."""
    X, _ = read_samples(args.data, model)
    frames = train_again(model, args.env_id) if isinstance(model, OnlineAlgorithm) else model
    axes = plotting.animate_codebook(frames, path, X, args.dimensions, args.at)
    plt.close(axes[0].figure)


def draw(model: Any, args: Args, folder: Path) -> list[Path]:
    """Write the chosen picture, or for "all" those that the model has; returns their paths."""
    written = []
    for kind in KINDS if args.kind == "all" else (args.kind,):
        path = folder / f"{args.model.stem}_{kind}.{'gif' if kind == 'animation' else 'png'}"
        try:
            if kind == "animation":
                animate(model, args, path)
            else:
                save(KINDS[kind](model, args).figure, path, args.dpi)
        except ValueError as error:
            if args.kind != "all":
                raise
            print(f"No {kind}: {error}")
            continue
        written.append(path)
    return written


def check(view: plotting.View, args: Args) -> None:
    """Raise a ValueError if --dimensions or --at do not fit the model."""
    if args.dimensions is not None or args.at is not None:
        has_own = args.at is not None and len(args.at) == view.n_valued  # without those of actions
        make_plane(view, args.dimensions, args.at, most=view.n_valued if has_own else None)


def main(args: Args) -> int:
    """Load the model, draw it, and print where the pictures are."""
    with refused_in_a_line("Cannot plot the model"):
        check_folder("--out", args.out)
        model = load(args.model)
        view = plotting.view_of(model)
        check(view, args)
        folder = args.out or args.model.parent
        folder.mkdir(parents=True, exist_ok=True)
        written = draw(model, args, folder)
    if not written:
        return 1
    names = view.feature_names
    print(f"{type(model).__name__}, with the dimensions")
    print(*(f"  {j}: {name}" for j, name in enumerate(names)), sep="\n")
    print("The plots are in", *(f"  {path}" for path in written), sep="\n")
    if args.kind == "all" and len(written) > 1 and len(names) > 1:  # a plane can be drawn
        command = f"  python scripts/plot.py {quote(str(args.model))}"
        if len(names) > 2:
            print(f"Other dimensions, or the codebook as it grew:\n{command} --dimensions 0 1")
        else:
            print("As it grew:")
        print(f"{command} --kind animation")
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
