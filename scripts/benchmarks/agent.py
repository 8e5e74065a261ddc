"""Agents over tasks and seeds: the table of returns, with what is to be reached."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console

from benchmarks.agent_pictures import draw_kept
from benchmarks.comparison import Entry
from benchmarks.plans import (
    DEFAULT_STEPS,
    OURS,
    TASKS,
    Algorithm,
    Plan,
    Task,
    find_options,
    find_ours,
    find_task,
    find_threshold,
    refuse,
    short_name,
)
from benchmarks.runs import carry_out, write_csv
from common.tables import make_table, show_table, steps_text, yes
from oda_rl.agents import TwoTimescaleACConfig, TwoTimescaleConfig


@dataclass
class Agent:
    """Train with several seeds, on all tasks or one; evaluate the last greedy policy, not the best."""

    env_id: str | None = None
    """One environment, with a line for each seed; all tasks of the table if not given."""
    algorithm: Algorithm | None = None
    """One of ours (by default that for the kind of actions), a baseline with its preset for the task, or
    one of SB3's with RL Zoo's hyperparameters."""
    total_timesteps: int | None = None
    """Environment steps of each run; the task's own if not given (200,000 for other environments)."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds to run. The defaults of the agent were chosen on seeds 100 to 115."""
    threshold: float | None = None
    """Return that counts as solved; the environment's own if not given."""
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
    agent: Annotated[TwoTimescaleACConfig, tyro.conf.arg(name="")] = field(
        default_factory=TwoTimescaleACConfig
    )


@dataclass
class QAgent(Agent):
    """Train with several seeds, on all tasks or one; evaluate the last greedy policy, not the best."""

    agent: Annotated[TwoTimescaleConfig, tyro.conf.arg(name="")] = field(  # type: ignore[assignment]
        default_factory=TwoTimescaleConfig
    )


def make_plan(args: Agent, env_id: str) -> Plan:
    """What is to be run for one environment."""
    task = find_task(env_id)
    steps = args.total_timesteps or (task.steps if task else DEFAULT_STEPS)
    algorithm = args.algorithm or find_ours(env_id)
    options = find_options(algorithm, env_id)
    if algorithm in OURS:  # what was typed: defaults are not the same for both
        plain = type(args.agent)().to_dict()
        options |= {k: v for k, v in args.agent.to_dict().items() if v != plain[k]}
    return Plan(algorithm, env_id, steps, args.eval_freq, args.eval_episodes, options)


def show_seeds(entry: Entry, console: Console) -> None:
    """The table of one task: a line for each seed."""
    plan = entry.plan
    table = make_table(
        f"{plan.algorithm} on {plan.env_id}, {plan.total_timesteps:,} steps",
        *("seed", "return", "sd", "cells", "numbers", "seconds", "first pass", "hold"),
    )
    firsts, holds = entry.to_threshold("steps"), entry.holds()
    for run, first, hold in zip(entry.runs, firsts, holds, strict=True):
        table.add_row(
            *(str(run["seed"]), f"{run['mean']:.1f}", f"{run['sd']:.1f}", str(run["cells"] or "-")),
            *(f"{run['numbers']:,}", f"{run['seconds']:.1f}", steps_text(first), f"{hold:.2f}"),
        )
    table.add_section()
    table.add_row(
        *("IQM", f"{entry.iqm:.1f}", "", f"{entry.median('cells'):.0f}"),
        *(f"{entry.median('numbers'):,.0f}", f"{entry.median('seconds'):.1f}"),
        *(steps_text(float(np.median(firsts))), f"{np.median(holds):.2f}"),
    )
    console.print(table)
    console.print(
        "return: mean of the greedy episodes with the last policy. seconds: without evaluations. "
        f"first pass: steps to the first evaluation at {entry.threshold}; hold: the share of the "
        "evaluations from there on that stay at it. The last row: IQM of the returns, else medians."
    )


def returns_row(task: Task, entry: Entry) -> list[str]:
    """Returns on a task, against what is to be reached and the best peer."""
    iqm, worst = entry.iqm, float(entry.returns.min())
    counts = worst if task.reach_by == "every seed" else iqm
    return [
        *(task.name, f"{iqm:.1f}", f"{worst:.1f}"),
        *(f"{task.reach_by} {task.reach:g}", yes(counts >= task.reach)),
        *(f"{task.aim:g} ({task.peer})", yes(iqm >= task.aim)),
    ]


def costs_row(task: Task, entry: Entry) -> list[str]:
    """What the returns on a task cost."""
    cells, ours = int(entry.values("cells").max()), entry.algorithm in OURS
    return [
        *(task.name, f"{entry.plan.total_timesteps:,}"),
        *(steps_text(float(np.median(entry.to_threshold("steps")))), f"{np.median(entry.holds()):.2f}"),
        *(f"{cells:,}" if cells else "-", f"{task.cells}" if ours else ""),
        *(yes(cells <= task.cells) if ours else "", f"{entry.median('numbers'):,.0f}"),
        f"{entry.median('seconds'):.1f}",
    ]


def show_tasks(entries: list[Entry], console: Console) -> None:
    """The tables of all tasks."""
    done = [(task, entry) for entry in entries if (task := find_task(entry.plan.env_id))]
    most = max(len(entry.runs) for entry in entries)
    columns = ("task", "IQM", "worst", "reach", "", "aim (best peer)", "")
    rows = [returns_row(*pair) for pair in done]
    names = " and ".join(dict.fromkeys(entry.algorithm for entry in entries))
    show_table(console, f"{names}, {most} seeds", columns, rows)
    columns = ("task", "steps", "first pass", "hold", "cells", "at most", "", "numbers", "seconds")
    rows = [costs_row(*pair) for pair in done]
    show_table(console, "What they took: medians over seeds", columns, rows)
    console.print(
        "IQM and worst: over seeds, of the means of greedy episodes with the last policy. first pass: "
        "steps to the first evaluation at Gymnasium's threshold (if it has none, reach); hold: the "
        "share of evaluations from there on that stay at it. cells: the largest of all seeds. seconds: "
        "without evaluations."
    )


def tell_where(args: Agent, entries: list[Entry], interrupted: bool, console: Console) -> None:
    """Where the results are, and what to type next."""
    path = args.log_dir / f"{args.algorithm or 'agents'}.csv"
    if entries:
        rows = [(entry.plan, run) for entry in entries for run in entry.runs]
        write_csv(path, rows)
    if interrupted:
        console.print("Interrupted. The same command makes only the runs that are missing.")
    kept = f"Every run is kept under {args.log_dir}"
    console.print(f"{kept}, a summary in {path}." if entries else f"{kept}.", highlight=False)
    console.print("To compare: --algorithm, then the picture of all that is kept:", highlight=False)
    console.print("  python scripts/benchmark.py agent --plot", highlight=False)


def run_agent(args: Agent, console: Console) -> None:
    """The tables of `benchmark.py agent`."""
    args.log_dir.mkdir(parents=True, exist_ok=True)
    if args.plot:
        draw_kept(args.log_dir, args.log_dir / "return_by_numbers", console)
        return
    entries, skipped = [], []
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
            entries.append(Entry(plan, runs, threshold))
        if interrupted:
            break
    else:
        interrupted = False
    if args.env_id:
        for entry in entries:
            show_seeds(entry, console)
    elif entries:
        show_tasks(entries, console)
    for line in skipped:
        console.print(line, highlight=False)
    tell_where(args, entries, interrupted, console)
    if args.env_id and skipped:
        sys.exit(1)
