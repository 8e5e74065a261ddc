"""The tasks of the benchmarks: the steps of a run, and the best return that is known.

`TASKS` are the six of classic control with the steps of the README; `SUITE` has these and others of
many kinds, with fewer steps. If Gymnasium's own environment never ends for a policy that goes in
circles, or has observations that SB3's agents cannot read, a variant is registered under `suite/`.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FlattenObservation

import oda_rl.envs
from oda_rl.envs.names import find_env_spec

DEFAULT_STEPS = 200_000
SUITE_STEPS = 50_000


@dataclass(frozen=True)
class Task:
    """One task: the steps of a run, and the returns to compare with."""

    env_id: str
    """Environment; with compiled dynamics, if any, that give the same numbers as Gymnasium's."""
    steps: int
    """Environment steps of a run."""
    best: float
    """The best return known, or the best possible."""
    source: str
    """Who has reached it, or how it was computed."""
    flat_id: str | None = None
    """The same task for agents that cannot read its observations (SB3's: tuples)."""
    package: str | None = None
    """A package that it needs; the extra of the same name in lower case installs it."""
    threshold: float | None = None
    """Return that counts as solved where Gymnasium names none."""

    @property
    def name(self) -> str:
        """The id without prefixes, as in Gymnasium."""
        return short_name(self.env_id)

    @property
    def missing(self) -> str | None:
        """What it needs that is not installed, its package or a later Gymnasium; None for nothing."""
        if self.package is not None and find_spec(self.package) is None:
            return f"pip install 'oda_rl[{self.package.lower()}]'"
        if "/" not in self.env_id and self.env_id not in gym.registry:
            return f"Gymnasium {gym.__version__} does not have it"
        return None


TASKS = (
    Task("oda_rl/CartPole-v1", 200_000, 500, "the most possible"),
    Task("oda_rl/CartPoleFriction-v0", 300_000, 1000, "the most possible"),
    Task("oda_rl/Acrobot-v1", 500_000, -69.1, "RL Zoo, QR-DQN"),
    Task("oda_rl/MountainCar-v0", 500_000, -100.8, "RL Zoo, DQN"),
    Task("oda_rl/Pendulum-v1", 500_000, -151.3, "RL Zoo, TQC", threshold=-200),
    Task("oda_rl/MountainCarContinuous-v0", 500_000, 96.7, "RL Zoo, ARS"),
)

ATARI_GAMES = ("boxing", "breakout", "freeway", "pong", "space_invaders")
# The longest episode of an Atari game, five minutes, as in "Revisiting the Arcade Learning Environment:
# Evaluation Protocols and Open Problems for General Agents" (Machado et al., JAIR 2018)
ATARI_FRAMES = 18_000

_DIVES = (10, 20, 30, 40, 50)
_WINDY = 20
_EXACT = "backward induction"
SUITE = (
    *(replace(task, steps=SUITE_STEPS) for task in TASKS),
    Task("FrozenLake-v1", SUITE_STEPS, 0.744, _EXACT),
    Task("FrozenLake8x8-v1", SUITE_STEPS, 0.913, _EXACT),
    Task("suite/CliffWalking-v1", SUITE_STEPS, -13, "the shortest way"),
    Task("Taxi-v4", SUITE_STEPS, 7.93, _EXACT),
    Task(
        "Blackjack-v1",
        SUITE_STEPS,
        -0.043,
        "Sutton and Barto's game, dynamic programming",
        flat_id="suite/BlackjackFlat-v1",
    ),
    *(Task(f"suite/DeepSea{n}-v0", 10_000 * n, 0.99, "the most possible") for n in _DIVES),
    Task(
        f"suite/DeepSeaStochastic{_WINDY}-v0",
        10_000 * _WINDY,
        (1 - 1 / _WINDY) ** (_WINDY - 1) - 0.01,
        "expected, always to the right",
    ),
    Task("oda_rl/Catch-v0", SUITE_STEPS, 1, "the most possible"),
    Task("oda_rl/CartPoleSwingup-v0", 2 * SUITE_STEPS, 700, "bsuite's analysis"),
    Task("InvertedPendulum-v5", SUITE_STEPS, 1000, "the most possible", package="mujoco"),
    Task("InvertedDoublePendulum-v5", SUITE_STEPS, 9364, "Tianshou, DDPG, v2", package="mujoco"),
    Task("Reacher-v5", SUITE_STEPS, -2.6, "Tianshou, SAC, v2", package="mujoco"),
    Task("Swimmer-v5", SUITE_STEPS, 359, "RL Zoo, TD3, v3", package="mujoco"),
    Task("Hopper-v5", SUITE_STEPS, 3754, "RL Zoo, TQC, v3", package="mujoco"),
    Task(
        "LunarLander-v3",
        2 * SUITE_STEPS,
        245,
        "Kohler's interpretable-rl-zoo, a network",
        package="Box2D",
    ),
    Task("LunarLanderContinuous-v3", 2 * SUITE_STEPS, 278, "RL Zoo, TQC, v2", package="Box2D"),
    Task("BipedalWalker-v3", 2 * SUITE_STEPS, 330, "RL Zoo, TQC", package="Box2D"),
    Task("suite/MiniGrid-Empty-8x8-v0", SUITE_STEPS, 0.961, "the shortest way", package="minigrid"),
    Task("suite/MiniGrid-DoorKey-6x6-v0", SUITE_STEPS, 0.97, "a dozen steps of 360", package="minigrid"),
)


