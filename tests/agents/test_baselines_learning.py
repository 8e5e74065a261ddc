"""The baselines' step against a slow twin: linear Sarsa(lambda) and Q(lambda) with dense vectors."""

import numpy as np
import pytest
from gymnasium import spaces

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.baselines import (
    DivergenceError,
    FourierConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)
from oda_rl.agents.linear_q import kernels
from oda_rl.agents.linear_q.learner import LinearLearner

N_ACTIONS = 3
WARMUP = 5


def make_learner(config, n_envs=1, **options):
    options = {"warmup_steps": WARMUP, "initial_value": 0.5, **options}
    bound = np.ones(2)
    return LinearLearner(
        2, ActionCodec(spaces.Discrete(N_ACTIONS)), n_envs, -bound, bound, config(**options), seed=0
    )


class Twin:
    """Keeps all weights and traces, and looks at everything at every step."""

    def __init__(self, learner):
        self.learner, self.config = learner, learner.config
        self.w = learner.weights.copy()
        self.e = np.zeros_like(self.w)
        self.visits = np.zeros_like(self.w)
        self.gain = np.ones_like(self.w)
        self.x = None

    def features(self):
        """phi of the last observation, as the kernel has remembered it."""
        work, features = self.learner.memory, self.learner.features
        if features.is_dense:
            return work.feature[0].copy()
        phi = np.zeros(features.n_features)
        phi[work.index[0]] = 1.0
        return phi

    def learn(self, x, action, reward, following, next_action, rate):
        """From the features x to those of the next state, or None if it is terminal."""
        c, features = self.config, self.learner.features
        target = reward
        if following is not None:
            values = following @ self.w
            target += c.gamma * (values[next_action] if c.update == "sarsa" else values.max())
        error = target - x @ self.w[:, action]
        traces = getattr(c, "traces", "accumulating")
        if traces == "clearing":
            self.e[x > 0] = 0.0
        if traces == "accumulating":
            self.e[:, action] += x
        else:
            self.e[x > 0, action] = 1.0
        gain = np.ones_like(self.w)
        if features.is_dense:
            gain *= features.gain[:, None]
        elif c.learning_rate_by == "visits":
            self.visits[x > 0, action] += 1
            fall = 1 - c.learning_rate_power / (c.learning_rate_halving + self.visits)
            self.gain[x > 0, action] *= fall[x > 0, action]
            gain = np.maximum(self.gain, c.learning_rate_min / c.learning_rate)
        self.w += rate / features.norm * error * gain * self.e
        greedy = following is None or values[next_action] == values.max()
        self.e *= c.gamma * c.trace_decay if c.update == "sarsa" or greedy else 0.0
        if not features.is_dense:
            self.e[self.e < kernels.SMALLEST_TRACE] = 0.0


CASES = [
    (UniformGridConfig, {"bins": 4, "update": "watkins", "traces": "accumulating"}),
    (UniformGridConfig, {"bins": 4, "learning_rate_by": "visits", "learning_rate_halving": 3.0}),
    (SOMConfig, {"n_cells": 9, "update": "sarsa", "map_rate_final": 1e-9}),
    (TileCodingConfig, {"tiles": 3, "trace_decay": 0.5}),
    (TileCodingConfig, {"tiles": 2, "traces": "clearing", "learning_rate_by": "visits"}),
    (TileCodingConfig, {"tiles": (2, 3), "tilings": 4, "update": "watkins"}),
    (FourierConfig, {"order": 2, "learning_rate": 0.1}),
    (FourierConfig, {"order": 3, "coupled": 1, "update": "watkins"}),
]


@pytest.mark.parametrize(("config", "options"), CASES)
def test_a_step_against_the_twin(config, options):
    learner = make_learner(config, exploration_initial_eps=0.3, **options)
    learner.set_horizon(400)
    rng = np.random.default_rng(1)
    learner.begin(0, rng.uniform(-1, 1, 2))
    while not learner.is_scaled:
        learner.step(0, rng.uniform(-1, 1, 2), 0.1, False, False)
    twin = Twin(learner)
    c = learner.config
    x, action = twin.features(), learner.next_action(0)
    for t in range(1, 300):
        point, reward = rng.uniform(-1, 1, 2), rng.normal()
        ended = t % 50 == 0
        terminated = ended and t % 100 == 0
        share = min(1.0, t / 400)
        rate = c.learning_rate + share * (c.learning_rate_min - c.learning_rate)
        if getattr(c, "learning_rate_by", "run") == "visits":
            rate = c.learning_rate
        if ended and not terminated:  # its features are not remembered: look before
            ahead = make_learner(config, **options)
            ahead.features.location[:] = learner.features.location
            for _ in range(WARMUP):
                ahead.step(0, point, 0.0, False, False)
            following = Twin(ahead).features()
        next_action = learner.step(0, point, reward, terminated, ended)
        if terminated:
            following = None
        elif not ended:
            following = twin.features()
        twin.learn(x, action, reward, following, next_action, rate)
        np.testing.assert_allclose(learner.weights, twin.w, atol=1e-10)
        if ended:
            twin.e[:] = 0.0
            assert not learner.memory.trace.any()
            next_action = learner.begin(0, rng.uniform(-1, 1, 2))
        x, action = twin.features(), next_action


