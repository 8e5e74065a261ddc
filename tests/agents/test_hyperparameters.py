"""Hyperparameters are checked, shown in signatures and docstrings, and survive JSON."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest

from oda_rl import agents
from oda_rl.agents import TwoTimescaleConfig
from oda_rl.agents.baselines import (
    PRESETS,
    FourierConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
    preset,
)
from oda_rl.agents.linear_q.config import KernelQConfig

NAMES = ["TwoTimescaleQ", "UniformGridQ", "SOMQ", "TileCodingSarsa", "FourierSarsa", "KernelQ"]


@pytest.mark.parametrize(
    "config",
    [
        TwoTimescaleConfig(observation_scale=(1.0, 2.0)),
        UniformGridConfig(bins=(2, 3), observation_low=(0.0, float("-inf")), angles=((0, 1),)),
        SOMConfig(n_cells=(2, 3)),
        TileCodingConfig(tiles=[2, 3]),
        FourierConfig(coupled=2),
        KernelQConfig(adapt_bandwidth=False),
    ],
)
def test_json(config):
    assert type(config)(**json.loads(json.dumps(config.to_dict()))) == config


def test_numbers_of_other_kinds_are_taken_as_what_they_are():
    config = TwoTimescaleConfig(
        warmup_steps=1e3, gamma=np.float32(0.5), max_cells=np.int64(50), slow_b=0
    )
    assert (config.warmup_steps, config.gamma, config.max_cells, config.slow_b) == (1000, 0.5, 50, 0.0)
    for name in ("warmup_steps", "gamma", "max_cells", "slow_b"):
        assert type(getattr(config, name)) in (int, float)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (TwoTimescaleConfig, {"gamma": 1.0}, r"gamma must be a number in \[0, 1\) or None, got 1.0"),
        (TwoTimescaleConfig, {"gamma": float("nan")}, "gamma must be .* got nan"),
        (TwoTimescaleConfig, {"gamma": True}, "gamma must be .* got True"),
        (TwoTimescaleConfig, {"learning_rate": "fast"}, "learning_rate must be a number.*'fast'"),
        (TwoTimescaleConfig, {"hold": 0}, r"hold must be an integer in \[1, inf\), got 0"),
        (
            TwoTimescaleConfig,
            {"slow_a": 1e80},
            r"slow_a must be a number in \[1, inf\), of magnitude up to 1e\+75",
        ),
        (TwoTimescaleConfig, {"hold": 2**50}, r"hold must be .*, or 2\^48 for integers, got"),
        (TwoTimescaleConfig, {"max_cells": 10.5}, "max_cells must be an integer .* got 10.5"),
        (TwoTimescaleConfig, {"growth_steps": float("inf")}, "growth_steps must be an integer"),
        (TwoTimescaleConfig, {"samples_per_cell": 1e100}, "samples_per_cell must be .* got 1e\\+100"),
        (TwoTimescaleConfig, {"hold": 2**48 + 1}, "hold must be an integer"),
        (TwoTimescaleConfig, {"slow_b": float("inf")}, "slow_b must be a number"),
        (
            TwoTimescaleConfig,
            {"action_weight": 1e40},
            r"action_weight must be a number in \(0, 1e6\] or None, of",
        ),
        (TwoTimescaleConfig, {"optimism": 1e70}, r"optimism must be a number in \[0, 1e6\], of"),
        (TwoTimescaleConfig, {"perturbation": 10.0}, r"perturbation must be a number in \(0, 5\], got"),
        (TwoTimescaleConfig, {"cooling": 1.5}, "cooling"),
        (TwoTimescaleConfig, {"tree": 1}, "tree must be True or False, got 1"),
        (TwoTimescaleConfig, {"codebook": "tree"}, "codebook must be 'shared' or 'per_action'"),
        (TwoTimescaleConfig, {"max_cells": 10, "growth_cells": 20}, "at least growth_cells"),
        (TwoTimescaleConfig, {"tol_merge": float("inf")}, r"tol_merge must be .* \[0, inf\), got"),
        (TwoTimescaleConfig, {"observation_scale": (1.0, -1.0)}, "observation_scale must be a tuple of"),
        (TwoTimescaleConfig, {"observation_scale": (1.0, 1e80)}, r"of magnitude up to 1e\+75"),
        (TwoTimescaleConfig, {"near_branches": 3}, "near_branches must be None unless tree=True, got 3"),
        (TwoTimescaleConfig, {"tree": True, "codebook": "per_action"}, "tree=True needs codebook"),
        (UniformGridConfig, {"bins": 0}, "bins must be an integer .* got 0"),
        (UniformGridConfig, {"bins": (2, 2.5)}, r"bins must be .* got \(2, 2.5\)"),
        (UniformGridConfig, {"traces": "dutch"}, "traces must be 'replacing'"),
        (UniformGridConfig, {"update": "q"}, "update must be 'sarsa' or 'watkins'"),
        (SOMConfig, {"n_cells": ()}, "n_cells must be an integer"),
        (SOMConfig, {"map_rate": 0.0}, "map_rate must be"),
        (SOMConfig, {"map_radius": -1.0}, "map_radius must be"),
        (TileCodingConfig, {"tilings": 2.5}, "tilings must be an integer"),
        (FourierConfig, {"order": 0}, "order must be an integer"),
        (FourierConfig, {"coupled": 0}, "coupled must be an integer"),
        (FourierConfig, {"initial_value": float("nan")}, "initial_value must be"),
        (FourierConfig, {"angles": ((0, 1), (1, 2))}, "angles must be pairs of indices"),
        (FourierConfig, {"angles": ((0, 1, 2),)}, "angles must be a tuple of tuples"),
        (
            FourierConfig,
            {"observation_low": (1.0,), "observation_high": (1.0,)},
            "observation_low must be below",
        ),
        (FourierConfig, {"observation_low": (float("nan"),)}, "observation_low must be a tuple of num"),
        (KernelQConfig, {"bandwidth": 0.0}, "bandwidth must be"),
        (KernelQConfig, {"move_probability": 0.2}, "move_probability must be"),
        (KernelQConfig, {"stepsize_halving": 0.0}, "stepsize_halving must be"),
        (KernelQConfig, {"max_points": 0}, "max_points must be"),
        (KernelQConfig, {"reach": 0.5}, "reach must be"),
        (KernelQConfig, {"adapt_bandwidth": "yes"}, "adapt_bandwidth must be True or False"),
        (KernelQConfig, {"regularization": 1.0}, "stepsize \\* regularization"),
    ],
)
def test_bad_values(config, options, message):
    with pytest.raises(ValueError, match=message):
        config(**options)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_keyword_arguments_with_defaults_and_documented(name):
    agent = getattr(agents, name)
    shown = inspect.signature(agent).parameters
    assert next(iter(shown)) == "policy"
    assert shown["policy"].default in agent.policy_aliases
    for field in fields(agent.config_class):
        assert shown[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[field.name].default == field.default
        assert shown[field.name].annotation == field.type
        assert f"\n{field.name} : " in agent.__doc__
        assert f"\n{field.name} : " in agent.config_class.__doc__
    assert agent.__doc__.count("Parameters\n---") == agent.__doc__.count("\nRaises\n---") == 1
    assert "\nExploration\n" in agent.__doc__, "a group"


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_name(name):
    with pytest.raises(
        TypeError, match=rf"{name} has no hyperparameter 'gama' \(got 0.9\); it has .*gamma"
    ):
        getattr(agents, name)(env="CartPole-v1", gama=0.9)


def test_a_configuration_and_single_values():
    config = TwoTimescaleConfig(gamma=0.5, max_cells=20)
    model = agents.TwoTimescaleQ(env="CartPole-v1", config=config, max_cells=30)
    assert model.config == TwoTimescaleConfig(gamma=0.5, max_cells=30)
    with pytest.raises(TypeError, match="config must be a SOMConfig"):
        agents.SOMQ(config=config)


@pytest.mark.parametrize("name", [*NAMES, "TwoTimescaleAC", "DistilledPolicy"])
def test_no_name_is_another_thing_of_sb3s(name):
    """SB3 sets attributes of its own, which would change a hyperparameter of the same name."""
    kind = getattr(agents, name)
    assert kind(env="CartPole-v1", seed=0).config == kind.config_class()


def test_presets_are_valid():
    for tasks in PRESETS.values():
        for algorithm, options in tasks.items():
            getattr(agents, algorithm).config_class(**options)
    assert preset("SOMQ", "CartPole-v1") == preset("SOMQ", "oda_rl/CartPoleFriction-v0") != {}
    assert preset("SOMQ", "LunarLander-v3") == {}


@pytest.mark.parametrize("name", ["tau", "gama", "batch_size"])
def test_an_attribute_that_does_nothing_is_refused(name):
    model = agents.TwoTimescaleQ(env="CartPole-v1", seed=0)
    with pytest.raises(
        AttributeError, match=f"no attribute '{name}' to set; its hyperparameters are gamma"
    ):
        setattr(model, name, 0.1)
    model.gamma, model._mine = 0.5, 1
    assert model.config.gamma == 0.5


def test_what_asks_for_too_much_memory_is_named():
    pairs = (
        ("TwoTimescaleAC", "warmup_steps"),
        ("UniformGridQ", "warmup_steps"),
        ("TwoTimescaleQ", "max_cells"),
    )
    for agent, name in pairs:
        with pytest.raises(
            MemoryError, match=f"hyperparameters, of which {name}={2**48} is the largest"
        ):
            getattr(agents, agent)(env="CartPole-v1", **{name: 2**48})
