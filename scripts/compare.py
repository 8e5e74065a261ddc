"""Compare agents on the same environments, seeds and evaluation: ours, the baselines, SB3's.

python scripts/compare.py                                    # ours, a uniform grid and PPO on CartPole
python scripts/compare.py --algorithms TwoTimescaleAC TileCodingSarsa PPO A2C DQN
python scripts/compare.py --env-ids CartPole-v1 MountainCar-v0 Acrobot-v1 --total-timesteps 300000
python scripts/compare.py --dask tcp://scheduler:8786        # on the workers of a Dask cluster

Each run is stored when it ends. After an interruption, the same command makes only the missing runs.
"""

from common.ending import run_and_exit

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro
from joblib import effective_n_jobs
from rich.console import Console

from benchmarks.agent_pictures import draw_comparison
from benchmarks.comparison import (
    POOLED_TITLE,
    Entry,
    Field,
    field_rows,
    field_title,
    left_out_of,
    notes_of,
    pooled_rows,
)
from benchmarks.plans import OURS, Algorithm, Plan, find_options, refuse
from benchmarks.runs import Made, carry_out, find_kept, replace_file, write_csv
from benchmarks.tasks import find_threshold
from common.arguments import Count, Positive, check_lists, typed_again
from common.evaluation import evaluate_command
from common.pictures import save
from common.tables import make_console, print_line, print_notes, show_close_table, to_markdown
from common.workers import Where
from oda_rl.inspect.table import counted


