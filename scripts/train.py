"""Train a two-timescale agent, and say how good it is.

python scripts/train.py
python scripts/train.py --env-id MountainCar-v0 --total-timesteps 300000 --seed 1
python scripts/train.py --algorithm TwoTimescaleQ --env-id Acrobot-v1
python scripts/train.py --resume                  # after a kill, with the options of before
python scripts/train.py --help
"""

import json
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
import tyro
from rich.console import Console
from stable_baselines3.common.callbacks import LogEveryNTimesteps
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger

import oda_rl
import oda_rl.agents
from common.arguments import Count, Positive
from common.checkpoints import Checkpoints, SteadyTensorBoard, load_last, stopped_by_signals
from common.choosing import find_algorithm
from common.tables import show_table
from oda_rl import storage
from oda_rl.agents import BadTransitionError, TwoTimescaleACConfig, TwoTimescaleConfig
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.evaluation import make_evaluation_envs
from oda_rl.envs import find_twin
from oda_rl.envs.names import action_names

# What chooses the policy that is kept, and what tells how good it is, begin in different states.
CHOICE_SEED, RESULT_SEED = 1_000_000, 2_000_000
CHOICE_EPISODES, MOST_ENVS = 20, 100


@dataclass
class Args:
    """Train a two-timescale actor-critic on a Gymnasium environment and evaluate its greedy policy."""

    algorithm: Literal["TwoTimescaleAC", "TwoTimescaleQ"] = "TwoTimescaleAC"
    """The agent; by default TwoTimescaleAC for numbered actions, TwoTimescaleQ for a Box of them. Each
    has hyperparameters of its own: --help with it, or with --env-id, shows them."""
    env_id: str = "CartPole-v1"
    """Environment with any observations but texts and graphs, and numbered or bounded Box actions."""
    total_timesteps: Positive = 200_000
    """Environment steps to train for."""
    seed: Count = 0
    """Same seed, same result."""
    log_dir: Path = Path("logs")
    """Runs are written to <log-dir>/<env-id>/<algorithm>_<seed>_<n>/."""
    eval_episodes: Positive = 100
    """Greedy episodes that tell the result at the end."""
    eval_freq: Count = 10_000
    """Steps between evaluations during the training (20 greedy episodes each); 0 for none."""
    keep_best: bool = True
    """Keep the best greedy policy that an evaluation during the training has seen, not the last."""
    n_envs: Positive = 1
    """Environments that take turns."""
    log_freq: Positive = 2000
    """Steps between two points of the learning curves."""
    save_freq: Count = 50_000
    """Steps between two checkpoints, from which a run that was killed goes on; 0 for one at the end."""
    resume: str | None = None
    """Go on with the last run of these options, or with the one in this folder."""
    progress_bar: bool = True
    """Show how far the training is."""
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


def make_run_folder(args: Args) -> Path:
    """The first folder of the run's name that does not exist yet. Raises an OSError if it cannot be."""
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
    """Where the runs on an environment are."""
    return args.log_dir / args.env_id.replace("/", "-")


def find_run(args: Args) -> tuple[Path, Args]:
    """The folder of the run that is to be resumed, and its options.

    Raises a ValueError or an OSError if there is none, or if other options were typed.
    """
    folder = Path(args.resume or "")
    if not args.resume:
        found = run_folders(args).glob(f"{args.algorithm}_{args.seed}_*/config.json")
        folder = max((path.parent for path in found), key=_number, default=folder)
        if folder == Path():
            raise ValueError(f"there is no run of these options in {run_folders(args)}")
    stored = json.loads((folder / "config.json").read_text())
    kind = QArgs if stored["algorithm"] == "TwoTimescaleQ" else Args
    own = type(kind().agent)(**stored["agent"])
    names = {one.name for one in fields(Args)} - {"agent", "log_dir", "resume", "progress_bar"}
    run = kind(**{name: stored[name] for name in names}, agent=own, log_dir=args.log_dir)
    run.progress_bar = args.progress_bar
    typed = {**{n: getattr(args, n) for n in names - {"algorithm"}}, **asdict(args.agent)}
    plain = {**{n: getattr(Args(), n) for n in names}, **asdict(type(args.agent)())}
    kept = {**{n: getattr(run, n) for n in names}, **asdict(own)}
    for name, value in typed.items():
        if name != "total_timesteps" and value not in (plain[name], kept.get(name, value)):
            raise ValueError(f"{name} is {kept[name]!r} in {folder}, and cannot become {value!r}")
    if args.total_timesteps != Args.total_timesteps:
        run.total_timesteps = args.total_timesteps
    return folder, run


def _number(folder: Path) -> int:
    last = folder.name.rpartition("_")[2]
    return int(last) if last.isdecimal() else 0


def find_training_id(args: Args) -> str:
    """The environment to train in: one with compiled dynamics that equals the one asked for, if any."""
    twin = find_twin(args.env_id) if args.n_envs == 1 else None
    return twin or args.env_id


