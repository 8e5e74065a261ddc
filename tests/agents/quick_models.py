"""Agents whose codebook has grown after some two thousand steps, and what they have learned."""

import numpy as np

from oda_rl.agents import TwoTimescaleQ


def maker(kind, usual="CartPole-v1", **settings):
    """What makes agents of a class with these settings, where others are not given."""

    def make(env=usual, **options):
        return kind(env=env, **{"seed": 0, **settings, **options})

    return make


make_model = maker(
    TwoTimescaleQ,
    warmup_steps=200,
    growth_steps=1000,
    growth_cells=10,
    max_cells=20,
    growth_fraction=1.0,
)


def arrays_of(model):
    """What the cells hold; nothing in the warm-up."""
    return model.learner.get_state()["slow"].get("codebook", {})


def assert_same_learning(first, second):
    a, b = arrays_of(first), arrays_of(second)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
