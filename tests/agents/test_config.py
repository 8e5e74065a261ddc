import json

import pytest

from oda_rl.agents import TwoTimescaleConfig


def test_defaults_survive_json():
    config = TwoTimescaleConfig(observation_scale=(1.0, 2.0))
    stored = json.loads(json.dumps(config.to_dict()))
    assert TwoTimescaleConfig(**stored) == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.0}, "gamma must be a number from 0.0"),
        ({"gamma": float("nan")}, "gamma must be"),
        ({"learning_rate": "fast"}, "learning_rate must be a number.*'fast'"),
        ({"hold": 0}, "hold must be a number from 1"),
        ({"cooling": 1.5}, "cooling"),
        ({"codebook": "tree"}, "codebook must be one of .*'shared', 'per_action'"),
        ({"max_cells": 10, "growth_cells": 20}, "max_cells must be at least growth_cells"),
        ({"observation_scale": (1.0, -1.0)}, "observation_scale"),
    ],
)
def test_bad_values(options, message):
    with pytest.raises(ValueError, match=message):
        TwoTimescaleConfig(**options)
