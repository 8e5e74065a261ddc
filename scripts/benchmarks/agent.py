"""Agents over tasks and seeds: the table of returns, with what is to be reached."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.picture import draw_kept
from benchmarks.plans import OURS, Algorithm, Plan, find_options, refuse
from benchmarks.runs import carry_out, write_csv
from benchmarks.statistics import first_pass_and_hold, interquartile_mean
from benchmarks.tasks import DEFAULT_STEPS, TASKS, Task, find_task, find_threshold, short_name
from benchmarks.training import Run
from oda_rl.agents import TwoTimescaleConfig


@dataclass
class Agent:
    """Train with several seeds, on all tasks or one; evaluate the last greedy policy, not the best."""

    env_id: str | None = None
    """One environment, with a line for each seed; all tasks of the table if not given."""
    algorithm: Algorithm = "TwoTimescaleQ"
    """Ours, a baseline with its preset for the task, or one of SB3's with RL Zoo's hyperparameters."""
    total_timesteps: int | None = None
    """Environment steps of each run; the task's own if not given (200,000 for other environments)."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds to run. The defaults of the agent were chosen on seeds 100 to 115."""
    threshold: float | None = None
    """Return that counts as solved; the environment's own if not given."""
    preset: bool = False
    """For ours: the options that `presets.py` has for the environment, whatever the flags below say."""
    eval_freq: int = 5_000
    """Steps between evaluations of 20 greedy episodes."""
    eval_episodes: int = 100
    """Greedy episodes at the end."""
    jobs: int = 2
    """Processes."""
    log_dir: Path = Path("logs/benchmark")
    """Every run is kept here when it ends, and not made again by the same code with the same options."""
    fresh: bool = False
    """Make the runs again, whatever is kept."""
    plot: bool = False
    """Draw return against numbers stored, of all algorithms whose runs are kept; run nothing."""
    agent: Annotated[TwoTimescaleConfig, tyro.conf.arg(name="")] = field(
        default_factory=TwoTimescaleConfig
    )


@dataclass
class Outcome:
    """What is told of the runs of one plan."""

    plan: Plan
    runs: list[Run]
    threshold: float

    def passes(self) -> list[tuple[float, float]]:
        """Steps to the first pass (infinite for none) and hold, of each run."""
        found = []
        for run in self.runs:
            first, hold = first_pass_and_hold(run["curve"], self.threshold)
            found.append((np.inf if first is None else run["steps"][first], hold))
        return found

    def values(self, name: str) -> np.ndarray:
        """One number of every run."""
        return np.array([run[name] for run in self.runs])


def make_plan(args: Agent, env_id: str) -> Plan:
    """What is to be run for one environment."""
    task = find_task(env_id)
    steps = args.total_timesteps or (task.steps if task else DEFAULT_STEPS)
    options = find_options(args.algorithm, env_id)
    if args.algorithm == OURS:
        chosen = TwoTimescaleConfig(**options) if args.preset else args.agent
        options = chosen.to_dict()
    return Plan(args.algorithm, env_id, steps, args.eval_freq, args.eval_episodes, options)


def steps_text(steps: float) -> str:
    """Steps to the first pass, or a dash."""
    return f"{steps:,.0f}" if np.isfinite(steps) else "-"


def yes(reached: bool) -> str:
    """A word that stands out."""
    return "[green]yes[/]" if reached else "[red]no[/]"


