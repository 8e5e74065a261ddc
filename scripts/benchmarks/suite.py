"""Our default agent on tasks of many kinds, against a random policy and SB3's agents."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from rich.console import Console

from benchmarks.agent_pictures import ZOO_SUFFIX, draw_curves, draw_summary
from benchmarks.comparison import Entry, Field, algorithms_of, mean_text, pooled_rows
from benchmarks.plans import DEFAULT, RANDOM, Plan
from benchmarks.runs import INTERRUPTED, Made, carry_out, read_newest, replace_file, write_csv
from benchmarks.tasks import SUITE, Task, find_task, short_name
from benchmarks.training import Run
from common.arguments import Count, Positive, PositiveReal
from common.pictures import save
from common.tables import print_line, print_notes, show_close_table, to_markdown
from common.workers import Where
from sb3_zoo import find_zoo_options

Label = Literal["ours", "random", "PPO", "A2C", "DQN-SAC", "PPO-zoo", "A2C-zoo", "DQN-SAC-zoo"]
OURS = "ours"
LABELS: tuple[Label, ...] = get_args(Label)
# Width of the tables if the output is not a terminal
WIDE = 180
PICTURES = {"suite_steps": "steps", "suite_seconds": "curve_seconds"}
# Values of a run with an entry for each evaluation, by their names in the file of all numbers
CURVES = {"curve_steps": "steps", "curve": "curve", "curve_seconds": "curve_seconds"}


@dataclass
class Suite(Where):
    """Run our default agent, a random policy, and SB3's agents on tasks of many kinds."""

    tasks: tuple[str, ...] = ()
    """Names of tasks, or their beginnings, such as `FrozenLake`; all if not given."""
    agents: tuple[Label, ...] = LABELS
    """Our agent has no options. SB3's have their own defaults or, as -zoo, RL Zoo's settings if there
    are any. DQN-SAC is DQN for discrete actions, SAC for continuous ones."""
    seeds: tuple[Count, ...] = tuple(range(10))
    """Seeds of each agent on each task. The defaults of ours were chosen on seeds from 100."""
    steps_scale: PositiveReal = 1.0
    """Factor by which the steps of each task are multiplied."""
    evaluations: Count = 10
    """Evaluations during each run."""
    curve_episodes: Positive = 10
    """Greedy episodes of each evaluation during a run."""
    eval_episodes: Positive = 50
    """Greedy episodes at the end."""
    log_dir: Path = Path("logs/suite")
    """Folder where every run is stored when it ends; the same code and options reuse it."""
    only_kept: bool = False
    """Make no runs; show tables and pictures of all stored runs, by the newest code that made some."""
    known: Path | None = None
    """A file suite.json: seeds without a stored run have the results of this file."""
    output: Path | None = None
    """Folder for the page, its pictures and its numbers; the log folder if not given."""


def choose_tasks(names: Sequence[str]) -> tuple[list[Task], list[str]]:
    """Return the requested tasks that can be run, and a line for each that cannot.

    Raises a ValueError for a name with which no task's name begins.
    """
    for name in names:
        if not any(task.name.startswith(name) for task in SUITE):
            raise ValueError(
                f"--tasks: none begins with {name}; there are {', '.join(t.name for t in SUITE)}."
            )
    asked = [task for task in SUITE if not names or task.name.startswith(tuple(names))]
    skipped = [f"{task.name} is left out: {task.missing}." for task in asked if task.missing]
    return [task for task in asked if not task.missing], skipped


