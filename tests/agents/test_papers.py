"""The agent as the paper prints it, beside a transcript of Algorithm 2."""

from itertools import pairwise

import numpy as np
from test_kernels import make_learner

from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.sb3.agents import AS_PRINTED


def test_values_move_as_algorithm_2_has_it():
    """h = argmin d((x, u), mu); Q(h) <- Q(h) + alpha [r + gamma max_u Q(h') - Q(h)]."""
    learner = make_learner(**AS_PRINTED | {"growth_steps": 300, "growth_cells": 12, "max_cells": 12})
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf  # between two updates of the partition
    book, config, rng = learner.codebook, learner.config, np.random.default_rng(1)
    mu, actions = book.codevectors, book.labels
    q = rng.normal(size=len(book))
    book["q"][:] = q * (actions == np.arange(3)[:, None])
    visits = book["visits"].max(axis=0)
    rate = np.array([book["rate"][action, i] for i, action in enumerate(actions)])

    def nearest(x, action):
        distance = np.where(actions == action, ((x - mu) ** 2).sum(axis=1), np.inf)
        return int(distance.argmin())

    points = rng.uniform(-1.0, 1.0, (60, 2))
    learner.begin(0, points[0])
    for before, after in pairwise(points):
        x, y = ((p - learner.scale.centre) / learner.scale.scale for p in (before, after))
        h, reward = nearest(x, learner.memory.action[0]), float(rng.normal())
        visits[h] += 1.0
        fall = config.learning_rate_power / (config.learning_rate_halving + visits[h])
        rate[h] = max(config.learning_rate_min, rate[h] * (1.0 - fall))
        target = reward + learner.gamma * max(q[nearest(y, u)] for u in range(3))
        q[h] += rate[h] * (target - q[h])
        learner.step(0, after, reward, False, False)
        found = [book["q"][action, i] for i, action in enumerate(actions)]
        np.testing.assert_allclose(found, q, rtol=1e-9)


def test_options_come_before_those_of_the_paper():
    model = TwoTimescaleQ.papers("oda_rl/CartPoleFriction-v0", max_cells=56, growth_cells=56, seed=0)
    assert (model.max_cells, model.softness, model.codebook) == (56, 0.0, "per_action")
