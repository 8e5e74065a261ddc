"""What an agent finds out about its observations before it begins to learn."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl.agents.codecs import LOOKED_AT, PART, OneHotCodec, PrincipalCodec

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


def look_for_states(model: "OnlineAlgorithm") -> None:
    """Use observations as state indices, if the first ones are one-hot."""
    possible = model.knows_tables and not model.actions.is_continuous and not model.one_hot
    if possible and model.num_timesteps == 0 and model.learner.n_learned == 0:
        model.one_hot = OneHotCodec.suits(model.observation_space, model._last_obs)
        if model.one_hot:
            model._build()


def look_for_components(model: "OnlineAlgorithm") -> None:
    """Act at random to find the principal components of large observations; the steps are counted.

    Does nothing if no observations are large, or their components are known. The transitions are not
    used for learning, and callbacks are not called.
    """
    codec, env = model.observations, model.env
    if not isinstance(codec, PrincipalCodec) or codec.is_learned or model.learner.n_learned > 0:
        return
    assert env is not None
    steps = int(min(LOOKED_AT, PART * model._total_timesteps)) // model.n_envs
    seen: list[Any] = [model._last_obs]
    while len(seen) <= steps and not model.stopping:
        actions = [model.action_space.sample() for _ in range(model.n_envs)]
        seen.append(env.step(np.array(actions))[0])
        model.num_timesteps += model.n_envs
    model.components = codec.learned(_joined(seen), len(seen) * model.n_envs)
    model._build()
    model.learner.set_horizon(model._total_timesteps)
    model._last_obs = env.reset()  # type: ignore[assignment]


def _joined(seen: list[Any]) -> Any:
    """Concatenate the observations of several steps, each as a VecEnv returns it."""
    if isinstance(seen[0], dict):
        return {key: np.concatenate([one[key] for one in seen]) for key in seen[0]}
    if isinstance(seen[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*seen, strict=True))
    return np.concatenate(seen)
