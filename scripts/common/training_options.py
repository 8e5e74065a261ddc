"""Options of a training on the command line, and the folder of the run, in which they are stored."""

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
import tyro

import oda_rl
import oda_rl.envs
from common.arguments import Count, Positive, read_options
from common.run_lock import lock_run
from oda_rl import storage
from oda_rl.agents import TwoTimescaleACConfig, TwoTimescaleConfig

assert oda_rl.envs  # registers the compiled twins


@dataclass
class Args:
    """Train a two-timescale actor-critic on a Gymnasium environment and evaluate its greedy policy."""

    algorithm: Literal["TwoTimescaleAC", "TwoTimescaleQ"] = "TwoTimescaleAC"
    """The agent; --help lists the hyperparameters of the given one."""
    env_id: str = "CartPole-v1"
    """Environment with discrete or bounded Box actions, and any observations but texts and graphs."""
    total_timesteps: Positive = 200_000
    """Environment steps to train for."""
    seed: Count = 0
    """Same seed, same result."""
    log_dir: Path = Path("logs")
    """Runs are written to <log-dir>/<env-id>/<algorithm>_<seed>_<n>/."""
    eval_episodes: Positive = 100
    """Greedy episodes of the evaluation at the end."""
    eval_freq: Count = 10_000
    """Steps between evaluations during the training (20 greedy episodes each); 0 for none."""
    keep_best: bool = True
    """Keep the greedy policy with the best evaluation during the training, not the last one."""
    n_envs: Positive = 1
    """Number of environments, which are stepped in turn."""
    log_freq: Positive = 2000
    """Steps between two points of the learning curves."""
    save_freq: Count = 50_000
    """Steps between two checkpoints, from which a killed run can be resumed; 0 for one at the end."""
    resume: str | None = None
    """Continue the last run of this agent, environment and seed with a checkpoint, or the one in this
    folder."""
    progress_bar: bool = True
    """Show a progress bar."""
    agent: Annotated[TwoTimescaleACConfig, tyro.conf.arg(name="")] = field(
        default_factory=TwoTimescaleACConfig
    )


@dataclass
class QArgs(Args):
    """Train a two-timescale Q-learner on a Gymnasium environment and evaluate its greedy policy."""

    algorithm: Literal["TwoTimescaleAC", "TwoTimescaleQ"] = "TwoTimescaleQ"
    agent: Annotated[TwoTimescaleConfig, tyro.conf.arg(name="")] = field(  # type: ignore[assignment]
        default_factory=TwoTimescaleConfig
    )


OPTIONS = {"TwoTimescaleAC": Args, "TwoTimescaleQ": QArgs}


def find_algorithm(typed: Sequence[str]) -> str:
    """Return the name given as --algorithm, or the default.

    This is called before the options are parsed, because each agent has its own options.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--algorithm", nargs="?", default=Args.algorithm)
    return parser.parse_known_args(typed)[0].algorithm


def parse(arguments: Sequence[str] | None = None) -> Args:
    """Parse the options, including the hyperparameters of the chosen agent.

    If a run is to be resumed, the options that were not typed are those of the run.
    """
    typed = sys.argv[1:] if arguments is None else arguments
    for i, option in enumerate(typed):
        if option == "--resume" and (i + 1 == len(typed) or typed[i + 1].startswith("--")):
            typed = [*typed[: i + 1], "", *typed[i + 1 :]]  # the last run
    kind = OPTIONS.get(find_algorithm(typed), Args)
    args = read_options(lambda: tyro.cli(kind, args=typed))
    if args.resume is None:
        return args
    try:
        _, run = find_run(args)
    except (OSError, ValueError):
        return args  # `resume` will raise this again
    return read_options(lambda: tyro.cli(type(run), args=typed, default=run))


def make_run_folder(args: Args) -> Path:
    """Make the first folder of the run's name that does not exist yet. Raises an OSError on failure."""
    parent, n = run_folders(args), 1
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = parent / f"{args.algorithm}_{args.seed}_{n}"
        try:
            folder.mkdir()
        except FileExistsError:
            n += 1
        else:
            return folder


