"""Evaluate a trained model, watch it, or record it.

python scripts/evaluate.py logs/CartPole-v1/TwoTimescaleQ_0_1/model.npz
python scripts/evaluate.py MODEL --render
python scripts/evaluate.py MODEL --video-dir videos --episodes 3
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.wrappers import RecordVideo
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


@dataclass
class Args:
    """Evaluate the greedy policy of a model file that `train.py` wrote."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    env_id: str | None = None
    """Environment; the one that the model was trained on if not given."""
    episodes: int = 100
    """Episodes to run; with --render 5 are enough."""
    seed: int = 0
    """Seeds the environment."""
    render: bool = False
    """Show the episodes in a window."""
    video_dir: Path | None = None
    """Record the episodes into this folder (needs moviepy: pip install 'oda_rl[video]')."""


def make_environment(args: Args, env_id: str) -> gym.Env:
    """The environment, rendered as wanted."""
    mode = "human" if args.render else "rgb_array" if args.video_dir else None
    environment = gym.make(env_id, render_mode=mode)
    if args.video_dir:
        environment = RecordVideo(
            environment,
            str(args.video_dir),
            # the vectorised environment begins one episode more than is evaluated
            episode_trigger=lambda n: n < args.episodes,
            disable_logger=True,
        )
    return Monitor(environment)


def show(console: Console, env_id: str, model: OnlineAlgorithm, results: np.ndarray) -> None:
    """The table; `results` has a row of returns and one of lengths."""
    returns, lengths = results
    table = Table(title=f"{env_id}, greedy policy", title_justify="left")
    table.add_column(type(model).__name__)
    table.add_column("", justify="right")
    table.add_row("episodes", f"{len(returns)}")
    table.add_row("return, mean", f"{returns.mean():.1f}")
    table.add_row("  standard deviation", f"{returns.std():.1f}")
    table.add_row("  least and most", f"{returns.min():.1f} to {returns.max():.1f}")
    table.add_row("length, mean", f"{lengths.mean():.1f}")
    table.add_row("cells", f"{model.n_cells}")
    table.add_row("numbers stored to act", f"{model.n_parameters:,}")
    console.print(table)


def main(args: Args) -> int:
    """Load, evaluate, tell."""
    console = Console()
    try:
        model = load_model(args.model)
    except (FileNotFoundError, ValueError) as error:
        console.print(f"Cannot load the model: {error}", highlight=False, soft_wrap=True)
        return 1
    env_id = args.env_id or model.env_id
    if env_id is None:
        console.print("The model does not say what it was trained on: give --env-id.")
        return 1
    environment = DummyVecEnv([lambda: make_environment(args, env_id)])
    environment.seed(args.seed)
    try:
        results = evaluate_policy(
            model, environment, args.episodes, return_episode_rewards=True, render=args.render
        )
    except KeyboardInterrupt:
        console.print("Interrupted.")
        return 1
    finally:
        environment.close()
    show(console, env_id, model, np.array(results))
    if args.video_dir:
        console.print(f"The episodes are in {args.video_dir}.", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args)))
