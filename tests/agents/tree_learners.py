"""Learners on a tree whose codebook has just grown, and which cells they look at."""

import naive
import numpy as np
from gymnasium import spaces

from oda_rl.agents import TwoTimescaleConfig
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import association
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner

LOW, HIGH = np.full(2, -1.0), np.full(2, 1.0)
# Compiled code is there for this type.
DTYPE = np.float32


def make_points(n, seed, dtype=DTYPE):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2)).astype(dtype)


def make_learner(action_space=None, n_envs=1, **options):
    """Some 100 cells over a square, at the moment when learning begins."""
    settings = {
        "warmup_steps": 50,
        "growth_steps": 5_000,
        "growth_cells": 100,
        "max_cells": 100,
        "samples_per_cell": 3,
        "tree": True,
        **options,
    }
    codec = ActionCodec(action_space or spaces.Discrete(3))
    learner = TwoTimescaleLearner(2, codec, n_envs, LOW, HIGH, TwoTimescaleConfig(**settings), seed=0)
    learner.set_horizon(100_000)
    points = iter(make_points(20_000, 0))
    for env in range(n_envs):
        learner.begin(env, next(points))
    while learner.annealer is None or not learner.numbers.counters[layout.PHASE]:
        learner.step(0, next(points), 0.5, False, False)
    assert learner.tree.n_branches > 5
    return learner


def scaled(learner, point):
    return (point.astype(float) - learner.scale.centre) / learner.scale.scale


def depth_of(tree, node=0):
    """Planes on the longest way from a node to a branch."""
    if node < 0 or tree.n_branches == 1:
        return 0
    return 1 + max(depth_of(tree, child) for child in tree.planes.child[node])


def kept_cells(learner, env=0):
    """Which cells stand in the branches that environment `env` has found last."""
    near = learner.memory
    return np.isin(learner.tree.branch, near.found[env, : near.n_found[env]])


def shares(learner, x, among):
    """p(mu_i | x) of the cells `among`, those below exp(-8) left out."""
    book, temperature = learner.codebook, learner.config.softness * learner.temperature
    d = np.array([naive.divergence("squared_euclidean", x, mu) for mu in book.codevectors])
    near = among & (d <= d[among].min() + association.REACH * temperature)
    p, ones, zeros = np.zeros(len(book)), np.ones(near.sum()), np.zeros(near.sum())
    p[near] = naive.associations(
        "squared_euclidean", x, book.codevectors[near], ones, zeros, 0, temperature
    )
    return p


def give_values(learner, q):
    """Put numbers in the place of the values."""
    learner.codebook["q"][:] = q
    learner._begin_level()
