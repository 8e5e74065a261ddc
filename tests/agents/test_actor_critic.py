"""The rule of the actor and its critic against a slow twin, and when its warm-up ends."""

import numpy as np
import pytest
from gymnasium import spaces
from scipy.special import digamma, expit

from oda_rl.agents import TwoTimescaleACConfig
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.beta_policy import shapes
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.actor_learner import ActorCriticLearner
from oda_rl.agents.codebook_rl.rules import actor_critic, forgetting, traces

BOX = spaces.Box(np.float32([-1.0, 0.0]), np.float32([3.0, 0.5]))
PARTS = spaces.MultiDiscrete([3, 2])


def make_learner(space=spaces.Discrete(3), ending=0.0, **options):  # noqa: B008
    settings = {"warmup_steps": 50, "growth_steps": 300, "growth_cells": 8, "max_cells": 8, **options}
    learner = ActorCriticLearner(
        2,
        ActionCodec(space),
        1,
        np.full(2, -1.0),
        np.full(2, 1.0),
        TwoTimescaleACConfig(**settings),
        seed=0,
    )
    rng = np.random.default_rng(0)
    learner.begin(0, rng.uniform(-1, 1, 2))
    while not learner.numbers.counters[layout.PHASE]:
        learner.step(0, rng.uniform(-1, 1, 2), 0.5, False, False)
        if not learner.is_scaled:
            learner.step(0, rng.uniform(-1, 1, 2), ending, True, True)
            learner.begin(0, rng.uniform(-1, 1, 2))
    return learner


def gradient_of_box(preferences, learner):
    """Of the log-density of the points that were drawn, by the preferences; points are float32."""
    y = (learner.command(0) - BOX.low) / (BOX.high - BOX.low)
    a, b = (found[0] for found in shapes(preferences[None]))
    found = [np.log(y) - digamma(a) + digamma(a + b), np.log(1 - y) - digamma(b) + digamma(a + b)]
    return np.stack(found, axis=1).ravel() * expit(preferences) * (1 + np.logaddexp(0, preferences) / 10)


def gradient_of_numbers(preferences, learner):
    """Of the log-probability of the options that were drawn, part by part, by the preferences."""
    codec, found, first = learner.actions, [], 0
    taken = np.unravel_index(learner.memory.action[0], codec.options)
    for option, count in zip(taken, codec.options, strict=True):
        likely = np.exp(preferences[first : first + count])
        found.append((np.arange(count) == option) - likely / likely.sum())
        first += count
    return np.concatenate(found)


