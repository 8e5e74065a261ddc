"""Choice of the agent for an environment, and loading of any agent from a model file."""

import os
from typing import Any

import gymnasium as gym

from oda_rl import agents, storage
from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


def default_agent(env: str | gym.Env) -> type[OnlineAlgorithm]:
    """Return the agent that performs best with an environment's kind of observations.

    Parameters
    ----------
    env : str or gymnasium.Env
        The environment, or its id.

    Returns
    -------
    type
        TwoTimescaleQ if observations are discrete, with few enough states for a table; TwoTimescaleAC
        otherwise.

    Raises
    ------
    gymnasium.error.Error
        If there is no such environment.

    Examples
    --------
    >>> default_agent("CartPole-v1").__name__
    'TwoTimescaleAC'
    """
    if isinstance(env, str):
        with gym.make(env) as made:
            return default_agent(made)
    assert not isinstance(env, str)
    is_table = ObservationCodec(env.observation_space).is_table
    return agents.TwoTimescaleQ if is_table else agents.TwoTimescaleAC


def load_model(path: str | os.PathLike[str], **options: Any) -> OnlineAlgorithm:
    """Read a model file of any agent of the package.

    Parameters
    ----------
    path : str or path
        As given to `save`.
    **options
        As for the agent's `load`: `env`, `tensorboard_log`, `verbose`, `seed`.

    Returns
    -------
    TwoTimescaleQ, TwoTimescaleAC, UniformGridQ, SOMQ, TileCodingSarsa, FourierSarsa or KernelQ

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is damaged, foreign, newer, or holds no agent.

    Examples
    --------
    >>> import tempfile
    >>> from oda_rl.agents import UniformGridQ
    >>> path = os.path.join(tempfile.mkdtemp(), "grid.npz")
    >>> UniformGridQ(env="CartPole-v1", bins=2, seed=0).save(path)
    >>> type(load_model(path)).__name__
    'UniformGridQ'
    """
    kind = storage.kind_of(path)
    found = getattr(agents, kind, None) if kind in agents.__all__ else None
    if not (isinstance(found, type) and issubclass(found, OnlineAlgorithm)):
        raise ValueError(f"{path} contains a {kind}, which is not an agent of oda_rl.agents.")
    model: OnlineAlgorithm = found.load(path, **options)
    return model
