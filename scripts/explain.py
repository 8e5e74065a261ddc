"""Explain a trained policy: its cells as a table, and why it does what it does in a given state.

python scripts/explain.py logs/CartPole-v1/TwoTimescaleQ_0_1/model.npz
python scripts/explain.py MODEL --observation 0 0 0.05 0
python scripts/explain.py MODEL --cells 50 --dimensions 0 1 --picture cells.png
python scripts/explain.py MODEL --html report.html   # an interactive page; also for estimators and trees
"""

from common.ending import run_and_exit

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import tyro
from matplotlib.backend_bases import FigureCanvasBase
from numpy.typing import NDArray

from common.arguments import Positive, check_output
from common.evaluation import evaluate_command, refused_in_a_line
from common.pictures import plt, save
from common.reading import ESTIMATORS, load, read_samples, train_again
from oda_rl.agents.explain import (
    PolicyExplanation,
    PolicyTable,
    explain_observation,
    explain_policy,
    explanation_sheets,
    explanation_summary,
    plot_explanation,
    policy_sheet,
    policy_summary,
    to_markdown,
)
from oda_rl.agents.explain.page import write_report
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.inspect.page import write_estimator_report
from oda_rl.storage import kind_of, written_whole

# Suffixes of the files that can be written
ENDINGS = {
    "html": (".html", ".htm"),
    "markdown": (".md", ".markdown", ".txt"),
    "picture": tuple(f".{kind}" for kind in sorted(FigureCanvasBase.get_supported_filetypes())),
}


@dataclass
class Args:
    """Explain the greedy policy of a model file, or, with --html, any model of this package."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    observation: tuple[float, ...] | None = None
    """A state, in the environment's own units, in which to explain the decision."""
    cells: Positive = 20
    """Number of cells to print, the most visited ones; the Markdown file has all."""
    dimensions: tuple[int, int] | None = None
    """Coordinates to draw, counted from 0; by default the last two."""
    markdown: Path | None = None
    """The Markdown file to write; by default explained.md next to the model."""
    picture: Path | None = None
    """The picture to write; by default explained.png next to the model."""
    html: Path | None = None
    """Write this HTML page instead, with table, map and an episode; it needs no server or network."""
    env_id: str | None = None
    """Environment of the page's episode, and of --grown; by default that of the model's training."""
    grown: bool = False
    """Repeat the training of the agent, to show on the page how its codebook grew."""
    data: Path | None = None
    """CSV file of samples for the page of an estimator or a tree, in the format of plot.py."""


def write(args: Args, table: PolicyTable, explanation: PolicyExplanation | None) -> tuple[Path, Path]:
    """Write the picture and the Markdown file; returns their paths."""
    picture = args.picture or args.model.with_name("explained.png")
    markdown = args.markdown or args.model.with_name("explained.md")
    figure, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
    plot_explanation(table, explanation, args.dimensions, ax)
    save(figure, picture, dpi=110)
    with written_whole(markdown) as path:
        path.write_text(to_markdown(table, explanation), encoding="utf-8")
    return picture, markdown


def example_of(model: OnlineAlgorithm, table: PolicyTable) -> NDArray[Any]:
    """An example state: that of the first cell or, if cells have angles, a random observation."""
    if len(table.feature_names) == model.observations.n_features:
        return table.cells[0].codevector
    space = model.observation_space
    space.seed(0)
    return model.observations.encode(space.sample())


def print_next(args: Args, model: OnlineAlgorithm, example: NDArray[Any]) -> None:
    """Print commands to type next."""
    if args.observation is not None:
        if not model.env_origin.lacks("rewards"):  # evaluate.py can make the environment
            print(f"To watch it:\n  {evaluate_command(quote(str(args.model)), model.env_id)}")
        return
    where = " ".join(f"{value:.3g}" for value in example)
    print("To explain its action in a state, for example:")
    print(f"  python scripts/explain.py {quote(str(args.model))} --observation {where}")


def write_html(args: Args, path: Path) -> None:
    """Write the page of an agent, or of an estimator with its samples, if there are any."""
    model = load(args.model)
    if isinstance(model, OnlineAlgorithm):
        levels = train_again(model, args.env_id).views() if args.grown else []
        write_report(model, path, args.env_id, levels)
        return
    samples, _ = read_samples(args.data, model)
    write_estimator_report(model, path, samples)


def load_agent(path: Path) -> OnlineAlgorithm:
    """Load an agent; raises a ValueError that names --html if the file contains an estimator."""
    kind = kind_of(path)
    if kind in ESTIMATORS:
        raise ValueError(f"{path} contains a {kind}, not an agent; for a page of it, add --html FILE.")
    return load_model(path)


def check(args: Args) -> None:
    """Raise a ValueError if a typed option has no effect, or a file to write is not accepted."""
    alone = ("observation", "cells", "dimensions", "markdown", "picture")
    with_page = ("env_id", "grown", "data")
    unused, why = (with_page, "requires") if args.html is None else (alone, "cannot be used with")
    for name in unused:
        if getattr(args, name) != getattr(Args, name):
            raise ValueError(f"--{name.replace('_', '-')} {why} --html.")
    for name, endings in ENDINGS.items():
        if (path := getattr(args, name)) is not None:
            check_output(f"--{name}", path, endings, args.model)


def main(args: Args) -> int:
    """Load, explain, print."""
    with refused_in_a_line("Cannot explain the model"):
        check(args)
        if args.html is not None:
            write_html(args, args.html)
            size = args.html.stat().st_size / 1000
            print(f"The page is {args.html}, {size:.0f} kB. Open it in a browser:")
            print(f"  xdg-open {quote(str(args.html))}")
            return 0
        model = load_agent(args.model)
        table = explain_policy(model)
        explanation = None if args.observation is None else explain_observation(model, args.observation)
        picture, markdown = write(args, table, explanation)
    print(policy_sheet(table, args.cells), policy_summary(table), sep="\n\n", end="\n\n")
    if explanation is not None:
        print(explanation_summary(table, explanation))
        for sheet in explanation_sheets(table, explanation):
            print(f"\n{sheet}")
        print()
    print(f"The whole text is in {markdown}, the picture in {picture}.")
    print_next(args, model, example_of(model, table))
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
