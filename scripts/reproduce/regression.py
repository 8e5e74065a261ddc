"""Reproduce the papers' figures on regression.

python scripts/reproduce/regression.py

Writes pictures and a table into `--out`. A function of one input and one of two inputs are approximated
by constant and by linear local models as the number of cells grows (Figs. 9 and 10 of "Multi-Resolution
Online Deterministic Annealing"). For comparison there are two piecewise constant models: Algorithm 3 of
the paper as it is printed, and a tree of cells with constant models. The mean squared error is drawn
against K and against the samples observed, with that of scikit-learn's regression tree with K leaves.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.ending import run_and_exit

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from matplotlib.figure import Figure
from sklearn.metrics import pairwise_distances_argmin
from sklearn.tree import DecisionTreeRegressor

from common.arguments import Count, NonNegative, open_out, whole
from common.measuring import passes_over, timed
from common.pictures import BLUE, GREEN, GREY, ORANGE, draw_codevectors, grid_of, light_frame, write_down
from common.tables import to_markdown
from oda_rl import MultiResolutionODA, ODARegressor, datasets
from oda_rl._types import Array, Labels
from oda_rl.papers import LiteralRegressor

MODELS = {"constant": BLUE, "linear": ORANGE}
PRINTED, OWN_TREE, TREE = "as printed", "ODA tree, constant", "tree"
COLOURS = MODELS | {PRINTED: GREEN, OWN_TREE: "#aa3377", TREE: GREY}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {"1-D": datasets.curve, "2-D": datasets.surface}


@dataclass
class Args:
    """Reproduce the papers' figures on regression.

    The papers do not state their numbers of samples; the defaults are our own.
    """

    out: Path = Path("logs/regression")
    """Folder of the pictures and the table."""
    counts: tuple[Annotated[int, whole(2)], ...] = (2, 4, 8, 16, 32, 62)
    """Numbers K of cells."""
    n_samples: Annotated[int, whole(50)] = 1500
    """Number of training samples, and of test samples."""
    softness: NonNegative = 1.0
    """How far cells overlap in predictions; 0 for nearest cells, as in the papers."""
    seed: Count = 0
    """Seed of everything that is random."""


class Step(NamedTuple):
    """Error of a method with K cells or leaves, and the samples and seconds that it took."""

    k: int
    error: float
    samples: int
    seconds: float


def make(name: str, n_samples: int, seed: int) -> tuple[Array, Array]:
    """Make samples and outputs."""
    return (datasets.make_curve if name == "1-D" else datasets.make_surface)(n_samples, seed)


def mean_squared_error(model: Any, test: tuple[Array, Array]) -> float:
    """Mean squared error on test samples."""
    return float(((model.predict(test[0]) - test[1]) ** 2).mean())


def run_models(
    name: str, make_model: Callable[[int], Any], args: Args, test: tuple[Array, Array]
) -> tuple[list[Step], list[Any]]:
    """Fit one model for every K; returns the steps and the models."""
    data = make(name, args.n_samples, args.seed)
    steps, fitted = [], []
    for k in args.counts:
        model, seconds = timed(make_model(k).fit, *data)
        size = getattr(model, "n_codevectors_", k)
        seen = getattr(model, "n_samples_seen_", args.n_samples)
        steps.append(Step(size, mean_squared_error(model, test), seen, seconds))
        fitted.append(model)
    return steps, fitted


def makers(args: Args) -> dict[str, Callable[[int], Any]]:
    """Functions that make a model of each kind from a number of cells or leaves."""
    # As in the paper, there are only cells, and no kernel machine.
    options: dict[str, Any] = {"softness": args.softness, "kernel": None, "random_state": args.seed}
    ours = {name: partial(ODARegressor, local_model=name, **options) for name in MODELS}
    constant, seed = ODARegressor(local_model="constant"), args.seed
    return ours | {
        PRINTED: lambda k: LiteralRegressor(k, random_state=seed),
        OWN_TREE: lambda k: MultiResolutionODA(constant, max_leaves=k, random_state=seed),
        TREE: lambda k: DecisionTreeRegressor(max_leaf_nodes=k, random_state=seed),
    }


def cells_of(model: Any, X: Array) -> Labels:
    """The cell of each point: its leaf, the cell with the largest share, or the nearest one."""
    if hasattr(model, "apply"):
        return np.asarray(model.apply(X))
    if hasattr(model, "association"):
        return np.asarray(model.association(X).argmax(axis=1))
    return np.asarray(pairwise_distances_argmin(X, model.codevectors_))


def run_stream(
    name: str, model: str, args: Args, test: tuple[Array, Array], passes: int = 100
) -> list[Step]:
    """Run a stream, and measure the error after every pass over the samples."""
    X, y = make(name, args.n_samples, args.seed)
    found = ODARegressor(max(args.counts), local_model=model, random_state=args.seed)
    steps, seconds = [], 0.0
    for spent in passes_over(found, passes, args.seed, X, y):
        seconds += spent
        error = mean_squared_error(found, test)
        steps.append(Step(found.n_codevectors_, error, found.n_samples_seen_, seconds))
    return steps


def chosen(models: Sequence[Any]) -> Sequence[Any]:
    """Those of the models, or of their K, that are drawn: every second one."""
    return models[1::2] or models[:1]


def draw_curve(fitted: dict[str, list[Any]], args: Args) -> Figure:
    """Draw the function of one input and its approximations: one column per K, one row per model."""
    n = len(chosen(args.counts))
    figure, panels = grid_of(len(fitted), n, 3.6, 2.6, sharex=True, sharey=True)
    grid = np.linspace(0.0, 9.5, 1000)[:, None]
    truth = datasets.curve(grid)
    for row, (name, models) in zip(panels, fitted.items(), strict=True):
        for axes, model in zip(row, chosen(models), strict=True):
            axes.plot(grid, truth, color="#bbbbbb", lw=3, label="function")
            axes.plot(grid, model.predict(grid), color=COLOURS[name], lw=1.2, label="approximation")
            codevectors = model.codevectors_
            points = np.column_stack([codevectors, model.predict(codevectors)])
            style = {"color": COLOURS[name], "ms": 4, "mew": 0.5}
            draw_codevectors(axes, points, label="codevectors", **style)
            axes.set_title(f"{name}, K = {model.n_codevectors_}", fontsize=10)
            light_frame(axes)
        row[0].set_ylabel("output")
    for axes in panels[-1]:
        axes.set_xlabel("input")
    panels[0, 0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def draw_surface(fitted: dict[str, list[Any]], args: Args) -> Figure:
    """Draw the function of two inputs, and its approximations with their cells: one row per model."""
    columns = len(chosen(args.counts)) + 1
    figure, panels = grid_of(len(fitted), columns, 3.1, 3.0)
    x, y = np.meshgrid(np.linspace(0.0, 1.0, 200), np.linspace(0.0, 1.0, 200))
    grid = np.column_stack([x.ravel(), y.ravel()])
    options = {"levels": np.linspace(-1.2, 1.2, 25), "cmap": "RdBu_r", "extend": "both"}
    for row, (name, models) in zip(panels, fitted.items(), strict=True):
        for axes, model in zip(row, chosen(models), strict=False):
            axes.contourf(x, y, model.predict(grid).reshape(x.shape), **options)
            cells = cells_of(model, grid).reshape(x.shape)
            for cell in range(model.n_codevectors_):
                axes.contour(x, y, cells == cell, [0.5], colors="black", linewidths=0.4)
            axes.plot(*model.codevectors_.T, "o", color="black", ms=3)
            axes.set_title(f"{name}, K = {model.n_codevectors_}", fontsize=10)
        image = row[-1].contourf(x, y, datasets.surface(grid).reshape(x.shape), **options)
        row[-1].set_title("function", fontsize=10)
        for axes in row:
            axes.set_aspect("equal")
            axes.set_xticks([0, 1])
            axes.set_yticks([0, 1])
    figure.colorbar(image, ax=panels, shrink=0.6, ticks=[-1, 0, 1])
    return figure


def draw_errors(
    results: dict[str, dict[str, list[Step]]], streams: dict[str, dict[str, list[Step]]]
) -> Figure:
    """Draw errors against K (above), and those of a stream against the samples observed (below)."""
    figure, panels = grid_of(2, len(results), 9.6 / len(results), 3.2)
    for column, (name, methods) in enumerate(results.items()):
        above, below = panels[0, column], panels[1, column]
        for method, steps in methods.items():
            colour = COLOURS[method]
            k, errors = [s.k for s in steps], [s.error for s in steps]
            above.plot(k, errors, "o-", color=colour, ms=4, label=method)
        for method, steps in streams[name].items():
            seen, errors = [s.samples / 1000 for s in steps], [s.error for s in steps]
            below.plot(seen, errors, color=MODELS[method], label=method)
        leaves = methods[TREE][-1]
        below.axhline(
            leaves.error,
            color=COLOURS[TREE],
            lw=1,
            ls="--",
            label=f"tree, {leaves.k} leaves, all samples",
        )
        above.set_title(f"{name}: fit", fontsize=10)
        below.set_title(f"{name}: stream, K up to {leaves.k}", fontsize=10)
        above.set_xlabel("cells K, or leaves")
        below.set_xlabel("samples observed, thousands")
        above.set_xscale("log", base=2)
        above.set_xticks([s.k for s in methods[TREE]], [str(s.k) for s in methods[TREE]])
        for axes in (above, below):
            axes.set_yscale("log")
            axes.set_ylabel("mean squared error")
            light_frame(axes)
    panels[0, 0].legend(frameon=False, fontsize=8)
    panels[1, 0].legend(frameon=False, fontsize=8)
    return figure


def table_of(results: dict[str, dict[str, list[Step]]], variances: dict[str, float]) -> str:
    """All steps, as Markdown."""
    rows = [
        [
            *(name, f"{variances[name]:.4g}", method, str(s.k), f"{s.error:.3g}", f"{s.samples:,}"),
            f"{s.seconds:.3f}",
        ]
        for name, methods in results.items()
        for method, steps in methods.items()
        for s in steps
    ]
    note = (
        "MSE on samples that were not learned from. Samples observed are those presented by the last "
        "annealing, repetitions included, which two shorter ones precede; seconds are of everything."
    )
    columns = ("function", "variance", "method", "K", "MSE", "samples observed", "seconds")
    return to_markdown(columns, rows, notes=(note,))


def main(args: Args) -> None:
    """Run everything, and write the results."""
    open_out(args)
    for model in MODELS:  # compiles the code before it is timed
        ODARegressor(4, local_model=model).fit(*make("2-D", 100, 0))
    results, fitted, streams, variances = {}, {}, {}, {}
    for name in FUNCTIONS:
        test = make(name, args.n_samples, args.seed + 1)
        variances[name] = float(test[1].var())
        found = {model: run_models(name, made, args, test) for model, made in makers(args).items()}
        fitted[name] = {model: found[model][1] for model in found if model != TREE}
        results[name] = {model: steps for model, (steps, _) in found.items()}
        streams[name] = {model: run_stream(name, model, args, test) for model in MODELS}
    pictures = {
        "curve": draw_curve(fitted["1-D"], args),
        "surface": draw_surface(fitted["2-D"], args),
        "errors": draw_errors(results, streams),
    }
    write_down(args.out, pictures, table_of(results, variances), dpi=130)


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
