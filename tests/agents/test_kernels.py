"""Compiled steps of the agents against slow twins written from the equations."""

import naive
import numpy as np
import pytest
from environments import CorridorEnv

from oda_rl.agents import TwoTimescaleConfig, kernels
from oda_rl.agents.learner import TwoTimescaleLearner

LOW, HIGH = np.full(2, -1.0), np.full(2, 1.0)


def make_learner(**options):
    settings = {"warmup_steps": 50, "growth_steps": 300, "growth_cells": 8, "max_cells": 8, **options}
    learner = TwoTimescaleLearner(2, 3, 1, LOW, HIGH, TwoTimescaleConfig(**settings), seed=0)
    rng = np.random.default_rng(0)
    learner.begin(0, rng.uniform(-1, 1, 2))
    while learner.annealer is None or not learner.workspace.counters[kernels.PHASE]:
        learner.step(0, rng.uniform(-1, 1, 2), 0.5, False, False)
    return learner


def features(learner, x):
    """The basis of a cell's value: 1, and for linear cells the observation."""
    return np.array([1.0, *x]) if learner.config.local_model == "linear" else np.ones(1)


def shares(learner, x, action=0):
    """p(mu_i | x) at the softened temperature, without the weights; those below exp(-8) left out."""
    book = learner.codebook
    k = len(book)
    ones = np.ones(k)
    temperature = learner.config.softness * learner.temperature
    if learner.config.codebook == "shared":
        labels, wanted = np.zeros(k), 0
    else:
        labels, wanted = book.labels, action
    d = np.array([naive.divergence("squared_euclidean", x, mu) for mu in book.codevectors])
    near = (d <= d[labels == wanted].min() + kernels.REACH * temperature) & (labels == wanted)
    p = np.zeros(k)
    p[near] = naive.associations(
        "squared_euclidean", x, book.codevectors[near], ones[near], labels[near], wanted, temperature
    )
    return p


def values(learner, x):
    phi = features(learner, x)
    q = learner.codebook["q"].reshape(3, len(phi), -1)
    return np.array([shares(learner, x, a) @ (phi @ q[a]) for a in range(3)])


