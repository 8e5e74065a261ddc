"""Environments: compiled classic control, tasks of bsuite, and a base class for your own.

Importing this module registers with Gymnasium `oda_rl/CartPole-v1`, `oda_rl/MountainCar-v0`,
`oda_rl/MountainCarContinuous-v0`, `oda_rl/Acrobot-v1` and `oda_rl/Pendulum-v1`, which are numerically
identical to Gymnasium's, `oda_rl/CartPoleFriction-v0`, and three tasks of bsuite, `oda_rl/DeepSea-v0`,
`oda_rl/Catch-v0` and `oda_rl/CartPoleSwingup-v0`. Names are imported when they are first used.

>>> import gymnasium as gym
>>> import oda_rl.envs
>>> env = gym.make("oda_rl/CartPole-v1")
"""

from typing import TYPE_CHECKING

from gymnasium.envs.registration import register, registry

from oda_rl._lazy import lazy_names

if TYPE_CHECKING:
    from oda_rl.envs.aggregation import StateAggregation, VectorStateAggregation
    from oda_rl.envs.compiled import CompiledEnv
    from oda_rl.envs.dynamics import (
        CompiledDynamics,
        CompiledFunction,
        StartBlock,
        find_dynamics,
        find_twin,
        get_elapsed_steps,
        hand_back,
    )

__all__ = [
    "CompiledDynamics",
    "CompiledEnv",
    "CompiledFunction",
    "StartBlock",
    "StateAggregation",
    "VectorStateAggregation",
    "find_dynamics",
    "find_twin",
    "get_elapsed_steps",
    "hand_back",
]

_HOMES = {
    "aggregation": ("StateAggregation", "VectorStateAggregation"),
    "compiled": ("CompiledEnv",),
    "dynamics": (
        *("CompiledDynamics", "CompiledFunction", "StartBlock", "find_dynamics", "find_twin"),
        *("get_elapsed_steps", "hand_back"),
    ),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

# id: class, time limit, reward threshold. Those of classic control are Gymnasium's own, except for the
# cart-pole with friction. Tasks of bsuite end by themselves.
_TASKS: dict[str, tuple[str, int | None, float | None]] = {
    "oda_rl/CartPole-v1": ("classic:CartPole", 500, 475.0),
    "oda_rl/CartPoleFriction-v0": ("classic:CartPoleFriction", 1000, 975.0),
    "oda_rl/MountainCar-v0": ("classic:MountainCar", 200, -110.0),
    "oda_rl/MountainCarContinuous-v0": ("classic:MountainCarContinuous", 999, 90.0),
    "oda_rl/Acrobot-v1": ("classic:Acrobot", 500, -100.0),
    "oda_rl/Pendulum-v1": ("classic:Pendulum", 200, None),
    "oda_rl/DeepSea-v0": ("bsuite:DeepSea", None, 0.99),
    "oda_rl/Catch-v0": ("bsuite:Catch", None, 1.0),
    "oda_rl/CartPoleSwingup-v0": ("bsuite:CartPoleSwingup", None, 500.0),
}

for _id, (_name, _limit, _threshold) in _TASKS.items():
    if _id not in registry:  # a reload of this module would cause a warning
        register(
            id=_id,
            entry_point=f"oda_rl.envs.{_name}",
            max_episode_steps=_limit,
            reward_threshold=_threshold,
        )
