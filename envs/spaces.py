"""Which spaces the agents accept, and what to do about the others."""

import numpy as np
from gymnasium import spaces

_WRAPPERS: dict[type[spaces.Space], str] = {
    spaces.Dict: "gymnasium.wrappers.FlattenObservation",
    spaces.Tuple: "gymnasium.wrappers.FlattenObservation",
    spaces.Discrete: "gymnasium.wrappers.FlattenObservation (one-hot)",
    spaces.MultiDiscrete: "gymnasium.wrappers.FlattenObservation (one-hot)",
    spaces.MultiBinary: "gymnasium.wrappers.FlattenObservation",
}


def check_observation_space(space: spaces.Space) -> spaces.Box:
    """Return `space` if it is a flat Box of numbers.

    Parameters
    ----------
    space : gymnasium.Space
        An environment's observation space.

    Returns
    -------
    gymnasium.spaces.Box
        The same space, of shape (n_features,).

    Raises
    ------
    ValueError
        If it is anything else. The message names the space, what is accepted, and the Gymnasium wrapper
        that converts it, where there is one.
    """
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.shape[0] > 0:
        return space
    advice = ""
    if isinstance(space, spaces.Box) and len(space.shape) > 1:
        advice = " Wrap the environment in gymnasium.wrappers.FlattenObservation"
        if len(space.shape) == 3 and space.dtype == np.uint8:
            advice += " (images: extract a few features first, a codebook of pixels is of little use)"
    elif isinstance(space, spaces.Box):
        advice = " Wrap the environment in gymnasium.wrappers.ReshapeObservation with shape (1,)"
    for kind, wrapper in _WRAPPERS.items():
        if isinstance(space, kind):
            advice = f" Wrap the environment in {wrapper}"
    raise ValueError(
        f"Observation space {space} is not supported; a flat Box of shape (n,) is accepted."
        + (f"{advice}." if advice else "")
    )


def check_discrete_action_space(space: spaces.Space) -> spaces.Discrete:
    """Return `space` if it is Discrete.

    Parameters
    ----------
    space : gymnasium.Space
        An environment's action space.

    Returns
    -------
    gymnasium.spaces.Discrete
        The same space.

    Raises
    ------
    ValueError
        If it is anything else. The message names the space, what is accepted, and the Gymnasium wrapper
        that converts it.
    """
    if isinstance(space, spaces.Discrete):
        return space
    if isinstance(space, spaces.Box):
        advice = "Wrap the environment in gymnasium.wrappers.DiscretizeAction"
    else:
        advice = (
            "Wrap the environment in gymnasium.wrappers.TransformAction with a function from a "
            "Discrete space"
        )
    raise ValueError(f"Action space {space} is not supported; Discrete is accepted. {advice}.")
