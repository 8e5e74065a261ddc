"""Options of the agent for environments that want others than the defaults.

python scripts/benchmark.py agent --env-id LunarLander-v3 --preset --total-timesteps 600000

LunarLander-v3, 600,000 steps, seeds 0 to 4, 100 greedy episodes of the last policy: IQM 200.3, worst
seed 162.2; 250 cells, 11,017 numbers. RL Zoo: DQN 154 after 100,000 steps, PPO 242 after 1,000,000.
"""

from typing import Any

# Chosen by short searches on seeds 100 to 102.
PRESETS: dict[str, dict[str, Any]] = {
    "LunarLander-v3": {
        "max_cells": 250,
        "growth_cells": 100,
        # The largest reward, 100 for landing, comes once.
        "optimism": 0.0,
        "trace_decay": 0.95,
        # Who does not try held actions learns to hover, not to land.
        "hold": 6,
        "exploration_initial_eps": 0.3,
        "exploration_final_eps": 0.03,
        "exploration_fraction": 0.9,
        # Far smaller than the bounds of the space
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
