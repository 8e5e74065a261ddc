"""Train a two-timescale agent, and evaluate it.

python scripts/train.py
python scripts/train.py --env-id MountainCar-v0 --total-timesteps 300000 --seed 1
python scripts/train.py --algorithm TwoTimescaleQ --env-id Acrobot-v1
python scripts/train.py --resume                  # continue the last run, for example after a kill
python scripts/train.py --help
"""

from common.ending import INTERRUPTED, code_of, run_and_exit

import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from stable_baselines3.common.callbacks import LogEveryNTimesteps
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger

import oda_rl
import oda_rl.agents
from common.checkpoints import (
    Checkpoints,
    SteadyTensorBoard,
    last_step,
    load_last,
    stopped_by_signals,
    tell_last,
)
from common.evaluation import evaluate_command, make_environments, reason_of
from common.run_lock import lock_run
from common.tables import make_console, print_line, show_table
from common.training_options import (
    Args,
    make_run_folder,
    parse,
    resume,
    store_total,
    write_config,
)
from oda_rl._interrupts import interrupts_wait
from oda_rl.agents import BadTransitionError
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.envs import find_twin

# Seeds of the evaluations that choose the policy to keep, and of the final one: other initial states.
CHOICE_SEED, RESULT_SEED = 1_000_000, 2_000_000
CHOICE_EPISODES = 20


def find_training_id(args: Args) -> str:
    """The environment to train in: the equivalent one with compiled dynamics, if there is one."""
    return find_twin(args.env_id) or args.env_id


def shown_dimensions(n: int) -> tuple[int, int] | None:
    """The two coordinates of observations to draw: the last ones. None if there is only one."""
    return (n - 2, n - 1) if n > 1 else None


