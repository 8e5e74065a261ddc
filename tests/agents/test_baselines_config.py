import json

import pytest

from oda_rl import agents
from oda_rl.agents.linear_q import (
    PRESETS,
    FourierConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
    preset,
)


@pytest.mark.parametrize(
    "config",
    [
        UniformGridConfig(bins=(2, 3), observation_low=(0.0, float("-inf")), angles=((0, 1),)),
        SOMConfig(n_cells=(2, 3)),
        TileCodingConfig(tiles=[2, 3]),
        FourierConfig(coupled=2),
    ],
)
def test_json(config):
    assert type(config)(**json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (UniformGridConfig, {"gamma": 1.0}, "gamma must be a number from 0.0"),
        (UniformGridConfig, {"bins": 0}, "bins must be a whole number from 1 on.*got 0"),
        (UniformGridConfig, {"bins": (2, 2.5)}, r"bins must be a whole number.*got \(2, 2.5\)"),
        (UniformGridConfig, {"traces": "dutch"}, "traces must be one of"),
        (UniformGridConfig, {"update": "q"}, "update must be one of .*'sarsa', 'watkins'"),
        (SOMConfig, {"n_cells": ()}, "n_cells must be a whole number"),
        (SOMConfig, {"map_rate": 0.0}, "map_rate must be"),
        (SOMConfig, {"map_radius": -1.0}, "map_radius must be"),
        (TileCodingConfig, {"tilings": 2.5}, "tilings must be a whole number"),
        (TileCodingConfig, {"hold": "long"}, "hold must be a number.*'long'"),
        (FourierConfig, {"order": 0}, "order must be a whole number"),
        (FourierConfig, {"coupled": 0}, "coupled must be a whole number"),
        (FourierConfig, {"initial_value": float("nan")}, "initial_value must be"),
        (FourierConfig, {"angles": ((0, 1), (1, 2))}, "angles must be pairs of different"),
        (FourierConfig, {"angles": ((0, 1, 2),)}, "angles must be pairs of different"),
        (
            FourierConfig,
            {"observation_low": (1.0,), "observation_high": (1.0,)},
            "observation_low must be below",
        ),
        (FourierConfig, {"observation_low": (float("nan"),)}, "observation_low must be numbers"),
    ],
)
def test_bad_values(config, options, message):
    with pytest.raises(ValueError, match=message):
        config(**options)


def test_presets_are_valid():
    for tasks in PRESETS.values():
        for algorithm, options in tasks.items():
            getattr(agents, algorithm).config_class(**options)
    assert preset("SOMQ", "CartPole-v1") == preset("SOMQ", "oda_rl/CartPoleFriction-v0") != {}
    assert preset("SOMQ", "LunarLander-v3") == {}