def shown_dimensions(n: int) -> tuple[int, int] | None:
    """The two coordinates of observations that pictures show: the last ones."""
    return (n - 2, n - 1) if n > 1 else None


def make_callbacks(
    args: Args, folder: Path, n_features: int
) -> tuple[list[Any], KeepBestCallback | None]:
    """What watches the training, and the one among them that keeps the best policy."""
    logger = CodebookCallback(args.log_freq, dimensions=shown_dimensions(n_features))
    callbacks: list[Any] = [logger, LogEveryNTimesteps(args.log_freq)]
    if not args.eval_freq:
        return callbacks, None
    keeper = KeepBestCallback(
        make_evaluation_envs(args.env_id, CHOICE_EPISODES, CHOICE_SEED + args.seed),
        CHOICE_EPISODES,
        eval_freq=max(args.eval_freq // args.n_envs, 1),
        log_path=str(folder),
        restore=False,  # not before the last checkpoint is written
    )
    return [keeper, *callbacks], keeper


def train(
    model: OnlineAlgorithm, args: Args, callbacks: list[Any], checkpoints: Checkpoints, console: Console
) -> str | None:
    """Learn what is left; returns why it ended early, if it did. Everything is as it was at the end."""
    with stopped_by_signals(model.stop) as signals:
        try:
            model.learn(
                max(0, args.total_timesteps - model.num_timesteps),
                callback=[*callbacks, checkpoints],
                log_interval=None,
                reset_num_timesteps=False,
                progress_bar=args.progress_bar and console.is_terminal,
                planned_timesteps=args.total_timesteps,
            )
        except KeyboardInterrupt:
            return "interrupted"
        except (BadTransitionError, ArithmeticError) as error:
            return str(error)
        except Exception as error:  # of the environment, say: what was learned is worth more
            traceback.print_exc()
            return f"{type(error).__name__}: {error}"
        checkpoints.write()
        return "interrupted" if signals and model.num_timesteps < args.total_timesteps else None


def evaluate(model: OnlineAlgorithm, env_id: str, episodes: int, seed: int) -> list[float]:
    """The returns of greedy episodes on fresh environments."""
    environments = make_evaluation_envs(env_id, min(episodes, MOST_ENVS), seed)
    returns, _ = evaluate_policy(model, environments, episodes, return_episode_rewards=True)
    environments.close()
    return list(returns)  # type: ignore[arg-type]


def draw(folder: Path, env_id: str, model: OnlineAlgorithm, keeper: KeepBestCallback | None) -> None:
    """The learning curve and the codebook, as a picture next to the model."""
    from common.pictures import plt, save  # not before there is something to draw
    from oda_rl.plotting import plot_codebook, plot_learning_curve

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    lengths = np.concatenate(model.get_env().env_method("get_episode_lengths"))  # type: ignore[union-attr]
    returns = np.concatenate(model.get_env().env_method("get_episode_rewards"))  # type: ignore[union-attr]
    evaluations: tuple[Any, Any] = ((), ())
    if keeper is not None and keeper.evaluations_timesteps:
        evaluations = (keeper.evaluations_timesteps, np.mean(keeper.evaluations_results, axis=1))
    plot_learning_curve(np.cumsum(lengths), returns, *evaluations, ax=left)
    left.set_title(f"{env_id}: learning")
    learner = model.learner
    n = learner.sizes.n_observed
    points = learner.codevectors[:, :n]
    if model.actions.is_continuous:
        actions = learner.greedy(points)[:, 0]
        names = ["greedy action"]
    else:
        actions = learner.q_values.argmax(axis=1)
        names = action_names(env_id, model.actions.n_actions)
    plot_codebook(
        points,
        actions,
        learner.codebook["visits"].sum(axis=0),
        dimensions=shown_dimensions(n) or (0, 0),
        feature_names=model.observations.names(env_id),
        label_names=names,
        ax=right,
    )
    right.set_title(f"{model.n_cells} cells: greedy action, and area by visits")
    save(figure, folder / "training.png", dpi=110)


def write_config(folder: Path, args: Args, result: dict[str, Any] | None = None) -> None:
    """Keep what the run was started with, and what came out, next to the model."""
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
    with storage.written_whole(folder / "config.json") as path:
        path.write_text(json.dumps(config, indent=2) + "\n")


def show(console: Console, folder: Path, result: dict[str, Any]) -> None:
    """The table at the end, and what to type next."""
    rows = [
        (f"return over {result['episodes']} greedy episodes, mean", f"{result['mean']:.1f}"),
        ("  standard deviation", f"{result['sd']:.1f}"),
        ("cells", f"{result['n_cells']}"),
        ("numbers stored to act", f"{result['n_parameters']:,}"),
        ("environment steps", f"{result['steps']:,}"),
        ("  of which before the policy that was kept", f"{result['kept_at']:,}"),
        ("seconds, evaluations during the training included", f"{result['seconds']:.1f}"),
        ("model file", f"{result['file_bytes'] / 1000:.1f} kB"),
    ]
    title = f"{result['env_id']}, seed {result['seed']}"
    show_table(console, title, (result["algorithm"], ""), rows)
    console.print(
        f"The run is in {folder}, its picture in training.png. To look further:", highlight=False
    )
    console.print(f"  tensorboard --logdir {folder.parent.parent}", highlight=False, soft_wrap=True)
    for command in (
        f"evaluate.py {folder / 'model.npz'} --render",
        f"explain.py {folder / 'model.npz'}",
    ):
        console.print(f"  python scripts/{command}", highlight=False, soft_wrap=True)


def begin(args: Args, folder: Path, say: Any) -> tuple[OnlineAlgorithm, dict[str, Any] | None]:
    """The model, new or as the last checkpoint has it, and what the callbacks go on from."""
    env_id = find_training_id(args)
    environment = make_vec_env(env_id, args.n_envs, seed=args.seed)
    kind = getattr(oda_rl.agents, args.algorithm)
    twin = "" if env_id == args.env_id else f" (in {env_id}, which is the same compiled)"
    run = None
    if args.resume is None:
        model = kind(env=environment, seed=args.seed, config=args.agent)
        say(f"Training on {args.env_id} for {args.total_timesteps:,} steps{twin}.")
    else:
        model, run = load_last(folder, kind, environment)
        steps = f"step {model.num_timesteps:,} of {args.total_timesteps:,}"
        say(f"Going on with {folder} from {steps}{twin}.")
    board = SteadyTensorBoard(folder, model.num_timesteps + 1 if run else None, say)
    model.set_logger(Logger(str(folder), [board]))
    return model, run


def main(args: Args) -> int:
    """Train, save, evaluate, tell."""
    console = Console()

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    try:
        if args.resume is None:
            folder = make_run_folder(args)
            write_config(folder, args)
        else:
            folder, found = find_run(args)
            args = replace(found, resume="")
        model, run = begin(args, folder, say)
    except (OSError, ValueError, gym.error.Error) as error:
        say(f"The training cannot begin: {error}")
        return 2
    callbacks, keeper = make_callbacks(args, folder, model.observations.n_features)
    checkpoints = Checkpoints(folder, args.save_freq, callbacks, say)
    if run is not None:
        checkpoints.go_on(model, run)
    begun = time.perf_counter()
    trouble = train(model, args, callbacks, checkpoints, console)
    seconds = time.perf_counter() - begun
    if keeper is not None and args.keep_best:
        keeper.give_back()
    try:
        model.save(folder / "model.npz")
    except OSError as error:
        say(f"The model cannot be written: {error}. The last checkpoint is in {folder / 'checkpoints'}.")
        return 1
    model.logger.close()
    if trouble:
        say(f"The training ended early: {trouble}")
        say(f"The model, as it was after {model.num_timesteps:,} steps, is in {folder}. To go on:")
        say(f"  python scripts/train.py --resume {folder}")
    try:
        finish(model, args, folder, keeper, seconds, trouble, console)
    except KeyboardInterrupt:
        say(f"Interrupted. The model is in {folder}.")
    return 0 if trouble in (None, "interrupted") else 1


def finish(
    model: OnlineAlgorithm,
    args: Args,
    folder: Path,
    keeper: KeepBestCallback | None,
    seconds: float,
    trouble: str | None,
    console: Console,
) -> None:
    """Evaluate the model that was saved, draw it, and say how good it is."""
    returns = evaluate(model, args.env_id, args.eval_episodes, RESULT_SEED + args.seed)
    result = {
        "algorithm": args.algorithm,
        "env_id": args.env_id,
        "seed": args.seed,
        "episodes": len(returns),
        "mean": float(np.mean(returns)),
        "sd": float(np.std(returns)),
        "n_cells": model.n_cells,
        "n_parameters": model.n_parameters,
        "steps": model.num_timesteps,
        "kept_at": keeper.best_timesteps if keeper and args.keep_best else model.num_timesteps,
        "seconds": seconds,
        "file_bytes": (folder / "model.npz").stat().st_size,
        "ended_early": trouble,
    }
    write_config(folder, args, result)
    if model.n_cells:
        draw(folder, args.env_id, model, keeper)
    show(console, folder, result)


def parse(arguments: Sequence[str] | None = None) -> Args:
    """The options that were typed, with the hyperparameters of the agent that they mean."""
    typed = sys.argv[1:] if arguments is None else arguments
    for i, option in enumerate(typed):
        if option == "--resume" and (i + 1 == len(typed) or typed[i + 1].startswith("--")):
            typed = [*typed[: i + 1], "", *typed[i + 1 :]]  # the last run
    found = find_algorithm(typed, Args.env_id)
    return tyro.cli(QArgs if found == "TwoTimescaleQ" else Args, args=typed)


if __name__ == "__main__":
    try:
        sys.exit(main(parse()))
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