@dataclass
class Args(Where):
    """Compare agents on the same environments, seeds and evaluation; draw learning curves.

    Our agents have their defaults, the baselines their presets for the environment, and SB3's agents the
    hyperparameters that RL Zoo publishes for it.

    Each run is stored when it ends. After an interruption, the same command makes only the missing ones.
    """

    algorithms: tuple[Algorithm, ...] = ("TwoTimescaleAC", "UniformGridQ", "PPO")
    """Agents to compare. QRDQN needs sb3-contrib."""
    env_ids: tuple[str, ...] = ("CartPole-v1",)
    """Environments. Our agents are far faster on oda_rl/..., with compiled dynamics, than on
    Gymnasium's."""
    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds of each algorithm on each environment; ten are better than three."""
    total_timesteps: Positive = 100_000
    """Environment steps of each run."""
    eval_freq: Positive = 5_000
    """Steps between evaluations of 20 greedy episodes."""
    eval_episodes: Positive = 100
    """Greedy episodes of the evaluation at the end."""
    output: Path = Path("logs/compare")
    """Folder of the table, the picture and the runs."""
    fresh: bool = False
    """Make all runs again, even those that are stored."""


def find_mistake(args: Args) -> str | None:
    """What is wrong with the arguments, if anything."""
    if mistake := check_lists(args):
        return mistake
    if args.total_timesteps < args.eval_freq:
        return (
            f"--total-timesteps must be at least --eval-freq, {args.eval_freq}, got "
            f"{args.total_timesteps}."
        )
    return None


def make_plans(args: Args) -> tuple[list[Field], list[Plan]]:
    """Return the environments, with the agents that cannot run there, and the plans to run."""
    fields, plans = [], []
    for env_id in args.env_ids:
        left_out: dict[str, str] = {}
        for algorithm in args.algorithms:
            steps, options = args.total_timesteps, find_options(algorithm, env_id)
            plan = Plan(algorithm, env_id, steps, args.eval_freq, args.eval_episodes, options)
            reason = refuse(plan)
            if reason:
                left_out[algorithm] = reason
            else:
                plans.append(plan)
        known = len(left_out) < len(args.algorithms)
        field = Field(env_id, find_threshold(env_id) if known else float("inf"))
        field.left_out = left_out
        fields.append(field)
    return fields, plans


def print_plans(plans: list[Plan], args: Args, console: Console) -> None:
    """Print what will run, and what is stored from before."""
    say = partial(print_line, console)
    count = len(plans) * len(args.seeds)
    here = f"{min(effective_n_jobs(args.n_jobs), count)} in parallel"
    where = f"on the workers of {args.dask}" if args.dask else here
    say(f"{counted(count, 'run')} of {counted(args.total_timesteps, 'step')}, {where}.")
    for plan in [] if args.fresh else plans:
        kept = find_kept(plan.folder(args.output / "runs"), args.seeds)
        if kept:
            seeds = "seed" if len(kept) == 1 else "seeds"
            numbers = ", ".join(map(str, kept))
            say(f"  {plan.algorithm} on {plan.env_id}, {seeds} {numbers}: kept from before")


def write_results(fields: list[Field], output: Path) -> None:
    """Write the table as Markdown, one line per run as CSV, and the picture."""
    shown = [field for field in fields if field.entries]
    parts = ["# Comparison\n", "![Learning curves and performance profiles](comparison.png)\n"]
    for field in fields:
        parts += [f"## {field_title(field)}\n", to_markdown(*field_rows(field))]
    if len(shown) > 1:
        parts += [f"## {POOLED_TITLE}\n", to_markdown(*pooled_rows(shown))]
    parts.append("".join(f"- {note}\n" for note in [*notes_of(shown), *left_out_of(fields)]))
    parts.append(f"Made by `{typed_again('compare')}`\n")
    replace_file(output / "comparison.md", "\n".join(parts))
    write_csv(output / "runs.csv", [(e.plan, run) for f in shown for e in f.entries for run in e.runs])
    save(draw_comparison(shown), output / "comparison.png", dpi=120)


def show_results(fields: list[Field], console: Console) -> None:
    """Print the tables."""
    shown = [field for field in fields if field.entries]
    for field in fields:
        show_close_table(console, field_title(field), *field_rows(field), bold=OURS)
    if len(shown) > 1:
        show_close_table(console, POOLED_TITLE, *pooled_rows(shown), bold=OURS)
    print_notes(console, notes_of(shown))


def print_paths(fields: list[Field], args: Args, made: Made, console: Console) -> None:
    """Print where the results are, and commands to type next."""
    say = partial(print_line, console)
    say("")
    entries = [entry for field in fields for entry in field.entries]
    if entries:
        say(f"table     {args.output / 'comparison.md'}")
        say(f"picture   {args.output / 'comparison.png'}")
        say(f"runs      {args.output / 'runs.csv'}")
        say(
            f"curves    {args.output / 'runs'}/<environment>/<algorithm>-.../seed-<n>.csv; models beside"
        )
    if made.failures:
        say(f"{counted(len(made.failures), 'run')} failed. The same command tries again.")
    if made.interrupted:
        say("Interrupted. Finished runs are kept; to run the others:")
        say(f"  {typed_again('compare')}")
        return
    say("Next, for example:")
    more = sorted({*args.seeds, *range(10)})
    if len(more) > len(args.seeds):
        say(f"  {typed_again('compare', fresh=None, no_fresh=None, seeds=more)}")
    for entry in entries:
        if entry.algorithm in OURS:
            folder, seed = entry.plan.folder(args.output / "runs"), entry.runs[0]["seed"]
            file = shlex.quote(str(folder / f"seed-{seed}.npz"))
            say(f"  {evaluate_command(file, entry.plan.env_id)}")
            break
    say("  python scripts/compare.py --help")


def main(args: Args) -> int:
    """Run the comparison; write and print its results."""
    console = make_console()
    mistake = find_mistake(args)
    if mistake is not None:
        print_line(console, mistake)
        return 2
    fields, plans = make_plans(args)
    for line in left_out_of(fields):
        print_line(console, line)
    if not plans:
        return 1
    args.output.mkdir(parents=True, exist_ok=True)
    print_plans(plans, args, console)
    runs = args.output / "runs"
    made = carry_out(plans, args.seeds, runs, console, args, args.fresh, say_runs=True)
    by_env = {field.env_id: field for field in fields}
    for plan, runs in zip(plans, made.runs, strict=True):
        if runs:
            field = by_env[plan.env_id]
            field.entries.append(Entry(plan, runs, field.threshold))
    if any(field.entries for field in fields):
        write_results(fields, args.output)
        show_results(fields, console)
    print_paths(fields, args, made, console)
    return made.exit_code()


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