@pytest.mark.parametrize("local_model", ["constant", "linear"])
@pytest.mark.parametrize("codebook", ["shared", "per_action"])
@pytest.mark.parametrize("terminated", [False, True])
def test_steps_follow_watkins_q_lambda(local_model, codebook, terminated):
    """Several steps in a row, with traces: Q <- Q + alpha e delta, e the features' trace.

    The features of cell i for the taken action are p_i and p_i (x - mu_i) / T, divided by the sum of
    p_i^2 (1 + |x - mu_i|^2 / T); the second belong to the slopes of a function of x - mu_i.
    """
    learner = make_learner(
        local_model=local_model, codebook=codebook, slow_every=1e9, gamma=0.9, trace_decay=0.7
    )
    learner.workspace.figures[kernels.NEXT_SLOW] = np.inf  # the fast timescale alone
    config, book, work = learner.config, learner.codebook, learner.workspace
    rng = np.random.default_rng(1)
    k, m = len(book), 3 if local_model == "linear" else 1
    temperature = config.softness * learner.temperature
    q = 0.1 * rng.normal(size=(3, m, k))
    if codebook == "per_action":
        q *= (book.labels == np.arange(3)[:, None])[:, None, :]
    book["q"][:] = q.reshape(3 * m, k)
    points = rng.uniform(-1, 1, (30, 2))
    learner.begin(0, points[0])
    trace = np.zeros((3, m, k))
    visits, rate = book["visits"].copy(), book["rate"].copy()
    for t in range(1, 30):
        x = (points[t - 1] - learner.scale.centre) / learner.scale.scale
        y = (points[t] - learner.scale.centre) / learner.scale.scale
        a, exploratory = int(work.action[0]), bool(work.exploratory[0])
        reward, last = float(rng.normal()), t == 29 and terminated
        p = shares(learner, x, a)
        target = reward + (0.0 if last else config.gamma * values(learner, y).max())
        error = target - values(learner, x)[a]
        away = (x - book.codevectors).T if m > 1 else np.zeros((0, k))
        norm = (p**2 * (1.0 + (away**2).sum(axis=0) / temperature)).sum()
        trace *= 0.0 if exploratory else config.gamma * config.trace_decay
        slopes = p * away / temperature / norm
        trace[a, 1:] += slopes
        # a slope about mu_i is a slope about 0 and an intercept
        trace[a, 0] += p / norm - (slopes * book.codevectors.T[: m - 1]).sum(axis=0)
        visits[a] += p
        slope = config.learning_rate_power / (config.learning_rate_halving + visits[a])
        rate[a] = np.maximum(config.learning_rate_min, rate[a] * (1 - p * slope))
        q += rate[:, None, :] * trace * error
        learner.step(0, points[t], reward, last, last)
        np.testing.assert_allclose(book["q"], q.reshape(3 * m, k), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(book["visits"], visits, rtol=1e-9)
    if terminated:
        assert not book["trace"].any()
    else:
        np.testing.assert_allclose(book["trace"], trace.reshape(3 * m, k), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("event", ["split", "move"])
def test_linear_values_stay_when_cells_split_and_move(event):
    """What a cell says of a point does not depend on where its codevector is."""
    learner = make_learner(local_model="linear")
    book = learner.codebook
    book["q"][:] = np.random.default_rng(0).normal(size=book["q"].shape)
    before = book["q"][:, 0].copy()
    if event == "split":
        new = book.split(0, [0.1, -0.2])
        np.testing.assert_array_equal(book["q"][:, new], before)
    else:
        book.location[:, 0] += 0.3
    np.testing.assert_array_equal(book["q"][:, 0], before)
    expected = before.reshape(3, 3)[:, 0] + before.reshape(3, 3)[:, 1:] @ book.codevectors[0]
    np.testing.assert_allclose(learner.q_values[0], expected)


def test_stepsizes_fall_as_they_should():
    config = TwoTimescaleConfig(learning_rate=0.5, learning_rate_min=0.0, learning_rate_power=0.7)
    settings = np.zeros(kernels.N_SETTINGS)
    settings[kernels.LEARNING_RATE_POWER] = config.learning_rate_power
    settings[kernels.LEARNING_RATE_HALVING] = config.learning_rate_halving
    rate = config.learning_rate
    for n in range(1, 5001):
        rate = kernels.lower(rate, 1.0, float(n), settings)
    expected = 0.5 * (1 + 5000 / config.learning_rate_halving) ** -0.7
    assert rate == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("flattening", [0.0, 1.0])
def test_slow_steps_follow_the_learning_rule(flattening):
    learner = make_learner(slow_every=1.0, flattening=flattening, samples_per_cell=100_000)
    book, config, work = learner.codebook, learner.config, learner.workspace
    rng = np.random.default_rng(2)
    learner._begin_level()
    density = book["density"][0].copy()
    for t in range(20):
        point = rng.uniform(-1, 1, 2)
        work.figures[kernels.NEXT_SLOW] = 0.0
        x = (point - learner.scale.centre) / learner.scale.scale
        codevectors, weights, k = book.codevectors, book.weights, len(book)
        p = naive.associations(
            "squared_euclidean", x, codevectors, weights, book.labels, 0, learner.temperature
        )
        emphasis = min(10.0, (k * (p @ density) + 1e-9) ** -flattening)
        n = int(work.counters[kernels.SLOW_STEPS])
        stepsize = min(0.5, emphasis / (config.slow_a * k + config.slow_b * n))
        density += (p - density) / (20 * k)
        mu, rho = naive.learning_rule(x, p, stepsize, codevectors, weights)
        learner.step(0, point, 0.0, False, t % 7 == 6)
        np.testing.assert_allclose(book.codevectors, mu, rtol=1e-9)
        np.testing.assert_allclose(book.weights, rho, rtol=1e-9)


def test_slow_updates_become_ever_rarer():
    learner = make_learner(slow_every=2.0, slow_doubling=500.0)
    rng = np.random.default_rng(0)
    times = []
    before = learner.workspace.figures[kernels.NEXT_SLOW]
    for t in range(5_000):
        learner.step(0, rng.uniform(-1, 1, 2), 0.0, False, False)
        after = learner.workspace.figures[kernels.NEXT_SLOW]
        if after != before:
            times.append(t)
            before = after
    gaps = np.diff(times)
    assert gaps[0] <= 3
    assert gaps[-1] >= 15
    assert (np.diff(gaps[::10]) >= 0).all()


def test_ties_are_broken_at_random():
    q = np.array([1.0, 2.0, 2.0, 0.0, 2.0])
    draws = np.linspace(0.0, 1.0, 300, endpoint=False)
    chosen, counts = np.unique([kernels.argmax_random(q, u) for u in draws], return_counts=True)
    np.testing.assert_array_equal(chosen, [1, 2, 4])
    np.testing.assert_array_equal(counts, [100, 100, 100])


@pytest.mark.parametrize("hold", [1, 6])
def test_share_of_random_actions(hold):
    """However long random actions are held, about epsilon of the steps are random."""
    learner = make_learner(
        local_model="constant", hold=hold, exploration_initial_eps=0.3, exploration_final_eps=0.3
    )
    learner.codebook["q"][:] = np.array([1.0, 0.0, 0.0])[:, None]
    learner.codebook["rate"][:] = 0.0
    learner.workspace.settings[kernels.LEARNING_RATE_MIN] = 0.0
    rng = np.random.default_rng(0)
    actions = [learner.step(0, rng.uniform(-1, 1, 2), 0.0, False, False) for _ in range(20_000)]
    assert np.mean(np.array(actions) != 0) == pytest.approx(0.3 * 2 / 3, abs=0.04)


def test_optimism_comes_from_the_largest_reward():
    learner = TwoTimescaleLearner(
        1,
        2,
        1,
        np.array([-np.inf]),
        np.array([np.inf]),
        TwoTimescaleConfig(warmup_steps=20, growth_steps=100, gamma=0.9, optimism=0.5),
        seed=0,
    )
    env = CorridorEnv()
    observation, _ = env.reset()
    action = learner.begin(0, observation)
    while not learner.workspace.counters[kernels.PHASE]:
        observation, _, terminated, truncated, _ = env.step(action)
        action = learner.step(0, observation, 3.0, terminated, terminated or truncated)
        if terminated or truncated:
            action = learner.begin(0, env.reset()[0])
    np.testing.assert_allclose(learner.q_values, 0.5 * 3.0 / (1 - 0.9))