class Twin:
    """Actor-critic(lambda) from the equations of `rules.actor_critic`, f_i about mu_i."""

    def __init__(self, learner, preferences, values):
        self.config, self.book = learner.config, learner.codebook
        self.options = learner.actions.options
        self.centre, self.scale = learner.scale.centre, learner.scale.scale
        self.temperature = self.config.softness * learner.temperature
        self.mu = self.book.codevectors
        self.h, self.v = preferences.copy(), values.copy()
        self.e_h, self.e_v = np.zeros_like(self.h), np.zeros_like(self.v)
        self.visits = self.book["visits"].sum(axis=0)
        self.rate = self.book["rate"][0].copy()
        self.mean = self.weight = self.largest = self.unit = self.sure = 0.0
        self.known = self.reach = 0.0
        self.dense, self.steps = False, 0
        self.told = np.zeros(3)  # of v, v^2, c delta^2

    def features(self, observation):
        """The shares p_i, and the features p_i and p_i (z - mu_i) / sqrt(T), of shape (m, K)."""
        z = (observation - self.centre) / self.scale
        away = (z - self.mu).T
        distance = (away**2).sum(axis=0)
        far = (distance - distance.min()) / self.temperature
        share = np.where(far <= 8.0, np.exp(-far), 0.0)
        share /= share.sum()
        if self.config.local_model == "constant":
            return share, share[None]
        return share, np.vstack([share, share * away / np.sqrt(self.temperature)])

    def preferences(self, phi):
        return (self.h * phi).sum(axis=(1, 2))

    def learn(self, x, reward, y, terminated, direction):
        share, phi = self.features(x)
        after = 0.0 if terminated else (self.v * self.features(y)[1]).sum()
        value = (self.v * phi).sum()
        gamma = 1 - (1 - self.config.gamma) / (1 + self.known / self.config.gamma_halving)
        self.steps += 1
        if self.dense:
            gamma -= (gamma - 0.96) * np.exp(-self.steps / 30_000)
        error = reward + gamma * after - value
        if self.weight > 0.5:
            mean, square, rest = self.told / self.weight
            rho = (square - mean**2) / (square - mean**2 + rest)
            self.known += max(0.0, rho - 0.9) / 0.1
        self.reach = 1 + gamma**2 * self.reach
        self.told += traces.MEAN_RATE * ([value, value**2, self.reach * error**2] - self.told)
        self.largest = max(abs(error), (1 - actor_critic.MEAN_RATE) * self.largest)
        unit = self.mean / self.weight if self.weight else abs(error)
        unit = max(unit, actor_critic.LEAST_UNIT * self.largest)
        if not self.unit / actor_critic.UNIT_TOLERANCE < unit < self.unit * actor_critic.UNIT_TOLERANCE:
            self.unit = unit
        self.visits += share
        slope = self.config.learning_rate_power / (self.config.learning_rate_halving + self.visits)
        self.rate = np.maximum(self.config.learning_rate_min, self.rate * (1 - share * slope))
        step = self.rate * phi / (phi**2).sum()
        decay = gamma * self.config.trace_decay
        self.e_v = decay * self.e_v + step
        self.e_h = decay * self.e_h + self.config.actor_rate * direction[:, None, None] * step
        error *= min(1.0, actor_critic.LARGEST_STEP / (self.e_v * phi).sum())
        self.mean += actor_critic.MEAN_RATE * (abs(error) - self.mean)
        self.weight += actor_critic.MEAN_RATE * (1 - self.weight)
        self.v += error * self.e_v
        self.h += error / self.unit * self.e_h
        first = 0
        for count in self.options:  # of numbered actions; what was likeliest may have been too sure
            part = slice(first, first + count)
            most = np.max(np.eye(count)[direction[part].argmax()] - direction[part])
            sure = max(0.0, most - forgetting.SURE) / (1 - forgetting.SURE)
            fades = np.minimum(1, forgetting.FORGETTING_VISITS / (1 + self.visits)) ** 4
            self.h[part] *= 1 - forgetting.FORGETTING * sure * fades * self.rate * share
            self.sure, first = max(self.sure, sure), part.stop


def about_codevectors(rows, book, temperature):
    """Rows b, w of functions b + w z of a cell as those of (z - mu) / sqrt(T), of shape (..., m, K)."""
    found = rows.copy()
    if rows.shape[-2] > 1:
        found[..., 0, :] += (rows[..., 1:, :] * book.codevectors.T).sum(axis=-2)
        found[..., 1:, :] *= np.sqrt(temperature)
    return found


