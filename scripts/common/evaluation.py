"""Environments in which policies are evaluated or shown, and the command that does so."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import VecEnv

from oda_rl.agents.sb3.evaluation import make_evaluation_envs
from oda_rl.envs.names import REGISTERING, find_foreign_module

# Extras of this package that have what environments of Gymnasium import, by the name of the module
EXTRAS = {"Box2D": "box2d", "mujoco": "mujoco", "minigrid": "minigrid", "ale_py": "atari"}
# Largest number of environments at once
MOST_ENVS = 100


def make_environments(env_id: str, episodes: int, seed: int, **kwargs: Any) -> VecEnv:
    """Environments for some greedy episodes: one for each episode, `MOST_ENVS` at most."""
    return make_evaluation_envs(env_id, min(episodes, MOST_ENVS), seed, **kwargs)


def reason_of(error: Exception) -> str:
    """The message of an error in making an environment.

    For a missing package of which this one has an extra, it names that: Gymnasium would name packages
    which must be compiled.
    """
    name = getattr(error.__cause__ or error, "name", None)
    if isinstance(error, ImportError | gym.error.DependencyNotInstalled) and name in EXTRAS:
        return f'{name} is not installed: pip install -c constraints.txt -e ".[agents,{EXTRAS[name]}]"'
    return str(error)


@contextmanager
def refused_in_a_line(beginning: str, *more: type[Exception], end: str = "") -> Iterator[None]:
    """Exit with 1 and a line, the reason after `beginning`, if a file, option or environment is refused.

    `more` are further errors to report so; `end` follows the reason.
    """
    try:
        yield
    except (FileNotFoundError, ImportError, ValueError, gym.error.Error, *more) as error:
        print(f"{beginning}: {reason_of(error)}{end}")
        sys.exit(1)


def render_modes(env_id: str, **kwargs: Any) -> list[str]:
    """The render modes of an environment. Raises the errors of `gymnasium.make`."""
    env = gym.make(env_id, **kwargs)
    modes = env.metadata.get("render_modes") or ()
    env.close()
    return list(modes)


def evaluate_command(model: str, env_id: str | None) -> str:
    """The command that evaluates a model, in a window if its environment can be shown in one.

    An id whose module a file may not name is a part of the command.
    """
    module = (env_id or "").rpartition(":")[0]
    given = f" --env-id {quote(str(env_id))}" if module and module not in REGISTERING else ""
    try:
        known = env_id is not None and find_foreign_module(env_id) is None
        seen = known and "human" in render_modes(str(env_id))
    except (gym.error.Error, ImportError):
        seen = False  # the environment is not installed here
    return f"python scripts/evaluate.py {model}{given}{' --render' if seen else ''}"