def make_callbacks(
    args: Args, folder: Path, n_features: int
) -> tuple[list[Any], KeepBestCallback | None]:
    """Make the callbacks; returns them, and the one of them that keeps the best policy, if any."""
    logger = CodebookCallback(args.log_freq, dimensions=shown_dimensions(n_features))
    callbacks: list[Any] = [logger, LogEveryNTimesteps(args.log_freq)]
    if not args.eval_freq:
        return callbacks, None
    keeper = KeepBestCallback(
        make_environments(args.env_id, CHOICE_EPISODES, CHOICE_SEED + args.seed),
        CHOICE_EPISODES,
        eval_freq=max(args.eval_freq // args.n_envs, 1),
        log_path=str(folder),
        restore=False,  # only after the last checkpoint has been written
    )
    return [keeper, *callbacks], keeper


def train(
    model: OnlineAlgorithm, args: Args, callbacks: list[Any], checkpoints: Checkpoints, console: Console
) -> tuple[str | None, int]:
    """Train for the steps that are left, and write a checkpoint.

    Returns why it ended early, None if it did not, and the exit code.
    """
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
            return "interrupted", INTERRUPTED  # no checkpoint: the state may be inconsistent
        except (BadTransitionError, ArithmeticError) as error:
            trouble = str(error)
        except Exception as error:  # of the environment, for example: keep what was learned
            traceback.print_exc()
            trouble = f"{type(error).__name__}: {error}"
        else:
            is_cut = signals and model.num_timesteps < args.total_timesteps
            trouble = "interrupted" if is_cut else None
        checkpoints.write()
        return trouble, code_of(signals[0]) if trouble == "interrupted" else int(trouble is not None)


def evaluate(model: OnlineAlgorithm, env_id: str, episodes: int, seed: int) -> list[float]:
    """The returns of greedy episodes on new environments."""
    environments = make_environments(env_id, episodes, seed)
    returns, _ = evaluate_policy(model, environments, episodes, return_episode_rewards=True)
    environments.close()
    return list(returns)  # type: ignore[arg-type]


def show(console: Console, folder: Path, result: dict[str, Any]) -> None:
    """Print the table of results, and commands to type next."""
    resumed = f" since step {result['timed_from']:,}" if result["timed_from"] else ""
    rows = [
        (f"return over {result['episodes']} greedy episodes, mean", f"{result['mean']:.1f}"),
        ("  standard deviation", f"{result['sd']:.1f}"),
        ("cells", f"{result['n_cells']}"),
        ("numbers stored to act", f"{result['n_parameters']:,}"),
        ("environment steps", f"{result['steps']:,}"),
        ("  of which before the kept policy", f"{result['kept_at']:,}"),
        (f"seconds{resumed}, including evaluations during training", f"{result['seconds']:.1f}"),
        ("model file", f"{result['file_bytes'] / 1000:.1f} kB"),
    ]
    title = f"{result['env_id']}, seed {result['seed']}"
    show_table(console, title, (result["algorithm"], ""), rows)
    is_drawn = ", its picture in training.png" if result["n_cells"] else ""
    logs, file = quote(str(folder.parent.parent)), quote(str(folder / "model.npz"))
    for line in (
        f"The run is in {folder}{is_drawn}. Next:",
        f"  tensorboard --logdir {logs}",
        f"  {evaluate_command(file, result['env_id'])}",
        f"  python scripts/explain.py {file}",
    ):
        print_line(console, line)


def begin(args: Args, say: Any) -> tuple[Args, Path, OnlineAlgorithm, dict[str, Any] | None]:
    """Make a model and the folder of its run, or load the last checkpoint of a run.

    Returns the options of the run, its folder, the model, and the stored state of callbacks.
    """
    folder, args = (None, args) if args.resume is None else resume(args)
    env_id = find_training_id(args)
    environment = make_vec_env(env_id, args.n_envs, seed=args.seed)
    kind = getattr(oda_rl.agents, args.algorithm)
    twin = "" if env_id == args.env_id else f" (in {env_id}, its compiled equivalent)"
    run = None
    if folder is None:
        model = kind(env=environment, seed=args.seed, config=args.agent)
        folder = make_run_folder(args)  # not before, as the model may be refused
        lock_run(folder)
        write_config(folder, args)
        say(f"Training on {args.env_id} for {args.total_timesteps:,} steps{twin}.")
    else:
        model, run = load_last(folder, kind, environment)
        steps = f"step {model.num_timesteps:,} of {args.total_timesteps:,}"
        say(f"Resuming {folder} from {steps}{twin}.")
    if env_id.endswith(f":{model.env_id}"):
        model.env_id = env_id  # the environment's own id lacks the module that registers it
    board = SteadyTensorBoard(folder, model.num_timesteps + 1 if run else None, say)
    model.set_logger(Logger(str(folder), [board]))
    return args, folder, model, run


def main(args: Args) -> int:
    """Train, save, evaluate, print."""
    console = make_console()
    say = partial(print_line, console)
    try:
        args, folder, model, run = begin(args, say)
        callbacks, keeper = make_callbacks(args, folder, model.observations.n_features)
        checkpoints = Checkpoints(folder, args.save_freq, callbacks, say)
        if run is not None:
            checkpoints.restore(model, run)
            store_total(folder, args)  # if this process is killed, the next one continues to it
    except (OSError, ValueError, ImportError, gym.error.Error) as error:
        say(f"The training cannot start: {reason_of(error)}")
        return 2
    begun = time.perf_counter()
    trouble, code = train(model, args, callbacks, checkpoints, console)
    seconds = time.perf_counter() - begun
    if keeper is not None and args.keep_best:
        keeper.give_back()
    try:
        model.save(folder / "model.npz")
    except OSError as error:
        say(f"The model cannot be written: {error}. {tell_last(folder)}")
        return 1
    model.logger.close()
    if trouble:
        print_how_to_resume(model, folder, trouble, say)
    try:
        finish(model, args, folder, keeper, seconds, trouble, console)
    except KeyboardInterrupt:
        say(f"Interrupted. The model is in {folder}.")
        return code or INTERRUPTED
    except Exception as error:  # of the environment, as above
        traceback.print_exc()
        say(f"The evaluation failed, {type(error).__name__}: {error}. The model is in {folder}.")
        return 1
    return code


def print_how_to_resume(
    model: OnlineAlgorithm, folder: Path, trouble: str, say: Callable[[str], None]
) -> None:
    """Print why the training ended early, where the model is, and how to resume."""
    say(f"The training ended early: {trouble}")
    say(f"The model, as it was after {model.num_timesteps:,} steps, is in {folder}.")
    if steps := last_step(folder):
        say(f"To resume from step {steps:,}:")
        say(f"  python scripts/train.py --resume {quote(str(folder))}")


@interrupts_wait
def find_draw() -> Any:
    """Import `draw` when it is needed; Ctrl-C waits, as it would leave the module half imported."""
    from common.training_picture import draw

    return draw


def finish(
    model: OnlineAlgorithm,
    args: Args,
    folder: Path,
    keeper: KeepBestCallback | None,
    seconds: float,
    trouble: str | None,
    console: Console,
) -> None:
    """Evaluate and draw the saved model, and write and print the results."""
    returns = evaluate(model, args.env_id, args.eval_episodes, RESULT_SEED + args.seed)
    kept_at = model.num_timesteps
    if args.keep_best and keeper is not None and keeper.best is not None:
        kept_at = keeper.best_timesteps
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
        "kept_at": kept_at,
        "seconds": seconds,
        "timed_from": model._num_timesteps_at_start,  # of a resumed run, where it went on
        "file_bytes": (folder / "model.npz").stat().st_size,
        "ended_early": trouble,
    }
    write_config(folder, args, result)
    if model.n_cells:
        shown = shown_dimensions(model.learner.sizes.n_observed)
        find_draw()(folder, args.env_id, model, keeper, shown)
    show(console, folder, result)


if __name__ == "__main__":
    run_and_exit(lambda: main(parse()))