def test_two_environments_have_their_own_traces():
    """Learning from two at a time is learning from each, if their tiles are apart."""
    both = make_learner(TileCodingConfig, n_envs=2, tiles=8, exploration_initial_eps=0.0)
    alone = [make_learner(TileCodingConfig, tiles=8, exploration_initial_eps=0.0) for _ in range(2)]
    rng = np.random.default_rng(0)
    for learner in (both, *alone):
        while not learner.is_scaled:
            learner.step(0, np.zeros(2), 0.0, False, False)
        learner.set_horizon(10**9)
    starts = [np.full(2, -0.5), np.full(2, 0.5)]
    before = both.weights.copy()
    for e in range(2):
        both.begin(e, starts[e])
        alone[e].begin(0, starts[e])
    for _ in range(10):
        for e in range(2):
            point = starts[e] + rng.uniform(-0.2, 0.2, 2)
            for learner, env in ((both, e), (alone[e], 0)):
                learner.memory.action[env] = 1
                learner.step(env, point, -1.0, False, False)
    moved = sum(learner.weights - before for learner in alone)
    np.testing.assert_allclose(both.weights - before, moved, atol=1e-6)


def test_an_optimistic_start():
    learner = make_learner(UniformGridConfig, bins=2, initial_value=None, gamma=0.9)
    learner.begin(0, np.zeros(2))
    for reward in (0.5, 2.0, 2.0, -1.0):  # what came once alone would not count
        learner.step(0, np.zeros(2), reward, False, False)
    assert learner.initial_value == pytest.approx(20.0)
    np.testing.assert_array_equal(learner.weights, learner.initial_value)


@pytest.mark.parametrize("config", [UniformGridConfig, TileCodingConfig, SOMConfig, FourierConfig])
def test_all_values_begin_at_the_initial_one(config):
    learner = make_learner(config, initial_value=7.0)
    learner.begin(0, np.zeros(2))
    while not learner.is_scaled:
        learner.step(0, np.zeros(2), 0.0, False, False)
    np.testing.assert_allclose(learner.action_values(np.array([[0.3, -0.2]])), 7.0)


def test_divergence_is_told():
    learner = make_learner(FourierConfig, learning_rate=1.0, learning_rate_min=1.0, trace_decay=1.0)
    learner.set_horizon(10**6)
    rng = np.random.default_rng(0)
    learner.begin(0, np.zeros(2))

    def learn():
        for _ in range(5_000):
            learner.step(0, rng.uniform(-1, 1, 2), rng.normal(), False, False)

    with pytest.raises(DivergenceError, match="lower learning_rate"):
        learn()


def test_a_map_unfolds_under_random_actions_and_then_follows_ever_less():
    learner = make_learner(
        SOMConfig, n_cells=(16,), map_steps=2_000, map_every=1, map_rate_final=0.05, map_fraction=0.5
    )
    learner.set_horizon(10_000)
    rng = np.random.default_rng(0)
    learner.begin(0, np.zeros(2))
    line = [np.array([s, s]) for s in rng.uniform(-1, 1, 9_000)]
    for point in line[:1_500]:
        learner.step(0, point, 1.0, False, False)
    assert learner.exploration_rate == 1.0
    assert (learner.weights == learner.initial_value).all()
    for point in line[1_500:2_500]:
        learner.step(0, point, 1.0, False, False)
    cells = learner.codevectors
    assert np.abs(cells[:, 0] - cells[:, 1]).max() < 0.1
    steps = np.diff(cells[:, 0])
    assert (np.sign(steps) == np.sign(steps[0])).all(), "neighbours on the lattice are neighbours"
    assert (learner.weights != learner.initial_value).any()
    for point in line[2_500:]:
        learner.step(0, point, 1.0, False, False)
    cells = learner.codevectors
    for point in line[:500]:
        learner.step(0, point, 1.0, False, False)
    np.testing.assert_array_equal(learner.codevectors, cells)
