"""Loading of any agent from a model file."""

import os
from typing import Any

from oda_rl import agents, storage
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


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