@pytest.mark.parametrize("local_model", ["constant", "linear"])
@pytest.mark.parametrize(
    ("space", "trace_decay", "terminated", "dense"),
    [
        (spaces.Discrete(3), 0.8, False, False),
        (spaces.Discrete(3), 0.8, False, True),
        (PARTS, 0.8, False, False),
        (BOX, 0.8, True, False),
        (BOX, 0.0, True, False),
    ],
)
def test_steps_follow_the_equations(local_model, space, trace_decay, terminated, dense):
    options = {"gamma": 0.9, "trace_decay": trace_decay, "learning_rate": 0.3, "actor_rate": 0.7}
    options["gamma_halving"] = 20.0 if space is BOX else np.inf
    if dense:
        options["gamma"] = 0.99
    learner = make_learner(space, local_model=local_model, **options)
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf  # the fast timescales alone
    rng, book = np.random.default_rng(1), learner.codebook
    k, m, n = len(book), 3 if local_model == "linear" else 1, learner.sizes.n_actions
    assert n == (4 if space is BOX else 5 if space is PARTS else 3)
    h, v = 0.3 * rng.normal(size=(n, m, k)), 0.3 * rng.normal(size=(m, k))
    h[0, 0] += 5.0  # most observations make the actor sure of an action
    book["q"][:], book["v"][:] = h.reshape(n * m, k), v
    book["visits"][:] = np.linspace(0.0, forgetting.FORGETTING_VISITS, k)  # of each action
    temperature = learner.config.softness * learner.temperature
    twin = Twin(
        learner, about_codevectors(h, book, temperature), about_codevectors(v, book, temperature)
    )
    twin.dense = dense
    learner.numbers.figures[layout.DENSE] = 30_000.0 * dense
    twin.steps = int(learner.numbers.counters[layout.LEARNING_STEPS])
    points = rng.uniform(-1, 1, (40, 2))
    if space is BOX:  # the critic has explained much so far
        twin.mean, twin.weight, twin.told[:] = 0.8, 0.9, (0.5, 19.0, 1.0)
        found = [layout.MEAN_ERROR, layout.MEAN_ERROR_WEIGHT, layout.MEAN_VALUE]
        found += [layout.MEAN_SQUARE, layout.UNEXPLAINED]
        learner.numbers.figures[found] = twin.mean, twin.weight, *twin.told
    learner.begin(0, points[0])
    for t in range(1, 40):
        direction = learner.memory.direction[0].copy()
        reward, last = float(rng.normal()), t == 39 and terminated
        upcoming = twin.preferences(twin.features(points[t])[1])
        twin.learn(points[t - 1], reward, points[t], last, direction)
        learner.step(0, points[t], reward, last, last)
        found = about_codevectors(book["q"].reshape(n, m, k), book, temperature)
        np.testing.assert_allclose(found, twin.h, rtol=1e-8, atol=1e-10)
        found = about_codevectors(book["v"], book, temperature)
        np.testing.assert_allclose(found, twin.v, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(book["visits"].sum(axis=0), twin.visits, rtol=1e-9)
        np.testing.assert_allclose(book["rate"], np.tile(twin.rate, (n, 1)), rtol=1e-9)
        if not last:  # the next action is drawn from the actor as it was when the observation came
            gradient = gradient_of_box if space is BOX else gradient_of_numbers
            wanted = gradient(upcoming, learner)
            np.testing.assert_allclose(learner.memory.direction[0], wanted, rtol=1e-5, atol=1e-6)
    assert (twin.sure > 0.5) == (space is not BOX)
    np.testing.assert_allclose(learner.numbers.figures[layout.KNOWN_STEPS], twin.known, rtol=1e-9)
    assert (twin.known > 10.0) == (space is BOX)


def test_the_parts_of_an_action_are_drawn_independently():
    learner = make_learner(PARTS)
    book = learner.codebook
    book["q"][:], book["v"][:] = 0.0, 0.0
    intercepts = book["q"].reshape(5, -1, len(book))[:, 0]
    intercepts[:] = np.log([[0.2], [0.7], [0.1], [0.6], [0.4]])
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf
    found, x = np.zeros(6), np.zeros(2)
    learner.begin(0, x)
    for _ in range(20_000):
        learner.step(0, x, 0.0, False, False)  # as expected: nothing is learned
        found[learner.memory.action[0]] += 1 / 20_000
    wanted = np.outer([0.2, 0.7, 0.1], [0.6, 0.4]).ravel()
    np.testing.assert_allclose(learner.probabilities(x[None])[0], wanted)
    np.testing.assert_allclose(found, wanted, atol=0.015)
    assert learner.greedy(x[None])[0] == 2


def shares_of_held_noise(learner):
    """In each of 300 episodes, the share of steps that keep the noise; and all noise, (n, m)."""
    x, rng, shares, rows = np.zeros(2), np.random.default_rng(1), [], []
    for _ in range(300):
        learner.begin(0, x)
        noise = [learner.memory.noise[0].copy()]
        for _ in range(60):
            learner.step(0, rng.uniform(-1.0, 1.0, 2), 0.0, False, False)
            noise.append(learner.memory.noise[0].copy())
        learner.step(0, x, 0.0, True, True)
        found = np.array(noise)
        assert (found[:, -1] == found[0, -1]).all()
        kept = np.diff(found[:, :-1], axis=0) == 0.0
        assert (kept == kept[:, :1]).all()
        shares.append(kept[:, 0].mean())
        rows.append(found[1:][~kept[:, 0], :-1])
    return np.array(shares), np.concatenate(rows)


@pytest.mark.parametrize(("space", "kept"), [(BOX, 0.9), (spaces.Discrete(3), 0.5), (PARTS, 0.5)])
def test_noise_is_held_in_half_of_the_episodes(space, kept):
    learner = make_learner(space)
    learner.numbers.figures[layout.VARIED_SHARE] = 0.6
    shares, rows = shares_of_held_noise(learner)
    held = shares > 0.0
    assert held.mean() == pytest.approx(0.5, abs=0.12)
    assert shares[held].mean() == pytest.approx(kept, abs=0.02)
    np.testing.assert_allclose(rows.mean(axis=0), 0.5, atol=0.02)
    between = np.corrcoef(rows, rowvar=False)
    np.testing.assert_allclose(between, np.eye(2) if space is BOX else 1.0, atol=0.04)


def test_noise_of_discrete_actions_is_not_held_if_rewards_are_alike():
    learner = make_learner()
    assert learner.numbers.figures[layout.VARIED_SHARE] <= 0.5
    assert not shares_of_held_noise(learner)[0].any()


def test_gamma_rises_only_where_returns_are_explained():
    angles, chance = np.linspace(0, 400 * np.pi, 10_000), np.random.default_rng(1).normal(size=10_000)
    points, known = np.stack([np.cos(angles), np.sin(angles)], axis=1), []
    for rewards in (10.0 * points[:, 0], chance):
        learner = make_learner(BOX)
        learner.begin(0, points[0])
        for x, reward in zip(points[1:], rewards, strict=False):
            learner.step(0, x, float(reward), False, False)
        known.append(learner.numbers.figures[layout.KNOWN_STEPS])
    assert known[0] > 1000.0
    assert known[1] == 0.0


def test_rewards_of_any_size_are_the_same_to_the_actor():
    first, second = make_learner(), make_learner()
    rng = np.random.default_rng(0)
    for learner in (first, second):
        learner.numbers.figures[layout.REWARDS : layout.REWARDS + 4] = 0.0  # nothing is incredible yet
        learner.begin(0, np.zeros(2))
    for x, reward in zip(rng.uniform(-1, 1, (300, 2)), rng.normal(size=300), strict=True):
        first.step(0, x, float(reward), False, False)
        second.step(0, x, 1024.0 * float(reward), False, False)
    np.testing.assert_array_equal(second.codebook["q"], first.codebook["q"])
    np.testing.assert_array_equal(second.codebook["v"], 1024.0 * first.codebook["v"])


def test_the_first_reward_after_a_long_time_is_not_taken_for_enormous():
    """The mean size of the errors is about 0 then."""
    learner = make_learner()
    learner.begin(0, np.zeros(2))
    for x in np.random.default_rng(0).uniform(-1, 1, (5000, 2)):
        learner.step(0, x, 0.0, False, False)
    learner.step(0, np.zeros(2), 1.0, True, True)
    points = np.random.default_rng(1).uniform(-1, 1, (100, 2))
    assert 1e-3 < learner.probabilities(points).min() < 1 / 3 - 1e-3


def test_values_begin_at_the_largest_end_that_the_growth_has_seen():
    for space, ending, wanted in ((BOX, 7.0, 7.0), (BOX, -7.0, 0.0), (spaces.Discrete(3), 7.0, 0.0)):
        learner = make_learner(space, ending=ending)
        points = np.random.default_rng(0).uniform(-1, 1, (5, 2))
        np.testing.assert_allclose(learner.state_values(points), wanted)


def count_warm_up(*rewards, ending=False, minimise=False, space=spaces.Discrete(2)):  # noqa: B008
    """Steps of a warm-up of 20 observations, in which these rewards come in turn, or actions cost."""
    codec = ActionCodec(space)
    config = TwoTimescaleACConfig(warmup_steps=20, growth_cells=2, max_cells=2, minimise=minimise)
    learner, other = (
        ActorCriticLearner(1, codec, 1, np.full(1, -1.0), np.ones(1), config, seed) for seed in (0, 1)
    )
    rng, steps = np.random.default_rng(0), 0
    learner.begin(0, rng.uniform(-1, 1, 1))
    while not learner.is_scaled:
        last = ending and steps == 5
        reward = rewards[steps % len(rewards)] if rewards else -np.sum(learner.command(0) ** 2)
        learner.step(0, rng.uniform(-1, 1, 1), float(reward), last, last)
        steps += 1
        other.set_state(learner.get_state())
        assert other.warm_up_hold == learner.warm_up_hold
    assert learner.warm_up_hold == config.growth_hold * (8 if steps > 19 else 1)
    return steps


@pytest.mark.parametrize("minimise", [False, True])
def test_a_warm_up_in_which_nothing_happens_goes_on(minimise):
    for same in (-1.0, 0.0, 2.0):
        assert count_warm_up(same, minimise=minimise) == 19 + 3 * 10
    for told in ((-1.0, -2.0), (1.0, -1.0), (0.0, 1.0, 0.0)):
        assert count_warm_up(*told, minimise=minimise) == 19
    assert count_warm_up(-1.0, ending=True, minimise=minimise) == 19


def test_costs_of_points_do_not_end_a_warm_up():
    assert count_warm_up(space=BOX) == count_warm_up(-1.0, space=BOX) == 19 + 3 * 10
    assert count_warm_up(space=BOX, ending=True) == 19
    assert count_warm_up(-1.0, -1.1, -3.0, space=BOX) == 19, "actions explain nothing"
