"""Optuna's search spaces for the hyperparameters of our agents, used by `tune.py` and by RL Zoo.

A space maps names of hyperparameters to ranges. Discount factors and trace decays are sampled as their
difference from 1, as RL Zoo does.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from oda_rl.agents.codebook_rl import state as names

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
# Hyperparameters that a table of Q values uses: its cells are fixed, there is no warm-up, and the rule
# (`rules.table_q`) has its own stepsizes, initial values and exploration.
USED_BY_TABLES = {LACK + "gamma", LACK + "trace_decay"}
# Hyperparameters without effect on an actor in a table of states
IDLE_IN_TABLES = {"softness", "max_cells", "warmup_steps"}


def suggest(trial: Any, space: Mapping[str, Range]) -> dict[str, Any]:
    """Sample the hyperparameters of an agent for a trial.

    Parameters
    ----------
    trial : optuna.Trial
        The trial.
    space : mapping of str to Range
        The search space.

    Returns
    -------
    dict
        Keyword arguments of the agent.
    """
    found = {}
    for name, (low, high, log) in space.items():
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


def defaults_of(model: Any) -> dict[str, Any]:
    """The hyperparameters of an agent without options as parameters of a trial, to be tried first.

    Parameters
    ----------
    model : TwoTimescaleAC or TwoTimescaleQ
        The agent with its environment and the length of its run, on which some defaults depend.

    Returns
    -------
    dict
        The values that the agent uses, without those that have no effect in its table of states.
    """
    agent, learner = type(model).__name__, model.learner
    settings = learner.numbers.settings
    # what None stands for
    usual = {
        "gamma": settings[names.GAMMA],
        "trace_decay": settings[names.TRACE_DECAY],
        "actor_rate": settings[names.ACTOR_RATE],
        "max_cells": learner.slow.plan.max_cells,
        "warmup_steps": learner.scale.warmup_steps,
    }
    found = {}
    for name in SPACES[agent]:
        if learner.sizes.has_table_values and name not in USED_BY_TABLES:
            continue
        if learner.sizes.is_table and name in IDLE_IN_TABLES:
            continue
        plain = name.removeprefix(LACK)
        value = getattr(model.config, plain)
        if value is None:
            value = usual[plain]
        number = int(value) if isinstance(value, int) else float(value)
        found[name] = 1.0 - number if plain != name else number
    return found


def space_of(model: Any) -> dict[str, Range]:
    """The search space of an agent with its environment: ranges that contain the defaults.

    See `defaults_of` for the argument and the names.
    """
    space = SPACES[type(model).__name__]
    return {
        name: Range(min(space[name].low, value), max(space[name].high, value), space[name].log)
        for name, value in defaults_of(model).items()
    }
