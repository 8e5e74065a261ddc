"""The pictures of a comparison: learning curves, scores over all tasks, performance profiles."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.comparison import Array, Entry, Field, algorithms_of, is_ours, pooled, title_of
from benchmarks.plans import RANDOM
from benchmarks.tasks import short_name
from common.measuring import interquartile_mean, interval, performance_profile
from common.pictures import make_panels, plain_log_axis, small_frame
from oda_rl.inspect.table import counted

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
    "SAC": ("#56b4e9", "X"),
    "DQN-SAC": ("#56b4e9", "X"),
    "ours": ("#0072b2", "o"),
    RANDOM: ("#999999", "."),
}
ZOO_SUFFIX = "-zoo"


def style_of(algorithm: str) -> dict[str, Any]:
    """Style of an algorithm's line; our lines are broad and behind the others, so that all are seen."""
    colour, marker = LOOKS[algorithm.removesuffix(ZOO_SUFFIX)]
    ours = is_ours(algorithm)
    return {
        "color": colour,
        "marker": marker,
        "ls": "--" if algorithm.endswith(ZOO_SUFFIX) else "-",
        "ms": 6 if ours else 5,
        "lw": 3.2 if ours else 1.4,
        "zorder": 2.5 if ours else 3,
        "label": title_of(algorithm),
    }


def draw_curve(axes: Axes, entry: Entry, x: Array) -> None:
    """Draw the IQM of the evaluations, with a band for its interval."""
    curves = entry.curves("curve")
    low, high = interval([curves])
    colour = style_of(entry.algorithm)["color"]
    axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    every = max(1, len(x) // 8)
    axes.plot(x, interquartile_mean(curves, axis=0), markevery=every, **style_of(entry.algorithm))


def mark_threshold(axes: Axes, one: Field) -> None:
    """Draw a dashed line at the return that counts as solved."""
    if np.isfinite(one.threshold):
        axes.axhline(one.threshold, color=GREY, lw=0.9, ls="--", zorder=1)
        axes.annotate(
            f"solved: {one.threshold:g}", (0, one.threshold), (4, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="left", va="bottom", fontsize=7, color="#444444", zorder=5,
            bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0},
        )  # fmt: skip


def thousands_axis(axes: Axes) -> None:
    """Write the numbers on the x axis in thousands."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:,g}k" if x else "0"))


def draw_steps(axes: Axes, one: Field) -> None:
    """Return against environment steps."""
    for entry in one.entries:
        draw_curve(axes, entry, entry.curves("steps")[0])
    mark_threshold(axes, one)
    axes.set_xlim(left=0)
    thousands_axis(axes)
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
    margin = 0.04 * (max(ends) - min(ends) or max(1.0, abs(max(ends))))
    tau = np.linspace(min(ends) - margin, max(ends) + margin, 400)
    for algorithm, strata in scores.items():
        profile, low, high = performance_profile(strata, tau)
        axes.fill_between(tau, low, high, color=style_of(algorithm)["color"], alpha=0.1, lw=0)
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
        style = style_of(algorithm)
        axes.plot([low, high], [y, y], color=style["color"], lw=7, alpha=0.3, solid_capstyle="butt")
        axes.plot(iqm, y, style["marker"], color=style["color"], ms=8)
    for x, style in ((0.0, ":"), (1.0, "--")):
        axes.axvline(x, color=GREY, lw=0.9, ls=style, zorder=1)
    axes.set_yticks(range(len(algorithms)), [title_of(name) for name in reversed(algorithms)])
    axes.set_ylim(-0.6, len(algorithms) - 0.4)
    full = "the threshold" if np.isnan(fields[0].best) else "the best return known"
    axes.set_xlabel(f"IQM of normalised scores: 0 is a random agent, 1 {full}", fontsize=9)


def draw_comparison(fields: Sequence[Field]) -> Figure:
    """Draw a row of three panels for each environment, and one for all of them if there are several."""
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
        title = f"{one.env_id}: IQM of {counted(seeds, 'seed')}, 95 % interval"
        steps.set_title(title, fontsize=10, loc="left")
        seconds.set_title(f"{one.env_id}: the same against time", fontsize=10, loc="left")
        profile.set_title(f"{one.env_id}: performance profile", fontsize=10, loc="left")
        small_frame(steps, seconds, profile)
    if len(fields) > 1:
        _draw_all(figure, grid, fields)
    _add_legend(figure, fields)
    return figure


def draw_summary(fields: Sequence[Field]) -> Figure:
    """IQM of the scores over all tasks, and performance profiles."""
    figure = plt.figure(figsize=(13, 4.6), layout="constrained")
    _draw_all(figure, figure.add_gridspec(1, 3), fields)
    _add_legend(figure, fields)
    return figure


def draw_curves(fields: Sequence[Field], x: str, columns: int = 6) -> Figure:
    """A small panel for each task: return against "steps" or "curve_seconds"."""
    figure, panels = make_panels(len(fields), columns, 2.7, 2.1)
    for axes, one in zip(panels, fields, strict=True):
        for entry in one.entries:
            if entry.curves("steps").size > 0:
                draw_curve(axes, entry, np.median(entry.curves(x), axis=0))
        for y, style in ((one.random_return, ":"), (one.best, "--")):
            axes.axhline(y, color=GREY, lw=0.9, ls=style, zorder=1)
        if x == "steps":
            thousands_axis(axes)
        else:
            plain_log_axis(axes, ",g")
        axes.set_title(short_name(one.env_id), fontsize=8)
        small_frame(axes)
        axes.tick_params(labelsize=6)
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
    small_frame(left, right)


def _add_legend(figure: Figure, fields: Sequence[Field]) -> None:
    lines = [plt.Line2D([], [], **style_of(name)) for name in algorithms_of(fields)]
    figure.legend(
        handles=lines, loc="outside lower center", ncols=min(len(lines), 7), frameon=False, fontsize=9
    )
