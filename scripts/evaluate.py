"""Evaluate a trained model, watch it, or record it.

python scripts/evaluate.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz
python scripts/evaluate.py MODEL --render
python scripts/evaluate.py MODEL --video-dir videos --episodes 3
"""

from common.ending import run_and_exit

from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.wrappers import RecordVideo
from rich.console import Console
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from common.arguments import Count, Positive, check_folder
from common.evaluation import make_environments, refused_in_a_line, render_modes
from common.tables import make_console, print_line, show_table
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.env_origin import EnvOrigin, find_environment

# What to do for an environment that cannot be made again
OTHERWISE = (
    " Give --env-id: the id of an environment, also of one registered by your own module (module:id). "
    "Or evaluate in Python, with evaluate_policy(model, env) of Stable-Baselines3."
)


@dataclass
class Args:
    """Evaluate the greedy policy of a model file that `train.py` wrote."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    env_id: str | None = None
    """Environment; by default the one that the model was trained on."""
    episodes: Positive = 100
    """Episodes to run; 5 are enough with --render."""
    seed: Count = 0
    """Seed of the environment."""
    render: bool = False
    """Show the episodes in a window."""
    video_dir: Path | None = None
    """Record the episodes into this folder (needs moviepy: pip install 'oda_rl[video]')."""


def choose_environments(args: Args, env_id: str, kwargs: dict[str, Any]) -> VecEnv:
    """Many environments at once, or a single one that is shown or recorded.

    `kwargs` go to `gymnasium.make`. Raises its errors, or a ValueError if there is no such render mode.
    """
    mode = find_mode(args)
    if mode is not None:
        if mode not in (known := render_modes(env_id, **kwargs)):
            option, modes = "--render" if args.render else "--video-dir", ", ".join(known) or "none"
            raise ValueError(f"it has no render mode {mode} (it has {modes}): omit {option}.")
        envs: VecEnv = DummyVecEnv([lambda: make_visible(args, env_id, kwargs)])
        envs.seed(args.seed)
        return envs
    return make_environments(env_id, args.episodes, args.seed, **kwargs)


def find_mode(args: Args) -> str | None:
    """The render mode that the options require; None for none."""
    return "human" if args.render else "rgb_array" if args.video_dir else None


def make_visible(args: Args, env_id: str, kwargs: dict[str, Any]) -> gym.Env:
    """Make an environment that is rendered, and recorded if there is a folder for videos."""
    environment = gym.make(env_id, **{**kwargs, "render_mode": find_mode(args)})
    if args.video_dir:
        environment = RecordVideo(
            environment,
            str(args.video_dir),
            # the vectorised environment begins one episode more than is evaluated
            episode_trigger=lambda n: n < args.episodes,
            disable_logger=True,
        )
    return Monitor(environment)


def check_spaces(model: OnlineAlgorithm, environments: VecEnv) -> None:
    """Raise a ValueError unless the model accepts the observations and its actions are valid."""
    shown, done = deepcopy(environments.observation_space), environments.action_space
    action, _ = model.predict(shown.sample(), deterministic=True)
    codec = model.actions
    actions = [action] if codec.is_continuous else codec.decode_many(np.arange(codec.n_actions))
    if not all(done.contains(np.asarray(one)) for one in actions):
        raise ValueError(f"its actions are in {codec.space}, but those of the environment are in {done}")


def show(console: Console, name: str, model: OnlineAlgorithm, results: np.ndarray) -> None:
    """Print the results in an environment; `results` has a row of returns and one of lengths."""
    returns, lengths = results
    rows = [
        ("episodes", f"{len(returns)}"),
        ("return, mean", f"{returns.mean():.1f}"),
        ("  standard deviation", f"{returns.std():.1f}"),
        ("  minimum and maximum", f"{returns.min():.1f} to {returns.max():.1f}"),
        ("length, mean", f"{lengths.mean():.1f}"),
        ("cells", f"{model.n_cells}"),
        ("numbers stored to act", f"{model.n_parameters:,}"),
    ]
    show_table(console, f"{name}, greedy policy", (type(model).__name__, ""), rows)


def show_notes(console: Console, args: Args, model: OnlineAlgorithm) -> None:
    """Print where videos are, and what changed the rewards in the training, unless an id is given."""
    changed = ", ".join(model.env_origin.lacks())
    if changed and not args.env_id:
        print_line(
            console, f"The rewards are those of {model.env_id}; in the training {changed} changed them."
        )
    if args.video_dir:
        print_line(console, f"The videos are in {args.video_dir}.")


def main(args: Args) -> int:
    """Load, evaluate, print."""
    console = make_console()
    with refused_in_a_line("Cannot record the episodes"):
        check_folder("--video-dir", args.video_dir)
    with refused_in_a_line("Cannot load the model"):
        model = load_model(args.model)
    with refused_in_a_line("Cannot make the environment", end=OTHERWISE):
        env_id, kwargs = (args.env_id, {}) if args.env_id else find_environment(model, exactly=False)
    name = EnvOrigin(kwargs).describe(env_id)
    with refused_in_a_line(f"Cannot make the environment {name}"):
        environments = choose_environments(args, env_id, kwargs)
    with closing(environments):
        with refused_in_a_line(f"The model does not fit {name}"):
            check_spaces(model, environments)
        results = np.array(
            evaluate_policy(
                model, environments, args.episodes, return_episode_rewards=True, render=args.render
            )
        )
    show(console, name, model, results)
    show_notes(console, args, model)
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