def make_plan(label: Label, task: Task, args: Suite) -> Plan | None:
    """Make the plan of runs; None if RL Zoo's settings are requested and there are none."""
    env_id = task.env_id if label == OURS else task.flat_id or task.env_id
    steps = max(1, round(task.steps * args.steps_scale))
    algorithm, options = label.removesuffix(ZOO_SUFFIX), {}
    if label == OURS:
        algorithm = DEFAULT
    elif algorithm == "DQN-SAC":
        with gym.make(env_id) as env:
            algorithm = "SAC" if isinstance(env.action_space, spaces.Box) else "DQN"
    if label.endswith(ZOO_SUFFIX):
        options = find_zoo_options(algorithm, env_id)
        if not options:
            return None
    if label == RANDOM:
        return Plan(label, env_id, 0, 0, args.eval_episodes)
    every = max(1, steps // args.evaluations) if args.evaluations else 0
    return Plan(algorithm, env_id, steps, every, args.eval_episodes, options, args.curve_episodes)


# -- tables ------------------------------------------------------------------------------------------


def cell_of(field: Field, label: str) -> str:
    """IQM of the returns of an agent on a task, and its score."""
    entry = field.find(label)
    if entry is None:
        return "-"
    score = field.normalize(np.array([entry.iqm]))[0]
    return f"{mean_text(entry.iqm, 1 if abs(field.best) > 10 else 2)} ({score:.2f})"


def task_rows(fields: Sequence[Field], labels: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of all tasks."""
    rows = []
    for field in fields:
        steps = max(entry.plan.total_timesteps for entry in field.entries)
        what = [short_name(field.env_id), f"{steps:,}", f"{round(field.best, 3):g}"]
        rows.append([*what, *(cell_of(field, label) for label in labels)])
    return ["task", "steps", "best", *labels], rows


NOTES = (
    "Entries of the table of tasks: IQM over seeds of the mean return of greedy episodes with the "
    "last policy and, in brackets, its normalised score, where 0 is the random policy and 1 the best "
    "return known. Scores over all tasks: IQM of all runs with a stratified bootstrap interval. Ours "
    "there: our agent on those tasks that the other agent was run on.",
    "Seconds: processor time of one thread, training only; the sum over tasks of the medians over "
    "seeds.",
    "PPO, A2C, DQN-SAC: agents of Stable-Baselines3 with their defaults; -zoo: with RL Zoo's settings, "
    "if there are any. DQN-SAC is DQN for discrete actions and SAC for continuous ones. Ours has no "
    "options. All agents have the same number of steps. A task with a single run does not widen an "
    "interval.",
)


def seeds_text(fields: Sequence[Field]) -> str:
    """Describe how many seeds each agent has on a task."""
    counts = []
    for label in algorithms_of(fields):
        runs = [len(entry.runs) for field in fields if (entry := field.find(label))]
        least, most = min(runs), max(runs)
        counts.append(f"{label} {least if least == most else f'{least} to {most}'}")
    return f"Seeds of each agent on a task: {', '.join(counts)}.\n"


def make_page(fields: Sequence[Field]) -> str:
    """Make the page of the documentation."""
    sources = "; ".join(
        f"{task.name} {round(task.best, 3):g} ({task.source})"
        for field in fields
        if (task := find_task(field.env_id, SUITE))
    )
    parts = [
        "# The suite\n",
        "Results of our agent, without any options, on tasks of many kinds: where it wins and where it "
        "loses. `python scripts/benchmark.py suite` makes the runs and prints the tables; with "
        "`--only-kept --output docs` it writes this page.\n",
        "![Normalised scores over all tasks, and performance profiles](suite.png)\n",
        seeds_text(fields),
        to_markdown(*pooled_rows(fields, OURS)),
        to_markdown(*task_rows(fields, algorithms_of(fields))),
        *(f"{note}\n" for note in NOTES),
        "![Return against environment steps, a panel for each task](suite_steps.png)\n",
        "![Return against seconds, a panel for each task](suite_seconds.png)\n",
        "Lines: IQM over seeds of the returns of greedy episodes during training, with its 95 % "
        "interval. Dotted: the random policy. Dashed: the best return known.\n",
        f"Best returns known: {sources}.\n",
    ]
    return "\n".join(parts)


def numbers_of(fields: Sequence[Field]) -> list[dict[str, object]]:
    """All numbers of the tables, as a record for each agent on each task."""
    return [
        {
            "task": field.env_id,
            "agent": entry.algorithm,
            "algorithm": entry.plan.algorithm,
            "steps": entry.plan.total_timesteps,
            "seeds": [run["seed"] for run in entry.runs],
            "returns": entry.returns.tolist(),
            "scores": field.normalize(entry.returns).tolist(),
            "iqm": entry.iqm,
            "seconds": entry.values("seconds").tolist(),
            **{
                name: [np.round(run[own], 4).tolist() for run in entry.runs]
                for name, own in CURVES.items()
            },
        }
        for field in fields
        for entry in field.entries
    ]


def read_known(path: Path | None) -> dict[tuple[str, str, int], list[Run]]:
    """Read the runs of a file that `numbers_of` has made, by task, agent and steps.

    Raises a ValueError if the file cannot be read. Files of earlier versions have no curves.
    """
    found = {}
    try:
        for record in json.loads(path.read_text(encoding="utf-8")) if path else []:
            columns = {
                "seed": record["seeds"],
                "mean": record["returns"],
                "seconds": record["seconds"],
                **{own: record.get(name, [[]] * len(record["seeds"])) for name, own in CURVES.items()},
            }
            key = record["task"], record["agent"], record["steps"]
            rows = zip(*columns.values(), strict=True)
            found[key] = [dict(zip(columns, row, strict=True)) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"--known: {path} is not a suite.json of this command: {error!r}.") from None
    return found


def write_all(fields: Sequence[Field], folder: Path) -> list[Path]:
    """Write the page, its pictures, the numbers as JSON, and a line for each run as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "suite.md", make_page(fields))
    records = ",\n".join(map(json.dumps, numbers_of(fields)))
    replace_file(folder / "suite.json", f"[\n{records}\n]\n")
    write_csv(folder / "suite.csv", [(e.plan, run) for f in fields for e in f.entries for run in e.runs])
    save(draw_summary(fields), folder / "suite.png", dpi=110)
    for name, x in PICTURES.items():
        save(draw_curves(fields, x), folder / f"{name}.png", dpi=110)
    return sorted(folder.glob("suite*.*"))


def report(
    fields: list[Field], trouble: list[str], interrupted: bool, args: Suite, console: Console
) -> None:
    """Print the tables, write all files, and print their paths."""
    if not console.is_terminal:
        console.width = WIDE
    if fields:
        rows = task_rows(fields, algorithms_of(fields))
        show_close_table(console, "Return, and score", *rows, bold=(OURS,))
        show_close_table(console, "Scores over all tasks", *pooled_rows(fields, OURS), bold=(OURS,))
        print_notes(console, NOTES)
    for line in trouble:
        print_line(console, line)
    if interrupted:
        console.print(INTERRUPTED)
    if args.only_kept and not fields:
        print_line(console, f"There are no runs of these tasks and options in {args.log_dir}.")
        return
    console.print(f"All runs are stored in {args.log_dir}", highlight=False)
    if fields:
        for path in write_all(fields, args.output or args.log_dir):
            console.print(f"  {path}", highlight=False)


def run_suite(args: Suite, console: Console) -> int:
    """Print the tables of `benchmark.py suite`; return the exit code."""
    try:
        tasks, skipped = choose_tasks(args.tasks)
        known = read_known(args.known)
    except ValueError as error:
        console.print(str(error), highlight=False)
        return 2
    labelled = [
        (label, task, plan)
        for task in tasks
        for label in args.agents
        if (plan := make_plan(label, task, args)) is not None
    ]
    args.log_dir.mkdir(parents=True, exist_ok=True)
    plans = [plan for _, _, plan in labelled]
    if args.only_kept:
        kept = read_newest(args.log_dir, console)
        made = Made([next((runs for own, runs, _ in kept if own == plan), []) for plan in plans])
    else:
        made = carry_out(plans, args.seeds, args.log_dir, console, args, say_runs=True)
    by_task = {task: Field(task.env_id, float("inf"), task.best) for task in tasks}
    for (label, task, plan), own in zip(labelled, made.runs, strict=True):
        told = known.get((task.env_id, label, plan.total_timesteps), [])
        by_seed = {run["seed"]: run for run in (*told, *own)}
        if by_seed:
            runs = [by_seed[seed] for seed in sorted(by_seed)]
            by_task[task].entries.append(Entry(plan, runs, float("inf"), label))
    fields = [field for field in by_task.values() if field.entries]
    report(fields, [*skipped, *made.failures], made.interrupted, args, console)
    return made.exit_code()
