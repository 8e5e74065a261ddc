"""Optuna's search spaces for the hyperparameters of our agents, used by `tune.py` and by RL Zoo.

A space maps names of hyperparameters to ranges. Discount factors and trace decays are sampled as their
difference from 1, as RL Zoo does.
"""

from typing import Any, NamedTuple

LACK = "one_minus_"


class Range(NamedTuple):
    """Numbers from `low` to `high`, whole ones if both are; sampled on a log scale if `log`."""

    low: float
    high: float
    log: bool = True


SHARED = {
    LACK + "gamma": Range(0.001, 0.05),
    LACK + "trace_decay": Range(0.01, 0.5),
    "learning_rate": Range(0.02, 0.5),
    "learning_rate_min": Range(0.0003, 0.03),
    "softness": Range(0.5, 8.0),
    "max_cells": Range(60, 300),
    "warmup_steps": Range(500, 5000),
}
SPACES: dict[str, dict[str, Range]] = {
    "TwoTimescaleAC": {
        **SHARED,
        "learning_rate_halving": Range(300.0, 30_000.0),
        "actor_rate": Range(0.2, 4.0),
    },
    "TwoTimescaleQ": {
        **SHARED,
        "learning_rate_halving": Range(30.0, 3000.0),
        "optimism": Range(0.0, 1.0, log=False),
        "exploration_initial_eps": Range(0.01, 0.5),
        "exploration_fraction": Range(0.05, 0.5),
        "hold": Range(1, 8),
    },
}
"""Search spaces by the name of the agent."""
# Values that None stands for if actions are discrete, where the configuration does not tell them
USUAL = {"max_cells": 125, "actor_rate": 1.0}


def suggest(trial: Any, agent: str) -> dict[str, Any]:
    """Sample the hyperparameters of an agent for a trial.

    Parameters
    ----------
    trial : optuna.Trial
        The trial.
    agent : str
        Name of the class.

    Returns
    -------
    dict
        Keyword arguments of the agent.
    """
    found = {}
    for name, (low, high, log) in SPACES[agent].items():
        whole = isinstance(low, int) and isinstance(high, int)
        ask = trial.suggest_int if whole else trial.suggest_float
        found[name] = ask(name, low, high, log=log)
    return to_hyperparameters(found)


def to_hyperparameters(params: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the agent, from the parameters of a trial."""
    return {
        name.removeprefix(LACK): 1.0 - value if name.startswith(LACK) else value
        for name, value in params.items()
    }


def defaults_of(agent: str, config: Any) -> dict[str, Any]:
    """The agent's default hyperparameters as parameters of a trial, to be tried first."""
    found = {}
    for name in SPACES[agent]:
        plain = name.removeprefix(LACK)
        value = getattr(config, plain)
        if value is None:
            value = USUAL[plain] if plain in USUAL else config.find(plain, table=False)
        found[name] = 1.0 - value if plain != name else value
    return found
