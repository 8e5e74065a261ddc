"""Values as sums over the layers of a tree."""

import gymnasium as gym
import numpy as np
import pytest


@pytest.fixture
def layers(module):
    return module("benchmarks.layers")


def test_values_are_sums_over_the_layers(layers):
    kind = layers.KINDS["sums over two layers"]._replace(cells=(2, 2))
    learner = layers.TreeQ(gym.make("CartPole-v1"), kind, seed=0)
    learner.learn(4_000, 0.5, 0.5)
    point = np.zeros(4)
    active = learner._active(point)
    assert len(active) == 2
    assert [region.book is not None for region, _ in active] == [True, True]
    wanted = sum(region.book["theta"][:, cell] for region, cell in active)
    np.testing.assert_allclose(learner.values(active, np.ones(1)), wanted)
    assert learner.values(active, np.ones(1)).min() > 1.0