def short_name(env_id: str) -> str:
    """An id without the prefix of the compiled twins and of the variants."""
    return env_id.removeprefix("oda_rl/").removeprefix("suite/")


def find_task(env_id: str, tasks: tuple[Task, ...] = TASKS) -> Task | None:
    """The task of an environment or of its compiled twin; None if it is not among `tasks`."""
    return next((task for task in tasks if task.name == short_name(env_id)), None)


def find_threshold(env_id: str) -> float:
    """The return that counts as solved: Gymnasium's threshold, else the task's, else infinity."""
    threshold = find_env_spec(env_id).reward_threshold
    if threshold is not None:
        return threshold
    task = find_task(env_id)
    return np.inf if task is None or task.threshold is None else task.threshold


# -- variants of environments ------------------------------------------------------------------------


def make_flat(env_id: str, **options: Any) -> gym.Env:
    """Make an environment with observations flattened into one vector (MiniGrid's: the view only)."""
    if not env_id.startswith("MiniGrid"):
        return FlattenObservation(gym.make(env_id, **options))
    from minigrid.wrappers import ImgObsWrapper  # which also registers its environments

    return FlattenObservation(ImgObsWrapper(gym.make(env_id, **options)))


def make_pictured(env_id: str, **options: Any) -> gym.Env:
    """Make an environment of MiniGrid that is seen from above, as an image of 8 by 8 pixels a field."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    return ImgObsWrapper(RGBImgObsWrapper(gym.make(env_id, **options)))


def register_variants() -> None:
    """Register the suite's variants of environments, unless they are registered.

    Call it in every process that trains: functions of this module may be sent there without an import.
    """
    assert oda_rl.envs  # registers the compiled ones
    variants: dict[str, tuple[Any, int | None, dict[str, Any]]] = {
        # Gymnasium's has no time limit
        "suite/CliffWalking-v1": (gym.spec("CliffWalking-v1").entry_point, 200, {}),
        "suite/BlackjackFlat-v1": (make_flat, None, {"env_id": "Blackjack-v1"}),
        f"suite/DeepSeaStochastic{_WINDY}-v0": (
            *("oda_rl.envs.bsuite:DeepSea", None),
            {"size": _WINDY, "stochastic": True},
        ),
    }
    for n in _DIVES:
        variants[f"suite/DeepSea{n}-v0"] = ("oda_rl.envs.bsuite:DeepSea", None, {"size": n})
    for name in ("MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-6x6-v0"):
        variants[f"suite/{name}"] = (make_flat, None, {"env_id": name})
    pictured = "MiniGrid-Empty-8x8"
    variants[f"suite/{pictured}-Pictured-v0"] = (make_pictured, None, {"env_id": f"{pictured}-v0"})
    memory = {"obs_type": "ram", "max_num_frames_per_episode": ATARI_FRAMES}  # of 128 bytes
    for game in ATARI_GAMES:
        name = game.title().replace("_", "")
        variants[f"suite/{name}-ram-v5"] = ("ale_py:AtariEnv", None, {"game": game, **memory})
    for env_id, (entry_point, limit, options) in variants.items():
        if env_id not in gym.registry:  # the registry of this process, not a copy
            gym.register(env_id, entry_point, max_episode_steps=limit, kwargs=options)


register_variants()
