"""The state of an environment as plain values, from which a saved training continues exactly.

Gymnasium has no interface for this. The generator `np_random` can be stored for any environment; the
state is known for those with compiled dynamics, and for Gymnasium's classic control and toy text. If it
is not known, or if a wrapper may have a state of its own, a new episode begins, drawn from the same
random stream.
"""

from typing import Any

import gymnasium as gym
import numpy as np

from oda_rl.envs.dynamics import get_elapsed_steps, kernels_describe
from oda_rl.envs.wrapper_chain import find_monitor, has_passive_wrappers_only, restore_counters

# Attributes that the next steps of these classes depend on; older versions of Gymnasium lack some
_CONTROL, _TOY = "gymnasium.envs.classic_control.", "gymnasium.envs.toy_text."
STATES = {
    f"{_CONTROL}cartpole:CartPoleEnv": ("state", "steps_beyond_terminated"),
    f"{_CONTROL}mountain_car:MountainCarEnv": ("state",),
    f"{_CONTROL}continuous_mountain_car:Continuous_MountainCarEnv": ("state",),
    f"{_CONTROL}acrobot:AcrobotEnv": ("state",),
    f"{_CONTROL}pendulum:PendulumEnv": ("state",),
    f"{_TOY}frozen_lake:FrozenLakeEnv": ("s",),
    f"{_TOY}cliffwalking:CliffWalkingEnv": ("s",),
    f"{_TOY}taxi:TaxiEnv": ("s", "fickle_step"),
    f"{_TOY}blackjack:BlackjackEnv": ("player", "dealer"),
}


def capture(env: gym.Env) -> dict[str, Any]:
    """Capture the state of an environment, its generator, and its counts of steps and rewards.

    Parameters
    ----------
    env : gymnasium.Env
        An environment, in any wrappers.

    Returns
    -------
    dict
        Plain values and arrays, for `restore`. `state` is None if it is not known.

    Examples
    --------
    >>> import gymnasium as gym
    >>> env, twin = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    >>> _ = env.reset(seed=0), env.step(1)
    >>> restore(twin, capture(env))
    True
    >>> bool((env.step(1)[0] == twin.step(1)[0]).all())
    True
    """
    monitor, inner = find_monitor(env), env.unwrapped
    return {
        "kind": kind_of(inner),
        "generator": _get_generator(inner),
        "state": _get_state(inner) if has_passive_wrappers_only(env) else None,
        "elapsed": max(get_elapsed_steps(env), len(monitor.rewards) if monitor else 0),
        "total": float(sum(monitor.rewards)) if monitor else 0.0,
    }


def restore(env: gym.Env, stored: dict[str, Any]) -> bool:
    """Continue in an environment from where another one of its class was captured.

    Parameters
    ----------
    env : gymnasium.Env
        The environment.
    stored : dict
        From `capture`.

    Returns
    -------
    bool
        Whether it continues in the middle of the episode. If not, it has to be reset; if it is of the
        same class, its generator has been restored all the same.
    """
    inner: Any = env.unwrapped
    if stored["kind"] != kind_of(inner):
        return False
    state, generator = stored["state"], stored["generator"]
    known = state is not None and has_passive_wrappers_only(env)
    if known:
        env.reset()
        _set_state(inner, state)
        restore_counters(env, stored["elapsed"], stored["total"])
    own = _get_generator(inner)
    if generator and own and own["bit_generator"] == generator["bit_generator"]:
        inner.np_random.bit_generator.state = generator
    return known


def kind_of(env: gym.Env) -> str:
    """The name of the class of an environment without its wrappers."""
    inner = env.unwrapped
    return f"{type(inner).__module__}:{type(inner).__qualname__}"


def _get_generator(inner: gym.Env) -> dict[str, Any] | None:
    generator = getattr(inner, "np_random", None)
    if not isinstance(generator, np.random.Generator):
        return None
    state = dict(generator.bit_generator.state)
    return state if state["bit_generator"] == "PCG64" else None  # Gymnasium's default


def _get_state(inner: Any) -> Any:
    from oda_rl.envs.compiled import CompiledEnv

    if isinstance(inner, CompiledEnv):
        return inner.get_state() if inner.is_under_way and kernels_describe(inner) else None
    names = STATES.get(kind_of(inner), ())
    if not names or inner.__dict__.get(names[0]) is None:
        return None
    return {name: _plain(getattr(inner, name)) for name in names if hasattr(inner, name)}


def _set_state(inner: Any, state: Any) -> None:
    if isinstance(state, dict):
        _check_numbers(inner, state)
        names = [name for name in STATES[kind_of(inner)] if hasattr(inner, name)]
        vars(inner).update({name: _plain(state[name]) for name in names})
    else:
        inner.set_state(state)


def _check_numbers(inner: Any, state: dict[str, Any]) -> None:
    """Raise a ValueError if the index of a state, or the value of a card, does not exist."""
    if "s" in state and not inner.observation_space.contains(state["s"]):
        raise ValueError(f"s must be in {inner.observation_space}, got {state['s']!r}")
    for hand in ("player", "dealer"):
        cards = state.get(hand, [1])
        if not isinstance(cards, list) or not cards or not set(cards) <= set(range(1, 11)):
            raise ValueError(f"{hand} must be a list of cards from 1 to 10, got {cards!r}")


def _plain(value: Any) -> Any:
    """Copy a value, in a form that can be stored in a file."""
    if isinstance(value, np.integer):
        return int(value)
    return value.copy() if isinstance(value, np.ndarray | list) else value
