"""Training of agents on tasks with several seeds, and tables of their returns and costs."""

from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, get_args

import numpy as np
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.agent_pictures import GREY, LOOKS, style_of
from benchmarks.comparison import Entry
from benchmarks.plans import DEFAULT, OURS, Algorithm, Plan, find_options, refuse
from benchmarks.runs import INTERRUPTED, carry_out, read_newest, write_csv
from benchmarks.tasks import DEFAULT_STEPS, TASKS, Task, find_task, find_threshold, short_name
from common import ending
from common.arguments import Count, Positive, one_of
from common.measuring import interval
from common.pictures import make_panels, number_axis, save
from common.tables import make_table, plain, print_line, show_table, steps_text
from common.workers import Where
from oda_rl.agents import TwoTimescaleACConfig, TwoTimescaleConfig


@dataclass
class Agent(Where):
    """Train with several seeds, on all tasks or one; evaluate the last greedy policy, not the best."""

    env_id: str | None = None
    """One environment, with a line for each seed; all tasks of the table if not given."""
    algorithm: Annotated[str, one_of(get_args(Algorithm))] = DEFAULT
    """One of our agents, a baseline with its preset for the task, or one of SB3's agents with RL Zoo's
    hyperparameters."""
    total_timesteps: Positive | None = None
    """Environment steps of each run; those of the task if not given (200,000 for other environments)."""
    seeds: tuple[Count, ...] = tuple(range(10))
    """Seeds to run. The defaults of the agent were chosen on seeds 100 to 115."""
    threshold: float | None = None
    """Return that counts as solved; the environment's own if not given."""
    eval_freq: Positive = 5_000
    """Steps between evaluations of 20 greedy episodes."""
    eval_episodes: Positive = 100
    """Greedy episodes at the end."""
    log_dir: Path = Path("logs/benchmark")
    """Folder where every run is stored when it ends; the same code and options reuse it."""
    fresh: bool = False
    """Make all runs again, even those that are stored."""
    plot: bool = False
    """Run nothing; draw return against stored numbers, for all algorithms with stored runs."""
    agent: Annotated[TwoTimescaleACConfig, tyro.conf.arg(name="")] = field(
        default_factory=TwoTimescaleACConfig
    )


@dataclass
class QAgent(Agent):  # noqa: D101 (the same docstring)
    __doc__ = Agent.__doc__

    agent: Annotated[TwoTimescaleConfig, tyro.conf.arg(name="")] = field(  # type: ignore[assignment]
        default_factory=TwoTimescaleConfig
    )


def make_plan(args: Agent, env_id: str) -> Plan:
    """Make the plan of runs on one environment."""
    task = find_task(env_id)
    steps = args.total_timesteps or (task.steps if task else DEFAULT_STEPS)
    options = find_options(args.algorithm, env_id)
    if args.algorithm in OURS:  # only what was typed, as the two agents have different defaults
        plain = type(args.agent)().to_dict()
        options |= {k: v for k, v in args.agent.to_dict().items() if v != plain[k]}
    return Plan(args.algorithm, env_id, steps, args.eval_freq, args.eval_episodes, options)


def show_seeds(entry: Entry, console: Console) -> None:
    """Print the table of one task, with a line for each seed."""
    plan = entry.plan
    table = make_table(
        f"{plan.algorithm} on {plan.env_id}, {plan.total_timesteps:,} steps",
        *("seed", "return", "sd", "cells", "numbers", "seconds", "first pass", "hold"),
    )
    firsts, holds = entry.to_threshold("steps"), entry.holds()
    digits = 1 if abs(entry.iqm) > 10 else 3
    for run, first, hold in zip(entry.runs, firsts, holds, strict=True):
        table.add_row(
            *(str(run["seed"]), plain(run["mean"], digits), plain(run["sd"], digits)),
            str(run["cells"] or "-"),
            *(f"{run['numbers']:,}", f"{run['seconds']:.1f}", steps_text(first), f"{hold:.2f}"),
        )
    table.add_section()
    table.add_row(
        *("IQM", plain(entry.iqm, digits), "", f"{entry.median('cells'):.0f}"),
        *(f"{entry.median('numbers'):,.0f}", f"{entry.median('seconds'):.1f}"),
        *(steps_text(float(np.median(firsts))), f"{np.median(holds):.2f}"),
    )
    console.print(table)
    console.print(
        "return: mean of the greedy episodes with the last policy. seconds: without evaluations. "
        f"first pass: steps to the first evaluation at {entry.threshold}; hold: the fraction of "
        "evaluations from there on that reach it. The last row: IQM of the returns, else medians."
    )


