"""The picture of return against numbers stored, from the runs that are kept."""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from rich.console import Console
from rich.table import Table

from benchmarks.plans import Plan, code_version
from benchmarks.statistics import bootstrap_interval, interquartile_mean
from benchmarks.tasks import TASKS, Task, short_name

matplotlib.use("Agg")

LOOKS = {
    "TwoTimescaleQ": ("#0072b2", "o"),
    "UniformGridQ": ("#555555", "s"),
    "SOMQ": ("#009e73", "D"),
    "TileCodingSarsa": ("#d55e00", "^"),
    "FourierSarsa": ("#cc79a7", "v"),
    "KernelQ": ("#332288", "p"),
    "PPO": ("#e69f00", "P"),
    "A2C": ("#882255", "<"),
    "DQN": ("#56b4e9", "X"),
    "QRDQN": ("#000000", "*"),
}


@dataclass
class Point:
    """The runs of one plan, as the picture has them."""

    algorithm: str
    env_id: str
    steps: int
    seeds: int
    numbers: float
    iqm: float
    low: float
    high: float
    current: bool
    """Whether the runs were made by the code as it is now."""


def read_kept(log_dir: Path) -> list[Point]:
    """A point for each plan that runs are kept of: the newest code's if several made them."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for path in log_dir.glob("*/*/seed-*.json"):
        kept = json.loads(path.read_text())
        plan = {k: v for k, v in kept["plan"].items() if k not in ("code", "finished")}
        groups[json.dumps(plan, sort_keys=True)][kept["plan"]["code"]].append(kept)
    points = []
    for told, versions in groups.items():
        plan = Plan(**json.loads(told))
        code, newest = max(
            versions.items(), key=lambda item: max(kept["plan"]["finished"] for kept in item[1])
        )
        means = [kept["run"]["mean"] for kept in newest]
        points.append(
            Point(
                plan.algorithm,
                short_name(plan.env_id),
                plan.total_timesteps,
                len(means),
                float(np.median([kept["run"]["numbers"] for kept in newest])),
                interquartile_mean(means),
                *bootstrap_interval(means),
                code == code_version(plan.algorithm),
            )
        )
    return sorted(points, key=lambda point: (point.env_id, point.algorithm, point.numbers))


def number_axis(axes: Axes) -> None:
    """A logarithmic x axis with plain numbers on it, and a light frame."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_task(axes: Axes, task: Task, points: list[Point]) -> None:
    """One panel: IQM of the return, with its interval, against numbers stored."""
    for algorithm, (colour, marker) in LOOKS.items():
        mine = [point for point in points if point.algorithm == algorithm]
        if not mine:
            continue
        iqm = np.array([point.iqm for point in mine])
        spread = np.abs(np.array([(p.low, p.high) for p in mine]).T - iqm)
        ours = algorithm == "TwoTimescaleQ"
        axes.errorbar(
            [point.numbers for point in mine],
            iqm,
            spread,
            fmt=marker + ":",
            color=colour,
            ms=8 if ours else 6,
            lw=1.2,
            capsize=2.5,
            label=f"{algorithm} (ours)" if ours else algorithm,
            zorder=4 if ours else 3,
        )
    axes.axhline(task.aim, color="#888888", lw=0.9, ls="--", zorder=1)
    axes.axhline(task.reach, color="#888888", lw=0.9, ls=":", zorder=1)
    for y, word in ((task.aim, f"aim {task.aim:g}"), (task.reach, f"reach {task.reach:g}")):
        axes.annotate(
            word, (1, y), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", fontsize=7, color="#666666",
        )  # fmt: skip
    axes.margins(x=0.2, y=0.15)
    number_axis(axes)
    axes.set_title(f"{task.name}, {task.steps:,} steps", fontsize=10)


def draw_points(points: list[Point]) -> Figure:
    """A panel for each task that there are points of, at the steps of the task."""
    shown = {}
    for task in TASKS:
        found = [p for p in points if p.env_id == task.name and p.steps == task.steps]
        if found:
            shown[task] = found
    columns = 3 if len(shown) > 4 else min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure, panels = plt.subplots(
        rows,
        columns,
        figsize=(3.9 * columns + 0.4, 3.2 * rows + 0.7),
        squeeze=False,
        layout="constrained",
    )
    labels: dict[str, Any] = {}
    for axes, (task, found) in zip(panels.flat, shown.items(), strict=False):
        draw_task(axes, task, found)
        handles, names = axes.get_legend_handles_labels()
        labels |= dict(zip(names, handles, strict=True))
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
    for row in panels:
        row[0].set_ylabel("return, IQM over seeds")
    for axes in panels.flat[max(len(shown) - columns, 0) : len(shown)]:
        axes.set_xlabel("numbers stored to act")
    figure.legend(
        labels.values(),
        labels.keys(),
        loc="outside lower center",
        ncols=min(len(labels), 3 * columns - 1),
        frameon=False,
        fontsize=8,
    )
    return figure


def draw_kept(log_dir: Path, path: Path, console: Console) -> None:
    """Picture and table of the kept runs, with 95 % bootstrap intervals of the IQM."""
    points = read_kept(log_dir)
    tasks = {(task.name, task.steps) for task in TASKS}
    points = [point for point in points if (point.env_id, point.steps) in tasks]
    if not points:
        console.print(f"No runs of the table's tasks are kept under {log_dir}. To make some:")
        console.print("  python scripts/benchmark.py agent", highlight=False)
        return
    table = Table(title="Return against numbers stored", title_justify="left")
    for i, name in enumerate(("task", "algorithm", "numbers", "IQM", "95 % interval", "seeds", "")):
        table.add_column(name, justify="right" if i > 1 else "left")
    for task in TASKS:
        for point in points:
            if point.env_id == task.name:
                table.add_row(
                    task.name,
                    point.algorithm,
                    f"{point.numbers:,.0f}",
                    f"{point.iqm:.1f}",
                    f"{point.low:.1f} to {point.high:.1f}",
                    str(point.seeds),
                    "" if point.current else "older code",
                )
    console.print(table)
    figure = draw_points(points)
    for suffix in (".png", ".pdf"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
    plt.close(figure)
    console.print(f"The picture is {path.with_suffix('.png')} (and .pdf).", highlight=False)
