"""Compiled steps of the agents against slow twins written from the equations."""

import naive
import numpy as np
import pytest
from environments import corridor_env
from gymnasium import spaces

from oda_rl.agents import TwoTimescaleConfig
from oda_rl.agents import action_choice as choosing
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import association, joint_step
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.codebook_rl.rules import q_lambda

LOW, HIGH = np.full(2, -1.0), np.full(2, 1.0)


def make_learner(**options):
    settings = {"warmup_steps": 50, "growth_steps": 300, "growth_cells": 8, "max_cells": 8, **options}
    learner = TwoTimescaleLearner(
        2, ActionCodec(spaces.Discrete(3)), 1, LOW, HIGH, TwoTimescaleConfig(**settings), seed=0
    )
    rng = np.random.default_rng(0)
    learner.begin(0, rng.uniform(-1, 1, 2))
    while learner.annealer is None or not learner.numbers.counters[layout.PHASE]:
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
    near = (d <= d[labels == wanted].min() + association.REACH * temperature) & (labels == wanted)
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
    p_i^2 (1 + |x - mu_i|^2 / T); the second belong to the slopes of a function of x - mu_i. The
    stepsizes are those of the visit.
    """
    learner = make_learner(
        local_model=local_model, codebook=codebook, slow_every=1e9, gamma=0.9, trace_decay=0.7
    )
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf  # the fast timescale alone
    config, book = learner.config, learner.codebook
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
        a, exploratory = int(learner.memory.action[0]), bool(learner.memory.exploratory[0])
        reward, last = float(rng.normal()), t == 29 and terminated
        p = shares(learner, x, a)
        target = reward + (0.0 if last else config.gamma * values(learner, y).max())
        error = target - values(learner, x)[a]
        away = (x - book.codevectors).T if m > 1 else np.zeros((0, k))
        norm = (p**2 * (1.0 + (away**2).sum(axis=0) / temperature)).sum()
        trace *= 0.0 if exploratory else config.gamma * config.trace_decay
        visits[a] += p
        slope = config.learning_rate_power / (config.learning_rate_halving + visits[a])
        rate[a] = np.maximum(config.learning_rate_min, rate[a] * (1 - p * slope))
        slopes = rate[a] * p * away / temperature / norm
        trace[a, 1:] += slopes
        # a slope about mu_i is a slope about 0 and an intercept
        trace[a, 0] += rate[a] * p / norm - (slopes * book.codevectors.T[: m - 1]).sum(axis=0)
        q += trace * error
        learner.step(0, points[t], reward, last, last)
        np.testing.assert_allclose(book["q"], q.reshape(3 * m, k), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(book["visits"], visits, rtol=1e-9)
    if terminated:
        assert not book["trace"].any()
    else:
        kept = book["trace"] * learner.memory.trace_scale[0]
        np.testing.assert_allclose(kept, trace.reshape(3 * m, k), rtol=1e-9, atol=1e-12)


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
    settings = np.zeros(layout.N_SETTINGS)
    settings[layout.LEARNING_RATE_POWER] = config.learning_rate_power
    settings[layout.LEARNING_RATE_HALVING] = config.learning_rate_halving
    rate = config.learning_rate
    for n in range(1, 5001):
        rate = q_lambda.lower(rate, 1.0, float(n), settings)
    expected = 0.5 * (1 + 5000 / config.learning_rate_halving) ** -0.7
    assert rate == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("flattening", [0.0, 1.0])
def test_slow_steps_follow_the_learning_rule(flattening):
    learner = make_learner(slow_every=1.0, flattening=flattening, samples_per_cell=100_000)
    book, config, work = learner.codebook, learner.config, learner.numbers
    rng = np.random.default_rng(2)
    learner._begin_level()
    density = book["density"][0].copy()
    for t in range(20):
        point = rng.uniform(-1, 1, 2)
        work.figures[layout.NEXT_SLOW] = 0.0
        x = (point - learner.scale.centre) / learner.scale.scale
        codevectors, weights, k = book.codevectors, book.weights, len(book)
        p = naive.associations(
            "squared_euclidean", x, codevectors, weights, book.labels, 0, learner.temperature
        )
        emphasis = min(10.0, (k * (p @ density) + 1e-9) ** -flattening)
        n = int(work.counters[layout.SLOW_STEPS])
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
    before = learner.numbers.figures[layout.NEXT_SLOW]
    for t in range(5_000):
        learner.step(0, rng.uniform(-1, 1, 2), 0.0, False, False)
        after = learner.numbers.figures[layout.NEXT_SLOW]
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
    chosen, counts = np.unique([choosing.argmax_random(q, u) for u in draws], return_counts=True)
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
    learner.numbers.settings[layout.LEARNING_RATE_MIN] = 0.0
    rng = np.random.default_rng(0)
    actions = [learner.step(0, rng.uniform(-1, 1, 2), 0.0, False, False) for _ in range(20_000)]
    assert np.mean(np.array(actions) != 0) == pytest.approx(0.3 * 2 / 3, abs=0.04)


def test_optimism_comes_from_the_largest_reward():
    learner = TwoTimescaleLearner(
        1,
        ActionCodec(spaces.Discrete(2)),
        1,
        np.array([-np.inf]),
        np.array([np.inf]),
        TwoTimescaleConfig(warmup_steps=20, growth_steps=100, gamma=0.9, optimism=0.5),
        seed=0,
    )
    env = corridor_env()
    observation, _ = env.reset()
    action = learner.begin(0, observation)
    while not learner.numbers.counters[layout.PHASE]:
        observation, _, terminated, truncated, _ = env.step(action)
        action = learner.step(0, observation, 3.0, terminated, terminated or truncated)
        if terminated or truncated:
            action = learner.begin(0, env.reset()[0])
    np.testing.assert_allclose(learner.q_values, 0.5 * 3.0 / (1 - 0.9))


# -- continuous actions ------------------------------------------------------------------------------


def make_joint_learner(**options):
    """Two coordinates of observation and one of action."""
    settings = {
        "warmup_steps": 50,
        "growth_steps": 400,
        "max_cells": 12,
        "action_weight": 0.6,
        "gamma": 0.0,
        **options,
    }
    codec = ActionCodec(spaces.Box(np.float32([1.0]), np.float32([3.0])))
    learner = TwoTimescaleLearner(2, codec, 1, LOW, HIGH, TwoTimescaleConfig(**settings), seed=0)
    learner.set_horizon(100_000)
    rng = np.random.default_rng(0)
    learner.begin(0, rng.uniform(-1, 1, 2))
    while learner.annealer is None or not learner.numbers.counters[layout.PHASE]:
        learner.step(0, rng.uniform(-1, 1, 2), 0.5, False, False)
    return learner


def joint_shares(learner, x, u):
    """Of the cells that are near in the observation, those speak that are near in the action too."""
    mu, temperature = learner.codebook.codevectors, learner.config.softness * learner.temperature
    observed = ((mu[:, :2] - x) ** 2).sum(axis=1)
    near = observed <= observed.min() + joint_step.NEAR * temperature
    d = np.where(near, observed + (mu[:, 2] - u) ** 2, np.inf)
    p = np.exp(-(d - d.min()) / temperature) * (d <= d.min() + association.REACH * temperature)
    return p / p.sum()


def joint_value(learner, x, u, q):
    """Q(x, u) = sum_i p_i (b_i + v_i x + c_i u + m_i x u)."""
    basis = np.array([1.0, *x, u, *(u * x)]) if len(q) > 1 else np.ones(1)
    return joint_shares(learner, x, u) @ (basis @ q)


@pytest.mark.parametrize("local_model", ["constant", "linear"])
def test_steps_with_continuous_actions(local_model):
    learner = make_joint_learner(
        local_model=local_model, slow_every=1e9, exploration_initial_eps=0.5, hold=1
    )
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf
    book, config = learner.codebook, learner.config
    rng = np.random.default_rng(1)
    k, m = len(book), 6 if local_model == "linear" else 1
    temperature = config.softness * learner.temperature
    q = 0.1 * rng.normal(size=(m, k))
    book["q"][:] = q
    points = rng.uniform(-1, 1, (30, 2))
    learner.begin(0, points[0])
    visits, rate = book["visits"][0].copy(), book["rate"][0].copy()
    mu = book.codevectors
    for t in range(1, 30):
        x = (points[t - 1] - learner.scale.centre) / learner.scale.scale
        u = (learner.command(0)[0] - 2.0) * config.action_weight
        p = joint_shares(learner, x, u)
        reward = float(rng.normal())
        error = reward - joint_value(learner, x, u, q)
        dx, du = (x - mu[:, :2]).T, u - mu[:, 2]
        visits += p
        slope = config.learning_rate_power / (config.learning_rate_halving + visits)
        rate = np.maximum(config.learning_rate_min, rate * (1 - p * slope))
        if m > 1:
            near, acted = (dx**2).sum(axis=0) / temperature, du**2 / temperature
            norm = (p**2 * (1 + near + acted + near * acted)).sum()
            step = rate * p / norm * error
            # b + v (x - mu_x) + c (u - mu_u) + m (x - mu_x) (u - mu_u), written about 0
            v, c = step * dx / temperature, step * du / temperature
            products = step * dx * du / temperature**2
            q[0] += step - (v * mu[:, :2].T).sum(axis=0) - c * mu[:, 2]
            q[0] += (products * mu[:, :2].T).sum(axis=0) * mu[:, 2]
            q[1:3] += v - products * mu[:, 2]
            q[3] += c - (products * mu[:, :2].T).sum(axis=0)
            q[4:6] += products
        else:
            q[0] += rate * p / (p**2).sum() * error
        learner.step(0, points[t], reward, False, False)
        np.testing.assert_allclose(book["q"], q, rtol=1e-5, atol=1e-7)  # u has been a float32


def test_values_at_the_codevectors():
    learner = make_joint_learner(local_model="linear", softness=0.0)
    book = learner.codebook
    book["q"][:] = np.random.default_rng(0).normal(size=book["q"].shape)
    for mu, q, value in zip(book.codevectors, book["q"].T, learner.q_values, strict=True):
        assert value == pytest.approx([q @ [1.0, *mu, mu[2] * mu[0], mu[2] * mu[1]]])


def test_the_greedy_action_is_the_best():
    """Against all actions tried one by one, for a Q that is concave in the action."""
    learner = make_joint_learner(local_model="linear", softness=1.0, max_cells=60)
    book = learner.codebook
    mu = book.codevectors
    target = 0.4 * mu[:, 0]
    book["q"][:] = 0.0
    book["q"][0] = -((mu[:, 2] - target) ** 2)
    points = np.random.default_rng(3).uniform(-0.9, 0.9, (40, 2))
    chosen = (learner.greedy(points)[:, 0] - 2.0) * 0.6
    for point, u in zip(points, chosen, strict=True):
        x = (point - learner.scale.centre) / learner.scale.scale
        tried = [joint_value(learner, x, other, book["q"]) for other in np.linspace(-0.6, 0.6, 201)]
        assert joint_value(learner, x, u, book["q"]) >= np.max(tried) - 0.02 * np.ptp(tried)


def test_random_continuous_actions_fill_the_box():
    learner = make_joint_learner(exploration_initial_eps=1.0, exploration_final_eps=1.0, hold=1)
    rng = np.random.default_rng(0)
    commands = []
    for _ in range(3_000):
        learner.step(0, rng.uniform(-1, 1, 2), 0.0, False, False)
        commands.append(learner.command(0)[0])
    counts, _ = np.histogram(commands, bins=10, range=(1.0, 3.0))
    assert counts.sum() == 3_000
    assert counts.min() > 200
