"""Reproduce the figure of the paper on kernel machines with adaptive bandwidth.

python scripts/reproduce/kernels.py

Writes pictures into `--out`, after Fig. 1 of Koppel, Bedi and Krishnamurthy, "A Dynamical Systems
Perspective on Online Bayesian Nonparametric Estimators with Adaptive Hyperparameters". They show the
data set multidist with the dictionary and the decisions of BARRETTE (Fig. 1a); and, for BARRETTE from
bandwidth 1 and POLK with 0.2 and 1, the training objective (Fig. 1b) and the bandwidth over time
(Fig. 1c).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.ending import run_and_exit

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.kernels import PAPER, progress
from common.arguments import Positive, whole
from common.measuring import interval
from common.pictures import (
    BLUE,
    CLASS_COLOURS,
    CODE_COLOURS,
    GREEN,
    ORANGE,
    grid_of,
    light_frame,
    no_ticks,
    plane,
    write_down,
)
from common.tables import make_console, show_table
from oda_rl import KernelSGDClassifier
from oda_rl._types import Array
from oda_rl.datasets import make_multidist

METHODS: dict[str, dict[str, Any]] = {
    "BARRETTE from 1": {"bandwidth": 1.0},
    "POLK, 0.2 (oracle)": {"bandwidth": 0.2, "adapt": ()},
    "POLK, 1 (misspecified)": {"bandwidth": 1.0, "adapt": ()},
}
COLOURS = dict(zip(METHODS, (BLUE, GREEN, ORANGE), strict=True))
# Mini-batches over which the training objective is averaged.
SMOOTH = 25


@dataclass
class Args:
    """Reproduce the figure of the paper on kernel machines with adaptive bandwidth.

    The defaults are the paper's sizes: 5,000 training samples, and 2,500 test samples.
    """

    out: Path = Path("logs/kernels")
    """Folder of the pictures."""
    seeds: Positive = 10
    """Number of seeds, each of a data set and of the learning."""
    n_samples: Annotated[int, whole(50)] = 5000
    """Training samples, each used once."""
    loss: Literal["hinge", "logistic"] = "hinge"
    """Loss of a sample."""


@dataclass
class Runs:
    """Curves and test errors of the runs of one method, one row per seed; `seen` is common to all."""

    seen: Array
    objective: Array
    bandwidth: Array
    points: Array
    error: Array


def smooth(values: Array) -> Array:
    """Moving averages over the latest `SMOOTH` mini-batches, at the beginning over fewer."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - SMOOTH, 0)
    return np.asarray((total[end] - total[begin]) / (end - begin))


def run(method: str, args: Args) -> Runs:
    """Run all seeds of one method."""
    rows = []
    for seed in progress(range(args.seeds), method):
        samples, labels, test, test_labels = make_multidist(args.n_samples, seed=seed)
        model = KernelSGDClassifier(args.loss, random_state=seed, **PAPER, **METHODS[method])
        model.fit(samples, labels)
        history = model.history_
        error = 100.0 * (1.0 - model.score(test, test_labels))
        curves = (history["n_samples"], smooth(history["loss"]), history["bandwidth"])
        rows.append((*curves, history["n_points"], error))
    seen, objective, bandwidth, points, errors = (np.array(part) for part in zip(*rows, strict=True))
    return Runs(seen[0], objective, bandwidth, points, errors)


def draw_band(axes: Axes, seen: Array, values: Array, method: str) -> None:
    """Draw the mean over seeds, with its 95 % bootstrap interval."""
    low, high = interval([values], np.mean, resamples=500)
    middle = values.mean(axis=0)
    axes.fill_between(seen, low, high, color=COLOURS[method], alpha=0.18, linewidth=0)
    axes.plot(seen, middle, color=COLOURS[method], lw=1.6, label=method)


def draw_paths(results: dict[str, Runs]) -> Figure:
    """Draw Fig. 1b and 1c, and the model order; the objective is the mean loss of new samples."""
    figure, panels = plt.subplots(1, 3, figsize=(13.0, 4.0), layout="constrained")
    own = np.mean([found.objective for found in results.values()], axis=(0, 2))[:, None]
    for method, found in results.items():
        # The overlap of classes depends on the seed, and has more influence than the method: remove it.
        draw_band(panels[0], found.seen, found.objective - own + own.mean(), method)
        draw_band(panels[1], found.seen, found.bandwidth, method)
        draw_band(panels[2], found.seen, found.points, method)
    panels[0].set_ylabel("training objective")
    panels[1].set_ylabel("bandwidth d")
    panels[1].set_yscale("log")
    ticks = [0.1, 0.2, 0.5, 1.0]
    panels[1].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panels[1].minorticks_off()
    panels[2].set_ylabel("points of the dictionary")
    panels[2].set_ylim(bottom=0)
    for axes in panels:
        axes.set_xlabel("samples seen")
        light_frame(axes)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def draw_data(args: Args) -> Figure:
    """Draw Fig. 1a: the data of the first seed, with BARRETTE's dictionary and decision boundaries."""
    samples, labels, test, test_labels = make_multidist(args.n_samples, seed=0)
    model = KernelSGDClassifier(args.loss, random_state=0, **PAPER, bandwidth=1.0).fit(samples, labels)
    x, y, points = plane(samples, 0.2, 300)
    areas = model.predict(points).reshape(x.shape)
    figure, [panels] = grid_of(1, 2, 5.5, 5.2, sharex=True, sharey=True)
    for axes in panels:
        axes.scatter(*samples.T, c=CLASS_COLOURS[labels], s=4, linewidths=0)
        no_ticks(axes)
    panels[0].set_title("multidist: five classes, fifteen modes")
    for c in range(areas.max() + 1):
        panels[1].contour(x, y, areas == c, [0.5], colors="k", linewidths=0.7)
    strongest = model.dual_coef_.argmax(axis=1)
    panels[1].scatter(
        *model.dictionary_.T, c=CODE_COLOURS[strongest], s=16, edgecolors="white", linewidths=0.4
    )
    right = model.score(test, test_labels)
    panels[1].set_title(
        f"BARRETTE: d = {model.bandwidth_:.2f}, {model.n_points_} points, {right:.1%} of the test right"
    )
    return figure


def show(results: dict[str, Runs], console: Console) -> None:
    """Print the final values of the curves, and the test errors."""
    rows = []
    for method, found in results.items():
        ends = (found.objective, found.bandwidth, found.points)
        texts = (f"{end[:, -1].mean():.3g} ± {end[:, -1].std():.2g}" for end in ends)
        rows.append([method, *texts, f"{found.error.mean():.2f} ± {found.error.std():.2f}"])
    title = f"After one pass, {len(next(iter(results.values())).error)} seeds"
    columns = ("method", "objective", "bandwidth", "points", "test error, %")
    show_table(console, title, columns, rows)
    console.print(
        "Means and standard deviations of the seeds, which differ much in how classes overlap. The "
        "pictures have means and their 95 % intervals; in the objective's, what a data set has in "
        "common for all methods is taken out."
    )


def main(args: Args) -> None:
    """Run everything, draw it, and print the results."""
    console = make_console()
    args.out.mkdir(parents=True, exist_ok=True)
    results = {method: run(method, args) for method in METHODS}
    write_down(args.out, {"data": draw_data(args), "paths": draw_paths(results)})
    show(results, console)
    console.print("More figures: python scripts/benchmark.py kernels")


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
