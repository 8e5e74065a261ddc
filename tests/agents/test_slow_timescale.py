"""The slow timescale and continuous actions on a tree against slow twins."""

import naive
import numpy as np
import pytest
from environments import once_env
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from tree_learners import give_values, kept_cells, make_learner, make_points, scaled

from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.codebook_rl import association, joint_step
from oda_rl.agents.codebook_rl import state as layout


@pytest.mark.parametrize("flattening", [0.0, 1.0])
def test_slow_steps_follow_the_learning_rule(flattening):
    """Among the cells of the branches found; the others lose weight at the same rate."""
    learner = make_learner(slow_every=1.0, flattening=flattening)
    config, work = learner.config, learner.numbers
    work.counters[layout.LEVEL_LENGTH] = 10**9
    for point in make_points(20, 2):
        work.figures[layout.NEXT_SLOW] = 0.0
        x, book = scaled(learner, point), learner.codebook
        mu, rho, density, k = book.codevectors, book.weights, book["density"][0].copy(), len(book)
        n = int(work.counters[layout.SLOW_STEPS])
        learner.step(0, point, 0.0, False, False)
        among = kept_cells(learner)
        assert among.sum() < k, "some cells are elsewhere"
        p = np.zeros(k)
        p[among] = naive.associations(
            "squared_euclidean",
            x,
            mu[among],
            rho[among],
            np.zeros(among.sum()),
            0,
            learner.temperature,
        )
        emphasis = min(10.0, (k * (p @ density) + 1e-9) ** -flattening)
        stepsize = min(0.5, emphasis / (config.slow_a * k + config.slow_b * n))
        expected, weights = naive.learning_rule(x, p, stepsize, mu, rho)
        book = learner.codebook
        np.testing.assert_allclose(book.codevectors, expected, rtol=1e-9)
        np.testing.assert_allclose(book.weights, weights, rtol=1e-9)
        np.testing.assert_allclose(book["density"][0], density + (p - density) / (20 * k), rtol=1e-9)


def joint_shares(learner, x, u, among):
    """Of the cells found that are near in the observation, those speak that are near in the action."""
    mu, temperature = learner.codebook.codevectors, learner.config.softness * learner.temperature
    observed = ((mu[:, :2] - x) ** 2).sum(axis=1)
    near = among & (observed <= observed[among].min() + joint_step.NEAR * temperature)
    d = np.where(near, observed + (mu[:, 2] - u) ** 2, np.inf)
    p = np.exp(-(d - d.min()) / temperature) * (d <= d.min() + association.REACH * temperature)
    return p / p.sum()


@pytest.mark.parametrize("local_model", ["constant", "linear"])
def test_steps_with_continuous_actions(local_model):
    """Without traces: each step moves Q(x, u) towards the reward, by the features of the pair."""
    learner = make_learner(
        spaces.Box(np.float32([1.0]), np.float32([3.0])),
        local_model=local_model,
        gamma=0.0,
        action_weight=0.6,
        exploration_initial_eps=0.5,
        hold=1,
        near_branches=2,
    )
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf
    config, rng = learner.config, np.random.default_rng(1)
    k, m = learner.n_cells, 6 if local_model == "linear" else 1
    temperature = config.softness * learner.temperature
    q = 0.1 * rng.normal(size=(m, k))
    give_values(learner, q)
    points, mu = make_points(40, 1), learner.codebook.codevectors
    learner.begin(0, points[0])
    rate, visits = learner.codebook["rate"][0].copy(), learner.codebook["visits"][0].copy()
    for t in range(1, len(points)):
        x, u = scaled(learner, points[t - 1]), (learner.command(0)[0] - 2.0) * config.action_weight
        among = kept_cells(learner)
        assert 0 < among.sum() < k
        p, reward = joint_shares(learner, x, u, among), float(rng.normal())
        basis = np.array([1.0, *x, u, *(u * x)])[:m]
        dx, du = (x - mu[:, :2]).T, u - mu[:, 2]
        visits += p
        slope = config.learning_rate_power / (config.learning_rate_halving + visits)
        rate = np.maximum(config.learning_rate_min, rate * (1 - p * slope))
        here, acted = (dx**2).sum(axis=0) / temperature, du**2 / temperature
        norm = (p**2 * ((1 + here) * (1 + acted) if m > 1 else 1.0)).sum()
        step = rate * p / norm * (reward - p @ (basis @ q))
        # the value of a cell is a product of functions about its own observation and action
        local = [[np.ones(k), *(dx / temperature)], [np.ones(k), du / temperature]]
        for i, f in enumerate(local[0] if m > 1 else local[0][:1]):
            for j, g in enumerate(local[1] if m > 1 else local[1][:1]):
                part, row = step * f * g, [i, 3][j] if i == 0 or j == 0 else 3 + i
                q[row] += part
                if i > 0:
                    q[[0, 3][j]] -= part * mu[:, i - 1]
                if j > 0:
                    q[i] -= part * mu[:, 2]
                if i > 0 and j > 0:
                    q[0] += part * mu[:, i - 1] * mu[:, 2]
        learner.step(0, points[t], reward, False, False)
        # u has been a float32
        np.testing.assert_allclose(learner.codebook["q"], q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize(
    ("action_space", "options"),
    [
        (spaces.Discrete(2), {}),
        (spaces.Discrete(2), {"codebook": "per_action"}),
        (spaces.Box(-1.0, 1.0, (1,)), {}),
        (spaces.Box(-1.0, 1.0, (1,)), {"tree": True}),
    ],
    ids=str,
)
def test_a_codebook_grows_though_episodes_are_single_steps(action_space, options, n_envs):
    envs = DummyVecEnv([lambda: once_env(action_space)] * n_envs)
    sizes = {"warmup_steps": 200, "growth_cells": 40, "max_cells": 80, "samples_per_cell": 8}
    model = TwoTimescaleQ(env=envs, seed=0, **sizes, **options).learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(once_env(action_space)), 200)
    assert mean > 0.9, "with cells that may straddle a boundary; chance is 0.5"
