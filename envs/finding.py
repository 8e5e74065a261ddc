"""Looking for compiled dynamics behind wrappers, and handing an episode over and back."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import ArrayLike

from oda_rl.envs.compiled import CompiledEnv
from oda_rl.envs.dynamics import CompiledDynamics


def find_dynamics(env: gym.Env) -> CompiledDynamics | None:
    """Find the compiled dynamics of an environment, if it has them and they tell all.

    Wrappers that only look on are passed: Gymnasium's TimeLimit, OrderEnforcing and PassiveEnvChecker,
    and Stable-Baselines3's Monitor. Any other could change observations or rewards.

    Parameters
    ----------
    env : gymnasium.Env
        An environment, wrapped or not.

    Returns
    -------
    CompiledDynamics or None
        None for other environments, other wrappers or subclasses of them, an environment whose class
        overrides `step` or `reset` but not the kernels, and one that a person watches
        (`render_mode="human"`).

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> find_dynamics(gym.make("oda_rl/CartPole-v1")).time_limit
    500
    >>> find_dynamics(gym.make("CartPole-v1")) is None
    True
    """
    time_limit: int | None = None
    for wrapper in _wrappers(env):
        if not _only_looks_on(wrapper):
            return None
        if type(wrapper) is TimeLimit:
            limit = wrapper._max_episode_steps
            time_limit = limit if time_limit is None else min(limit, time_limit)
    inner = env.unwrapped
    if not isinstance(inner, CompiledEnv) or inner.render_mode == "human" or not _tells_all(inner):
        return None
    return replace(inner.dynamics, time_limit=time_limit)


def get_elapsed_steps(env: gym.Env) -> int:
    """Steps of the running episode, as the TimeLimit wrapper counts them; 0 if there is none.

    Parameters
    ----------
    env : gymnasium.Env
        An environment in which `reset` has been called.
    """
    counts = [w._elapsed_steps or 0 for w in _wrappers(env) if isinstance(w, TimeLimit)]
    return max(counts, default=0)


def hand_back(env: gym.Env, state: ArrayLike, elapsed_steps: int) -> None:
    """Let the environment go on where a compiled loop has stopped.

    Parameters
    ----------
    env : gymnasium.Env
        The environment that `find_dynamics` was given, in which `reset` has been called.
    state : array-like of shape (state_size,)
        The state that the loop has reached.
    elapsed_steps : int
        Steps of the running episode so far; the TimeLimit wrapper goes on counting from there.

    Raises
    ------
    ValueError
        If the environment has no compiled dynamics, or the state not its shape.
    """
    inner = env.unwrapped
    if not isinstance(inner, CompiledEnv):
        raise ValueError(f"env must have compiled dynamics; {inner} has none")
    inner.set_state(state)
    for wrapper in _wrappers(env):
        if isinstance(wrapper, TimeLimit):
            counter: Any = wrapper
            counter._elapsed_steps = elapsed_steps


def _wrappers(env: gym.Env) -> Iterator[Any]:
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def _only_looks_on(wrapper: gym.Wrapper) -> bool:
    kind = type(wrapper)
    if kind in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
        return True
    # By its name, as this package does without Stable-Baselines3.
    return (kind.__module__, kind.__qualname__) == ("stable_baselines3.common.monitor", "Monitor")


def _tells_all(env: CompiledEnv) -> bool:
    """Whether `step` and `reset` are those that the kernels were written for."""
    if {"step", "reset"} & vars(env).keys():
        return False
    mro = type(env).__mro__

    def depth(name: str) -> int:
        return next(i for i, kind in enumerate(mro) if name in vars(kind))

    return depth("step") >= depth("step_kernel") and depth("reset") >= depth("reset_kernel")
