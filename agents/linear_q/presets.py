"""Hyperparameters of the baselines for the classic tasks.

Found by short searches on seeds 100 to 111. The ranges of CartPole are those of its states while it can
still be saved; Acrobot is described by its angles in place of their cosines and sines, but for the
Fourier basis.
"""

from typing import Any

import gymnasium as gym

_CART_POLE: dict[str, Any] = {
    "observation_low": (-2.4, -3.0, -0.2095, -3.5),
    "observation_high": (2.4, 3.0, 0.2095, 3.5),
    "warmup_steps": 100,
}
_ACROBOT: dict[str, Any] = {"angles": ((0, 1), (2, 3))}

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "CartPole": {
        "UniformGridQ": {"bins": (2, 2, 5, 5), **_CART_POLE},
        "SOMQ": {"n_cells": (2, 2, 5, 5), "gamma": 0.995, **_CART_POLE},
        "TileCodingSarsa": {"tiles": (3, 3, 6, 6), "learning_rate": 0.5, **_CART_POLE},
        "FourierSarsa": {"order": 3, **_CART_POLE},
        "KernelQ": {"stepsize": 8.0, **_CART_POLE},
    },
    "MountainCar": {
        "UniformGridQ": {"bins": 12},
        "SOMQ": {"n_cells": (12, 12)},
        "TileCodingSarsa": {
            "tiles": 10,
            "gamma": 0.995,
            "trace_decay": 0.95,
            "traces": "clearing",
            "learning_rate": 0.8,
            "learning_rate_min": 0.08,
            "exploration_initial_eps": 0.0,
        },
        "FourierSarsa": {"order": 5},
    },
    "Acrobot": {
        "UniformGridQ": {"bins": (4, 4, 3, 3), "update": "sarsa", "hold": 1, **_ACROBOT},
        "SOMQ": {"n_cells": (4, 4, 3, 3), "update": "sarsa", **_ACROBOT},
        "TileCodingSarsa": {"tiles": 6, **_ACROBOT},
        "FourierSarsa": {"order": 4},
    },
}
"""By the name of the environment, without namespace, version and "Friction", and of the algorithm."""


def preset(algorithm: str, env_id: str) -> dict[str, Any]:
    """The hyperparameters found for an environment.

    Parameters
    ----------
    algorithm : str
        Name of a baseline.
    env_id : str
        Id of an environment, of any version and namespace.

    Returns
    -------
    dict
        Keyword arguments; empty for what is not known here, which leaves the defaults.

    Examples
    --------
    >>> preset("FourierSarsa", "oda_rl/MountainCar-v0")
    {'order': 5}
    """
    name = gym.envs.registration.parse_env_id(env_id)[1].removesuffix("Friction")
    return dict(PRESETS.get(name, {}).get(algorithm, {}))
