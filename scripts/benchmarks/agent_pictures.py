"""The pictures of agents: return against numbers stored, and the curves of a comparison."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from rich.console import Console

from benchmarks.comparison import Array, Entry, Field, algorithms_of, pooled, title_of
from benchmarks.plans import OURS, TASKS, Plan, Task, code_version, short_name
from common.measuring import interquartile_mean, interval, performance_profile
from common.pictures import hide_others, light_frame, plain_log_axis, save
from common.tables import show_table

GREY = "#888888"
# Colour and marker
LOOKS = {
    "TwoTimescaleQ": ("#0072b2", "o"),
    "TwoTimescaleAC": ("#117733", "h"),
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
                float(interquartile_mean(means)),
                *interval([means]),
                code == code_version(plan.algorithm),
            )
        )
    return sorted(points, key=lambda point: (point.env_id, point.algorithm, point.numbers))


def number_axis(axes: Axes) -> None:
    """A logarithmic x axis with plain numbers on it, and a light frame."""
    plain_log_axis(axes)
    _frame(axes)


def draw_task(axes: Axes, task: Task, points: list[Point]) -> None:
    """One panel: IQM of the return, with its interval, against numbers stored."""
    for algorithm, (colour, marker) in LOOKS.items():
        mine = [point for point in points if point.algorithm == algorithm]
        if not mine:
            continue
        iqm = np.array([point.iqm for point in mine])
        spread = np.abs(np.array([(p.low, p.high) for p in mine]).T - iqm)
        ours = algorithm in OURS
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
    axes.axhline(task.aim, color=GREY, lw=0.9, ls="--", zorder=1)
    axes.axhline(task.reach, color=GREY, lw=0.9, ls=":", zorder=1)
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
    hide_others(panels.flat[len(shown) :])
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
    rows = [
        [
            *(point.env_id, point.algorithm, f"{point.numbers:,.0f}", f"{point.iqm:.1f}"),
            *(f"{point.low:.1f} to {point.high:.1f}", str(point.seeds)),
            "" if point.current else "older code",
        ]
        for task in TASKS
        for point in points
        if point.env_id == task.name
    ]
    columns = ("task", "algorithm", "numbers", "IQM", "95 % interval", "seeds", "")
    show_table(console, "Return against numbers stored", columns, rows, left=2)
    figure = draw_points(points)
    figure.savefig(path.with_suffix(".pdf"))
    save(figure, path.with_suffix(".png"))
    console.print(f"The picture is {path.with_suffix('.png')} (and .pdf).", highlight=False)


# -- a comparison ------------------------------------------------------------------------------------


def style_of(algorithm: str) -> dict[str, Any]:
    """Colour, marker and weight of a line; ours is broad and behind the others, so that all are seen."""
    colour, marker = LOOKS[algorithm]
    ours = algorithm in OURS
    return {
        "color": colour,
        "marker": marker,
        "ms": 6 if ours else 5,
        "lw": 3.2 if ours else 1.4,
        "zorder": 2.5 if ours else 3,
        "label": title_of(algorithm),
    }


def draw_curve(axes: Axes, entry: Entry, x: Array) -> None:
    """IQM of the evaluations, and a band with its interval."""
    curves = entry.curves("curve")
    low, high = interval([curves])
    colour = LOOKS[entry.algorithm][0]
    axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    every = max(1, len(x) // 8)
    axes.plot(x, interquartile_mean(curves, axis=0), markevery=every, **style_of(entry.algorithm))


def mark_threshold(axes: Axes, one: Field) -> None:
    """A dashed line at the return that counts as solved."""
    if np.isfinite(one.threshold):
        axes.axhline(one.threshold, color=GREY, lw=0.9, ls="--", zorder=1)
        axes.annotate(
            f"solved: {one.threshold:g}", (0, one.threshold), (4, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="left", va="bottom", fontsize=7, color="#444444", zorder=5,
            bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0},
        )  # fmt: skip


def draw_steps(axes: Axes, one: Field) -> None:
    """Return against environment steps."""
    for entry in one.entries:
        draw_curve(axes, entry, entry.curves("steps")[0])
    mark_threshold(axes, one)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:,g}k" if x else "0"))
    axes.set_xlabel("environment steps", fontsize=9)
    axes.set_ylabel("return of greedy episodes", fontsize=9)


def draw_seconds(axes: Axes, one: Field) -> None:
    """Return against the seconds that the training took, on a logarithmic axis."""
    for entry in one.entries:
        draw_curve(axes, entry, np.median(entry.curves("curve_seconds"), axis=0))
    mark_threshold(axes, one)
    plain_log_axis(axes, ",g")
    axes.set_xlabel("seconds of training, one core (median over seeds)", fontsize=9)


def draw_profile(axes: Axes, scores: dict[str, list[Array]], solved: float, what: str) -> None:
    """Fraction of the runs above each score, with its interval."""
    together = np.concatenate([part for strata in scores.values() for part in strata])
    ends = [*together, solved] if np.isfinite(solved) else [*together]
    margin = 0.04 * (max(ends) - min(ends) or 1.0)
    tau = np.linspace(min(ends) - margin, max(ends) + margin, 400)
    for algorithm, strata in scores.items():
        profile, low, high = performance_profile(strata, tau)
        axes.fill_between(tau, low, high, color=LOOKS[algorithm][0], alpha=0.1, lw=0)
        axes.plot(tau, profile, **{**style_of(algorithm), "marker": ""})
    if np.isfinite(solved):
        axes.axvline(solved, color=GREY, lw=0.9, ls="--", zorder=1)
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel(what, fontsize=9)
    axes.set_ylabel("fraction of runs with more", fontsize=9)


def draw_scores(axes: Axes, fields: Sequence[Field]) -> None:
    """IQM of the normalised scores over all environments, with intervals."""
    algorithms = algorithms_of(fields)
    for y, algorithm in enumerate(reversed(algorithms)):
        strata = pooled(fields, algorithm)
        iqm = interquartile_mean(np.concatenate(strata))
        low, high = interval(strata)
        colour, marker = LOOKS[algorithm]
        axes.plot([low, high], [y, y], color=colour, lw=7, alpha=0.3, solid_capstyle="butt")
        axes.plot(iqm, y, marker, color=colour, ms=8)
    for x, style in ((0.0, ":"), (1.0, "--")):
        axes.axvline(x, color=GREY, lw=0.9, ls=style, zorder=1)
    axes.set_yticks(range(len(algorithms)), [title_of(name) for name in reversed(algorithms)])
    axes.set_ylim(-0.6, len(algorithms) - 0.4)
    axes.set_xlabel("IQM of normalised scores: 0 is a random agent, 1 the threshold", fontsize=9)


def draw_comparison(fields: Sequence[Field]) -> Figure:
    """A row of three panels for each environment, and one for all together if there are several."""
    rows = len(fields) + (len(fields) > 1)
    figure = plt.figure(figsize=(13, 3.5 * rows + 0.6), layout="constrained")
    grid = figure.add_gridspec(rows, 3, width_ratios=(1.0, 1.0, 0.85))
    for i, one in enumerate(fields):
        steps = figure.add_subplot(grid[i, 0])
        seconds = figure.add_subplot(grid[i, 1], sharey=steps)
        profile = figure.add_subplot(grid[i, 2])
        draw_steps(steps, one)
        draw_seconds(seconds, one)
        scores = {entry.algorithm: [entry.returns] for entry in one.entries}
        draw_profile(profile, scores, one.threshold, "return of the last policy")
        seeds = max(len(entry.runs) for entry in one.entries)
        steps.set_title(f"{one.env_id}: IQM of {seeds} seeds, 95 % interval", fontsize=10, loc="left")
        seconds.set_title(f"{one.env_id}: the same against time", fontsize=10, loc="left")
        profile.set_title(f"{one.env_id}: performance profile", fontsize=10, loc="left")
        _frame(steps, seconds, profile)
    if len(fields) > 1:
        _draw_all(figure, grid, fields)
    _add_legend(figure, fields)
    return figure


def _draw_all(figure: Figure, grid: plt.GridSpec, fields: Sequence[Field]) -> None:
    left = figure.add_subplot(grid[-1, :2])
    right = figure.add_subplot(grid[-1, 2])
    draw_scores(left, fields)
    scores = {algorithm: pooled(fields, algorithm) for algorithm in algorithms_of(fields)}
    draw_profile(right, scores, 1.0, "normalised score of the last policy")
    left.set_title("All environments", fontsize=10, loc="left")
    right.set_title("All environments: performance profile", fontsize=10, loc="left")
    _frame(left, right)


def _frame(*panels: Axes) -> None:
    light_frame(*panels)
    for axes in panels:
        axes.tick_params(labelsize=8)


def _add_legend(figure: Figure, fields: Sequence[Field]) -> None:
    lines = [plt.Line2D([], [], **style_of(name)) for name in algorithms_of(fields)]
    figure.legend(
        handles=lines, loc="outside lower center", ncols=min(len(lines), 7), frameon=False, fontsize=9
    )
