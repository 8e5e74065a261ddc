"""Options of the agent for environments that want others than the defaults.

python scripts/benchmark.py agent --env-id LunarLander-v3 --preset
"""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "LunarLander-v3": {
        "max_cells": 250,
        "growth_cells": 100,
        "optimism": 0.0,
        "hold": 4,
        "observation_scale": (0.6, 0.8, 0.8, 0.8, 0.6, 0.8, 1.5, 1.5),
    },
}


def find_preset(env_id: str) -> dict[str, Any]:
    """Keyword arguments of `TwoTimescaleQ` for an environment; empty where the defaults do.

    Parameters
    ----------
    env_id : str
        Its id; a compiled twin has the options of its original.

    Returns
    -------
    dict
        A copy, to be changed at will.
    """
    return dict(PRESETS.get(env_id.removeprefix("oda_rl/"), {}))