def make_table(title: str, *columns: str) -> Table:
    """A table with its first column to the left and the rest to the right."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i else "left")
    return table


def show_seeds(outcome: Outcome, console: Console) -> None:
    """The table of one task: a line for each seed."""
    plan = outcome.plan
    title = f"{plan.algorithm} on {plan.env_id}, {plan.total_timesteps:,} steps"
    table = make_table(
        title, "seed", "return", "sd", "cells", "numbers", "seconds", "first pass", "hold"
    )
    passes = outcome.passes()
    for run, (first, hold) in zip(outcome.runs, passes, strict=True):
        table.add_row(
            str(run["seed"]),
            f"{run['mean']:.1f}",
            f"{run['sd']:.1f}",
            str(run["cells"] or "-"),
            f"{run['numbers']:,}",
            f"{run['seconds']:.1f}",
            steps_text(first),
            f"{hold:.2f}",
        )
    table.add_section()
    table.add_row(
        "IQM",
        f"{interquartile_mean(outcome.values('mean')):.1f}",
        "",
        f"{np.median(outcome.values('cells')):.0f}",
        f"{np.median(outcome.values('numbers')):,.0f}",
        f"{np.median(outcome.values('seconds')):.1f}",
        steps_text(float(np.median([first for first, _ in passes]))),
        f"{np.median([hold for _, hold in passes]):.2f}",
    )
    console.print(table)
    console.print(
        "return: mean of the greedy episodes with the last policy. seconds: without evaluations. "
        f"first pass: steps to the first evaluation at {outcome.threshold}; hold: the share of the "
        "evaluations from there on that stay at it. The last row: IQM of the returns, else medians."
    )


def show_returns(done: list[tuple[Task, Outcome]], title: str, console: Console) -> None:
    """Returns of all tasks, against what is to be reached and the best peer."""
    table = make_table(title, "task", "IQM", "worst", "reach", "", "aim (best peer)", "")
    for task, outcome in done:
        means = outcome.values("mean")
        iqm, worst = interquartile_mean(means), float(means.min())
        counts = worst if task.reach_by == "every seed" else iqm
        table.add_row(
            task.name,
            f"{iqm:.1f}",
            f"{worst:.1f}",
            f"{task.reach_by} {task.reach:g}",
            yes(counts >= task.reach),
            f"{task.aim:g} ({task.peer})",
            yes(iqm >= task.aim),
        )
    console.print(table)


def show_costs(done: list[tuple[Task, Outcome]], console: Console) -> None:
    """What the returns of all tasks cost."""
    table = make_table(
        "What they took: medians over seeds",
        *("task", "steps", "first pass", "hold", "cells", "at most", "", "numbers", "seconds"),
    )
    for task, outcome in done:
        passes = outcome.passes()
        cells = int(outcome.values("cells").max())
        ours = outcome.plan.algorithm == OURS
        table.add_row(
            task.name,
            f"{outcome.plan.total_timesteps:,}",
            steps_text(float(np.median([first for first, _ in passes]))),
            f"{np.median([hold for _, hold in passes]):.2f}",
            f"{cells:,}" if cells else "-",
            f"{task.cells}" if ours else "",
            yes(cells <= task.cells) if ours else "",
            f"{np.median(outcome.values('numbers')):,.0f}",
            f"{np.median(outcome.values('seconds')):.1f}",
        )
    console.print(table)
    console.print(
        "IQM and worst: over seeds, of the means of greedy episodes with the last policy. first pass: "
        "steps to the first evaluation at Gymnasium's threshold (if it has none, reach); hold: the "
        "share of evaluations from there on that stay at it. cells: the largest of all seeds. seconds: "
        "without evaluations."
    )


def tell_where(args: Agent, outcomes: list[Outcome], interrupted: bool, console: Console) -> None:
    """Where the results are, and what to type next."""
    path = args.log_dir / f"{args.algorithm}.csv"
    if outcomes:
        rows = [(outcome.plan, run) for outcome in outcomes for run in outcome.runs]
        write_csv(path, rows)
    if interrupted:
        console.print("Interrupted. The same command makes only the runs that are missing.")
    kept = f"Every run is kept under {args.log_dir}"
    console.print(f"{kept}, a summary in {path}." if outcomes else f"{kept}.", highlight=False)
    console.print("To compare: --algorithm, then the picture of all that is kept:", highlight=False)
    console.print("  python scripts/benchmark.py agent --plot", highlight=False)


def run_agent(args: Agent, console: Console) -> None:
    """The tables of `benchmark.py agent`."""
    args.log_dir.mkdir(parents=True, exist_ok=True)
    if args.plot:
        draw_kept(args.log_dir, args.log_dir / "return_by_numbers", console)
        return
    outcomes, skipped = [], []
    for env_id in (args.env_id,) if args.env_id else tuple(task.env_id for task in TASKS):
        plan = make_plan(args, env_id)
        reason = refuse(plan)
        if reason:
            skipped.append(f"{short_name(env_id)} is left out: {reason}")
            continue
        made = carry_out([plan], args.seeds, args.log_dir, console, args.jobs, args.fresh)
        runs, interrupted = made.runs[0], made.interrupted
        threshold = find_threshold(env_id) if args.threshold is None else args.threshold
        if runs:
            outcomes.append(Outcome(plan, runs, threshold))
        if interrupted:
            break
    else:
        interrupted = False
    if args.env_id:
        for outcome in outcomes:
            show_seeds(outcome, console)
    elif outcomes:
        done = [(task, o) for o in outcomes if (task := find_task(o.plan.env_id))]
        most = max(len(outcome.runs) for outcome in outcomes)
        show_returns(done, f"{args.algorithm}, {most} seeds", console)
        show_costs(done, console)
    for line in skipped:
        console.print(line, highlight=False)
    tell_where(args, outcomes, interrupted, console)
    if args.env_id and skipped:
        sys.exit(1)
