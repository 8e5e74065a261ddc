"""Where Optuna looks for hyperparameters of our agents: the same for `tune.py` and for RL Zoo.

A space has the names of hyperparameters, and a range for each. A discount factor is looked for by what
it lacks to 1, as RL Zoo does.
"""

from typing import Any, NamedTuple

LACK = "one_minus_"


class Range(NamedTuple):
    """Numbers from `low` to `high`; whole ones if both are."""

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
"""By the name of the agent."""
# What None means where actions are numbered
USUAL = {"max_cells": 125, "actor_rate": 1.0, "trace_decay": 0.9, "exploration_initial_eps": 0.1}


def suggest(trial: Any, agent: str) -> dict[str, Any]:
    """The hyperparameters of an agent that Optuna tries next.

    Parameters
    ----------
    trial : optuna.Trial
        Who is asked.
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
    """Keyword arguments of the agent, from what a trial has noted."""
    return {
        name.removeprefix(LACK): 1.0 - value if name.startswith(LACK) else value
        for name, value in params.items()
    }


def defaults_of(agent: str, config: Any) -> dict[str, Any]:
    """What a trial would have noted of the agent's own hyperparameters, to try them first."""
    found = {}
    for name in SPACES[agent]:
        plain = name.removeprefix(LACK)
        given = getattr(config, plain)
        value = USUAL[plain] if given is None else given
        found[name] = 1.0 - value if plain != name else value
    return found
