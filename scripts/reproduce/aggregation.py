"""Reproduce the paper's figure on state aggregation: timesteps balanced against aggregate states.

python scripts/reproduce/aggregation.py
python scripts/reproduce/aggregation.py --full
python scripts/reproduce/aggregation.py --readings

Fig. 5 of "Annealing Optimization for Progressive Learning with Stochastic Approximation": the cart-pole
with friction, N_t = 1000. All methods learn for the same number of steps: Q-learning on a uniform grid
with 2 to 5 bins for each of the four coordinates; Q-learning on a self-organising map of as many cells;
TwoTimescaleQ with several minimum temperatures, and with few cells; `TwoTimescaleQ.papers`, which lacks
what the paper does not have, with the K of the paper; and Algorithm 2 line by line, with one more of the
choices that the paper leaves open in each row. The measure is the average number of timesteps over
greedy episodes of each seed's last policy: its IQM over seeds, with a 95 % bootstrap interval. As cells
of different methods hold different amounts, it is also drawn against the numbers stored to act. Writes a
picture and a table into `--out`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.ending import run_and_exit

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.literal_q import BOUNDS, READINGS, Choices, run
from benchmarks.plans import Plan, refuse
from benchmarks.runs import INTERRUPTED, carry_out
from benchmarks.training import Run
from common import ending
from common.arguments import Count, Positive, open_out, real
from common.measuring import interquartile_mean, interval
from common.pictures import number_axis, write_down
from common.tables import make_console, print_line, to_markdown
from common.workers import Where, call_all
from oda_rl.agents.baselines import preset
from oda_rl.agents.sb3.agents import AS_PRINTED

ENV_ID = "oda_rl/CartPoleFriction-v0"
N_T = 1000
OURS, LIMITED, PRINTED = "TwoTimescaleQ", "TwoTimescaleQ of few cells", "TwoTimescaleQ.papers"
LITERAL = "Algorithm 2"
Method = Literal[
    "UniformGridQ",
    "SOMQ",
    "TwoTimescaleQ",
    "TwoTimescaleQ of few cells",
    "TwoTimescaleQ.papers",
    "Algorithm 2",
]
# Title, colour and marker of each method
METHODS: dict[Method, tuple[str, str, str]] = {
    "UniformGridQ": ("uniform grid", "#555555", "s"),
    "SOMQ": ("SOM", "#0072b2", "D"),
    OURS: ("ODA (ours), by T_min", "#d62728", "o"),
    LIMITED: ("ODA (ours), by K_max", "#e69f00", "^"),
    PRINTED: ("TwoTimescaleQ.papers, by K_max", "#009e73", "v"),
    LITERAL: ("Algorithm 2, line by line", "#cc79a7", "x"),
}

AS_IT_STANDS = Choices()
SCALED = replace(AS_IT_STANDS, units="deviations")
ANNEALED = replace(SCALED, annealed_first=True)
CHOICES = {
    "as printed": AS_IT_STANDS,
    "and states scaled": SCALED,
    "and annealed first": ANNEALED,
    "and a low first T, alpha from .03, actions held": replace(
        ANNEALED, least_alpha=0.03, hold=10, t_max=0.1, t_min=0.03
    ),
}


@dataclass
class Args(Where):
    """Reproduce the paper's figure on state aggregation (Fig. 5): timesteps against aggregate states."""

    out: Path = Path("logs/aggregation")
    """Folder of the picture, the table and the runs."""
    full: bool = False
    """Use seeds 0 to 9, 300,000 steps and 50 evaluation episodes instead of the options below."""
    readings: bool = False
    """Only run Algorithm 2 line by line, in many readings of what the paper leaves open."""
    total_timesteps: Positive = 100_000
    """Environment steps of each run, the same for all methods."""
    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds to run."""
    bins: tuple[Positive, ...] = (2, 3, 4, 5)
    """Bins of each coordinate for the uniform grid; the SOM has as many cells."""
    t_min: tuple[Annotated[float, real(0.0, is_excluded=True, most=1.0)], ...] = (
        0.1,
        0.06,
        0.04,
        0.01,
        0.003,
    )
    """Minimum temperatures of our agent, as fractions of the first critical one."""
    max_cells: Positive = 625
    """Largest number of cells of our agent: so many that the minimum temperature decides."""
    few_cells: tuple[Positive, ...] = (2, 7, 10, 27)
    """Cell limits of a second series of our agent, whose annealing continues at the limit."""
    printed_cells: tuple[Positive, ...] = (56, 118, 136, 202, 252)
    """Largest numbers of cells of `TwoTimescaleQ.papers`: the K of the paper's five runs."""
    methods: tuple[Method, ...] = tuple(METHODS)
    """Series to compare."""
    eval_episodes: Positive = 20
    """Greedy episodes of the evaluation at the end."""
    fresh: bool = False
    """Make all runs again, even those that the same code has already made."""


class Result(NamedTuple):
    """The results of one setting of a method, over all seeds."""

    method: Method
    setting: str
    cells: float
    numbers: float
    timesteps: float
    low: float
    high: float
    worst: float
    seeds: int