def run_folders(args: Args) -> Path:
    """Folder of the runs on an environment."""
    return args.log_dir / args.env_id.replace("/", "-")


# Options of a command that are not those of its run
OF_COMMAND = {"log_dir", "resume", "progress_bar"}


def find_run(args: Args) -> tuple[Path, Args]:
    """Find and lock the folder of the run to resume, and find its options.

    By default it is the last one with a checkpoint that no other process trains. Raises a ValueError or
    an OSError if there is none.
    """
    from common.checkpoints import find_checkpoints  # imports TensorBoard

    folder = Path(args.resume or "")
    if not args.resume:
        found = run_folders(args).glob(f"{args.algorithm}_{args.seed}_*/config.json")
        begun = [path.parent for path in found if find_checkpoints(path.parent)]
        folder = next(filter(lock_run, sorted(begun, key=_number, reverse=True)), folder)
        if folder == Path():
            trained = ", except those that other processes train now" if begun else ""
            raise ValueError(
                f"there is no run with these options and a checkpoint in {run_folders(args)}{trained}"
            )
    file = folder / "config.json"
    if not file.is_file():
        raise FileNotFoundError(f"{folder} is not a run of this script: there is no {file}")
    if args.resume and not lock_run(folder):
        raise ValueError(f"{folder} is a run that another process trains now")
    stored = json.loads(file.read_text(encoding="utf-8"))
    names = {one.name for one in fields(Args)} - OF_COMMAND - {"agent"}
    with storage.restoring(file):
        kind = OPTIONS.get(stored["algorithm"], Args)
        own = type(kind().agent)(**stored["agent"])
        named = {name: stored[name] for name in names}
        return folder, kind(**named, agent=own, log_dir=folder.parent.parent)


def resume(args: Args) -> tuple[Path, Args]:
    """Return the folder of the run, and its options with the typed total of steps and progress bar.

    Raises a ValueError or an OSError if there is no run, if the total is below the steps that it has
    made, or if any other typed option differs.
    """
    from common.checkpoints import last_step  # imports TensorBoard

    folder, run = find_run(args)
    typed, kept = ({**vars(one), **asdict(one.agent)} for one in (args, run))
    for name in sorted(kept.keys() - OF_COMMAND - {"agent", "total_timesteps"}):
        if typed.get(name, kept[name]) != kept[name]:
            value = "the default" if kept[name] is None else repr(kept[name])
            raise ValueError(f"{name} is {value} in {folder} and cannot be changed, got {typed[name]!r}")
    steps, bar = args.total_timesteps, args.progress_bar
    # Several environments may make more steps than were planned
    if steps < (made := min(last_step(folder), run.total_timesteps)):
        raise ValueError(
            f"--total-timesteps must be at least {made}, as {folder} has made these steps; got {steps}"
        )
    return folder, replace(run, total_timesteps=steps, progress_bar=bar, resume="")


def _number(folder: Path) -> int:
    last = folder.name.rpartition("_")[2]
    return int(last) if last.isdecimal() else 0


def write_config(folder: Path, args: Args, result: dict[str, Any] | None = None) -> None:
    """Write the options of a run, versions and the result, if there is one, next to the model."""
    config = {
        **asdict(args),
        "log_dir": str(args.log_dir),
        "versions": {
            "oda_rl": oda_rl.__version__,
            "gymnasium": gym.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "result": result,
    }
    _write(folder / "config.json", config)


def store_total(folder: Path, args: Args) -> None:
    """Store the total of steps of a resumed run; the last result remains until there is another."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["total_timesteps"] != args.total_timesteps:
        _write(folder / "config.json", {**config, "total_timesteps": args.total_timesteps})


def _write(file: Path, config: dict[str, Any]) -> None:
    with storage.written_whole(file) as path:
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