def costs_row(task: Task, entry: Entry) -> list[str]:
    """Row of what the returns on a task cost: steps, cells, numbers and seconds."""
    cells = int(entry.values("cells").max())
    return [
        *(task.name, f"{entry.plan.total_timesteps:,}"),
        *(steps_text(float(np.median(entry.to_threshold("steps")))), f"{np.median(entry.holds()):.2f}"),
        *(f"{cells:,}" if cells else "-", f"{entry.median('numbers'):,.0f}"),
        f"{entry.median('seconds'):.1f}",
    ]


def show_tasks(entries: list[Entry], console: Console) -> None:
    """Print the tables of all tasks."""
    done = [(task, entry) for entry in entries if (task := find_task(entry.plan.env_id))]
    most = max(len(entry.runs) for entry in entries)
    columns = ("task", "IQM", "worst", "best known")
    rows = [
        [task.name, f"{entry.iqm:.1f}", f"{entry.returns.min():.1f}", f"{task.best:g} ({task.source})"]
        for task, entry in done
    ]
    names = " and ".join(dict.fromkeys(entry.algorithm for entry in entries))
    show_table(console, f"{names}, {most} seeds", columns, rows)
    columns = ("task", "steps", "first pass", "hold", "cells", "numbers", "seconds")
    rows = [costs_row(*pair) for pair in done]
    show_table(console, "What they took: medians over seeds", columns, rows)
    console.print(
        "IQM and worst: over seeds, of the means of greedy episodes with the last policy. first "
        "pass: steps to the first evaluation at Gymnasium's threshold (-200 on Pendulum); hold: the "
        "fraction of evaluations from there on that reach it. cells: the largest of all seeds. "
        "seconds: without evaluations."
    )


def draw_task(axes: Axes, task: Task, entries: list[Entry]) -> None:
    """Draw one panel: IQM of the return, with its interval, against stored numbers."""
    for algorithm in LOOKS:
        mine = [entry for entry in entries if entry.algorithm == algorithm]
        if not mine:
            continue
        iqm = np.array([entry.iqm for entry in mine])
        spread = np.abs(np.array([interval([entry.returns]) for entry in mine]).T - iqm)
        style = style_of(algorithm) | {"lw": 1.2, "ls": ":"}
        axes.errorbar([entry.median("numbers") for entry in mine], iqm, spread, capsize=2.5, **style)
    axes.axhline(task.best, color=GREY, lw=0.9, ls="--", zorder=1)
    axes.annotate(
        f"best {task.best:g}", (1, task.best), (3, 0), xycoords=("axes fraction", "data"),
        textcoords="offset points", va="center", fontsize=7, color="#666666",
    )  # fmt: skip
    axes.margins(x=0.2, y=0.15)
    number_axis(axes)
    axes.set_title(f"{task.name}, {task.steps:,} steps", fontsize=10)


def draw_by_numbers(entries: list[Entry]) -> Figure:
    """Draw a panel for each task that has stored runs."""
    shown = {}
    for task in TASKS:
        found = [entry for entry in entries if find_task(entry.plan.env_id) == task]
        if found:
            shown[task] = found
    columns = 3 if len(shown) > 4 else 2
    figure, panels = make_panels(len(shown), columns, 3.9, 3.2)
    labels: dict[str, Any] = {}
    for i, (axes, (task, found)) in enumerate(zip(panels, shown.items(), strict=True)):
        draw_task(axes, task, found)
        handles, names = axes.get_legend_handles_labels()
        labels |= dict(zip(names, handles, strict=True))
        if i % columns == 0:
            axes.set_ylabel("return, IQM over seeds")
        if i >= len(shown) - columns:
            axes.set_xlabel("numbers stored to act")
    style = {"loc": "outside lower center", "frameon": False, "fontsize": 8}
    figure.legend(labels.values(), labels.keys(), ncols=min(len(labels), 3 * columns - 1), **style)
    return figure