def make_settings(args: Args, method: Method) -> list[tuple[str, dict[str, Any]]]:
    """The settings of a method, each a name and options."""
    if method == OURS:
        grown = {"max_cells": args.max_cells}
        return [(f"T_min {t:g}", {"min_temperature": t, **grown}) for t in args.t_min]
    if method == LIMITED:
        return [(f"K_max {k}", {"max_cells": k}) for k in args.few_cells]
    if method == PRINTED:
        cells = ({"max_cells": k, "growth_cells": k} for k in args.printed_cells)
        return [(f"K_max {own['max_cells']}", AS_PRINTED | own) for own in cells]
    # Grid and SOM do worse with the bounds of the space, or those of the paper. Ours is given no range.
    limits = {"observation_low": (-BOUNDS).tolist(), "observation_high": BOUNDS.tolist()}
    options = {**limits, **preset(method, ENV_ID)}
    name = "bins" if method == "UniformGridQ" else "n_cells"
    return [(f"{n}^4", {**options, name: [n] * 4}) for n in args.bins]


def to_result(method: Method, setting: str, runs: list[Run]) -> Result:
    """Summarise the runs of one setting."""
    means = [run["mean"] for run in runs]
    return Result(
        method,
        setting,
        float(np.median([run["cells"] for run in runs])),
        float(np.median([run["numbers"] for run in runs])),
        float(interquartile_mean(means)),
        *interval([means]),
        min(means),
        len(runs),
    )


def make_plans(args: Args, console: Console) -> dict[tuple[Method, str], Plan]:
    """Make a plan for each setting of each method that can run."""
    plans = {}
    for method in (name for name in args.methods if name != LITERAL):
        for setting, options in make_settings(args, method):
            steps = args.total_timesteps
            agent = OURS if method in (LIMITED, PRINTED) else method
            plan = Plan(agent, ENV_ID, steps, steps, args.eval_episodes, options, curve_episodes=1)
            reason = refuse(plan)
            if reason:
                print_line(console, f"{METHODS[method][0]} is left out: {reason}")
                break
            plans[method, setting] = plan
    return plans


def run_literal(args: Args, choices: dict[str, Choices]) -> list[Result]:
    """Run Algorithm 2 line by line, with each of the choices."""
    options = (ENV_ID, args.total_timesteps, args.eval_episodes)
    work = {
        (name, s): partial(run, made, *options, s) for name, made in choices.items() for s in args.seeds
    }
    found = call_all(args, work)
    return [to_result(LITERAL, name, [found[name, s] for s in args.seeds]) for name in choices]


def run_all(args: Args, console: Console) -> tuple[list[Result], bool]:
    """Run all settings of all methods.

    Returns the results, after Ctrl-C those of the runs so far, and whether it was pressed.
    """
    plans = make_plans(args, console)
    made = carry_out(
        *(list(plans.values()), args.seeds, args.out / "runs", console, args, args.fresh), say_runs=True
    )
    results = [to_result(*key, runs) for key, runs in zip(plans, made.runs, strict=True) if runs]
    if made.interrupted:
        console.print(INTERRUPTED)
    elif LITERAL in args.methods:
        results += run_literal(args, CHOICES)
    return results, made.interrupted


def draw_panel(axes: Axes, results: list[Result], against: str) -> None:
    """Draw average timesteps against `cells` or `numbers`, with intervals."""
    for method, (title, colour, marker) in METHODS.items():
        mine = [result for result in results if result.method == method]
        if not mine:
            continue
        mine.sort(key=lambda result: getattr(result, against))
        y = np.array([result.timesteps for result in mine])
        x = [getattr(result, against) for result in mine]
        axes.fill_between(
            x, [r.low for r in mine], [r.high for r in mine], color=colour, alpha=0.15, lw=0
        )
        axes.plot(x, y, f"{marker}-", color=colour, ms=5, lw=1.3, label=title)
    axes.axhline(N_T, color="#888888", lw=0.8, ls="--", zorder=1)
    number_axis(axes)
    axes.set_ylim(0, 1.06 * N_T)
    axes.set_xlabel("aggregate states K" if against == "cells" else "numbers stored to act")


def draw(results: list[Result], steps: int) -> Figure:
    """Draw both panels."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), sharey=True, layout="constrained")
    draw_panel(left, results, "cells")
    draw_panel(right, results, "numbers")
    left.set_ylabel(f"average timesteps of {N_T}, IQM over seeds")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.suptitle(f"Cart-pole with friction, {steps:,} steps; bands: 95 % bootstrap", fontsize=10)
    return figure


def table_of(results: list[Result]) -> str:
    """All results, as Markdown."""
    rows = [
        [
            *(METHODS[r.method][0], r.setting, f"{r.cells:.0f}", f"{r.numbers:,.0f}"),
            *(f"{r.timesteps:.1f}", f"{r.low:.1f} to {r.high:.1f}", f"{r.worst:.1f}", str(r.seeds)),
        ]
        for r in results
    ]
    columns = ("method", "setting", "K", "numbers", "average timesteps", "95 % interval", "worst seed")
    return to_markdown((*columns, "seeds"), rows, left=2)


def main(args: Args) -> int:
    """Run everything, and write the results; returns the exit code."""
    open_out(args)
    console = make_console()
    if args.full:
        args.total_timesteps, args.seeds, args.eval_episodes = 300_000, tuple(range(10)), 50
    if args.readings:
        table = table_of(run_literal(args, READINGS))
        (args.out / "readings.md").write_text(table, encoding="utf-8")
        print_line(console, table)
        return 0
    results, is_interrupted = run_all(args, console)
    code = ending.INTERRUPTED if is_interrupted else 0
    if not results:
        console.print("Nothing has been run.")
        return code
    pictures = {"timesteps": draw(results, args.total_timesteps)}
    write_down(args.out, pictures, table_of(results))
    return code


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