def print_command(args: Agent, console: Console, options: str = "") -> None:
    """Print the command to type next, for the same folder."""
    folder = "" if args.log_dir == Agent.log_dir else f" --log-dir {quote(str(args.log_dir))}"
    print_line(console, f"  python scripts/benchmark.py agent{options}{folder}")


def draw_kept(args: Agent, console: Console) -> None:
    """Draw and tabulate the stored runs, with 95 % bootstrap intervals of the IQM."""
    log_dir, path = args.log_dir, args.log_dir / "return_by_numbers.png"
    entries, rows = [], []
    newest = sorted(
        read_newest(log_dir, console), key=lambda kept: (kept[0].algorithm, kept[1][0]["numbers"])
    )
    for task in TASKS:
        for plan, runs, current in newest:
            if (short_name(plan.env_id), plan.total_timesteps) != (task.name, task.steps):
                continue
            entry = Entry(plan, runs, np.inf)
            low, high = interval([entry.returns])
            row = [task.name, plan.algorithm, f"{entry.median('numbers'):,.0f}", f"{entry.iqm:.1f}"]
            row += [f"{low:.1f} to {high:.1f}", str(len(runs)), "" if current else "older code"]
            entries.append(entry)
            rows.append(row)
    if not entries:
        console.print(f"There are no runs of the table's tasks in {log_dir}. To start them:")
        print_command(args, console)
        return
    columns = ("task", "algorithm", "numbers", "IQM", "95 % interval", "seeds", "")
    show_table(console, "Return against numbers stored", columns, rows, left=2)
    save(draw_by_numbers(entries), path)
    console.print(f"The picture is {path}.", highlight=False)


def print_paths(args: Agent, entries: list[Entry], interrupted: bool, console: Console) -> None:
    """Write the summary as CSV; print where the results are, and what to type next."""
    path = args.log_dir / f"{args.algorithm}.csv"
    if entries:
        write_csv(path, [(entry.plan, run) for entry in entries for run in entry.runs])
    if interrupted:
        console.print(INTERRUPTED)
    summary = f", a summary in {path}" if entries else ""
    console.print(f"All runs are stored in {args.log_dir}{summary}.", highlight=False)
    console.print(
        "To compare, run with another --algorithm, then plot all stored runs:", highlight=False
    )
    print_command(args, console, " --plot")


def run_agent(args: Agent, console: Console) -> int:
    """Print the tables of `benchmark.py agent`."""
    args.log_dir.mkdir(parents=True, exist_ok=True)
    if args.plot:
        draw_kept(args, console)
        return 0
    plans, skipped = [], []
    for env_id in (args.env_id,) if args.env_id else tuple(task.env_id for task in TASKS):
        plan = make_plan(args, env_id)
        reason = refuse(plan)
        if reason:
            skipped.append(f"{short_name(env_id)} is left out: {reason}")
        else:
            plans.append(plan)
    made = carry_out(plans, args.seeds, args.log_dir, console, args, args.fresh)
    entries = []
    for plan, runs in zip(plans, made.runs, strict=True):
        threshold = find_threshold(plan.env_id) if args.threshold is None else args.threshold
        if runs:
            entries.append(Entry(plan, runs, threshold))
    if args.env_id:
        for entry in entries:
            show_seeds(entry, console)
    elif entries:
        show_tasks(entries, console)
    for line in skipped:
        print_line(console, line)
    print_paths(args, entries, made.interrupted, console)
    return ending.INTERRUPTED if made.interrupted else int(bool(args.env_id and skipped))
