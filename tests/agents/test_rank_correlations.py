from itertools import chain

import gymnasium as gym
import numpy as np
import pytest
from environments import IdentityEnv, NoiseWrapper
from scipy.stats import rankdata

from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ
from oda_rl.agents.codebook_rl.rank_correlations import MOST_COORDINATES, find_noise

N = 3000


def walk(rng, cue, told=""):
    """A walk in a plane by one of three options: the transitions that `find_noise` takes.

    Coordinates are the two of the plane, one that `cue` draws, and another one with long tails. The cue
    tells nothing, or it `turns` the steps, or `pays` for an option.
    """
    options = rng.integers(3, size=N)
    extra = np.column_stack([cue(N), rng.standard_cauchy(N)])
    steps = 0.1 * (options[:, None] - 1) * np.array([1.0, 0.0]) + 0.05 * rng.normal(size=(N, 2))
    if told == "turns":
        steps *= np.sign(extra[:, :1])
    where = np.cumsum(np.vstack([np.zeros(2), steps]), axis=0)
    rewards = -np.abs(where[1:]).sum(axis=1)
    if told == "pays":
        rewards += options * extra[:, 0]
    before = np.hstack([where[:-1], extra])
    after = np.hstack([where[1:], np.roll(extra, -1, axis=0)])
    return before, np.eye(3)[options], rewards, after


@pytest.mark.parametrize("seed", range(100, 105))
@pytest.mark.parametrize("kind", ["normal", "uniform", "signs"])
def test_noise_is_found_and_what_tells_something_is_not(kind, seed):
    rng = np.random.default_rng(seed)
    draw = {
        "normal": lambda n: rng.normal(size=n),
        "uniform": lambda n: rng.uniform(-1.0, 1.0, n),
        "signs": lambda n: rng.choice([-1.0, 1.0], n),
    }[kind]
    np.testing.assert_array_equal(find_noise(*walk(rng, draw)), [False, False, True, True])
    for told in ("turns", "pays"):
        found = find_noise(*walk(rng, draw, told))
        np.testing.assert_array_equal(found, [False, False, False, True])


def test_noise_is_found_however_many_coordinates_it_has():
    rng = np.random.default_rng(100)
    before, actions, rewards, after = walk(rng, lambda n: rng.normal(size=n))
    more = rng.choice([-1.0, 1.0], (N + 1, 80))
    before, after = np.hstack([before, more[:-1]]), np.hstack([after, more[1:]])
    found = find_noise(before, actions, rewards, after)
    np.testing.assert_array_equal(found, [False, False, *[True] * 82])


def find_noise_by_single_tests(before, actions, rewards, after):
    """As `find_noise`, with each correlation computed by itself."""
    limit = 5.0 / np.sqrt(len(before))

    def scores(column):
        ranks = rankdata(column)
        return ranks - ranks.mean()

    def with_size(column):
        return [scores(column), scores(np.abs(column - np.median(column)))]

    def related(one, other):
        one, other = one - one.mean(), other - other.mean()
        size = np.sqrt((one @ one) * (other @ other))
        return size > 1e-6 and abs(one @ other) >= limit * size

    def any_related(ones, *others):
        return any(related(one, other) for one in ones for other in chain.from_iterable(others))

    d = before.shape[1]
    now, later = ([with_size(column) for column in part.T] for part in (before, after))
    acts, paid = [scores(column) for column in actions.T], with_size(rewards)
    acts = [act / act.std() for act in acts]
    noise = [
        not any_related(now[j], *now[:j], *now[j + 1 :], *later, paid)
        and not any_related(later[j], *now, acts, paid)
        for j in range(d)
    ]
    kept = [j for j in range(d) if not noise[j]]
    known = np.column_stack([np.ones(len(before)), *chain(*(now[j] for j in kept)), *acts])
    follows = [rewards, *(after[:, j] - before[:, j] for j in kept)]
    rest = [one - known @ np.linalg.lstsq(known, one)[0] for one in follows]
    rest = [with_size(one) for one in rest]
    for j in range(d):
        plain = [now[i][0] / now[i][0].std() for i in range(d)]
        twos = [plain[j] * one for one in plain]
        twos = [(one - one.mean()) / max(one.std(), 1e-6) for one in twos]
        threes = [one * act for one in twos for act in acts]
        noise[j] = noise[j] and not (
            any_related([*now[j], *twos, *(plain[j] * act for act in acts)], *rest)
            or any_related(threes, rest[0])
        )
    return noise


@pytest.mark.parametrize("seed", range(100, 112))
def test_every_correlation_counts(seed):
    rng = np.random.default_rng(seed)
    n, d = 600, 5
    seen = rng.choice([-1.0, 1.0], (n + 1, d)) if seed % 2 else rng.normal(size=(n + 1, d))
    seen[:, 0] = np.cumsum(seen[:, 0])
    options = rng.integers(3, size=n)
    strength = 0.5 * rng.random(4)
    rewards = rng.normal(size=n) + strength[0] * seen[:-1, 1] * seen[:-1, 2] * (options == 1)
    rewards += strength[1] * seen[1:, 3] + strength[2] * seen[:-1, 2] * (options == 2)
    seen[1:, 0] += strength[3] * seen[:-1, 4] * seen[:-1, 1]
    transitions = seen[:-1], np.eye(3)[options], rewards, seen[1:]
    assert find_noise(*transitions).tolist() == find_noise_by_single_tests(*transitions)


def test_two_that_tell_something_together_are_no_noise():
    rng = np.random.default_rng(100)
    cues, options = rng.choice([-1.0, 1.0], (N + 1, 3)), rng.integers(2, size=N)
    place = np.cumsum(rng.normal(size=N + 1))
    seen = np.column_stack([place, cues])
    rewards = (options == (cues[:-1, 0] * cues[:-1, 1] > 0.0)).astype(float)
    found = find_noise(seen[:-1], np.eye(2)[options], rewards, seen[1:])
    np.testing.assert_array_equal(found, [False, False, False, True])


def test_a_rare_sign_is_no_noise():
    rng = np.random.default_rng(100)
    before, actions, rewards, after = walk(rng, lambda n: (rng.random(n) < 0.05).astype(float))
    assert not find_noise(before, actions, rewards, after)[2]


def test_nothing_is_said_of_noise_alone_of_few_transitions_and_of_many_coordinates():
    rng = np.random.default_rng(100)
    whole = walk(rng, lambda n: rng.normal(size=n))
    assert not find_noise(*(part[:400] for part in whole)).any()
    noise = rng.normal(size=(N + 1, MOST_COORDINATES + 1))
    told = whole[1], rng.normal(size=N)
    assert not find_noise(noise[:-1], *told, noise[1:]).any()
    noise[:, 0] = np.cumsum(noise[:, 0])
    assert not find_noise(noise[:-1], *told, noise[1:]).any()
    assert not find_noise(noise[:-1, 1:10], *told, noise[1:, 1:10]).any()


def make_env(n_noise=6):
    return NoiseWrapper(gym.make("CartPole-v1"), n_noise)


@pytest.mark.parametrize("kind", [TwoTimescaleAC, TwoTimescaleQ])
def test_agents_leave_noise_out_of_their_distances(kind):
    model = kind(env=make_env(), seed=100).learn(8000)
    np.testing.assert_array_equal(model.learner.scale.coarse, [1.0] * 4 + [10.0] * 6)
    codevectors = model.learner.codebook.codevectors
    assert codevectors[:, 4:].std() < 0.1 * codevectors[:, :4].std(axis=0).min()
    plain = kind(env="CartPole-v1", seed=100).learn(4000)
    np.testing.assert_array_equal(plain.learner.scale.coarse, 1.0)


def test_a_pole_is_balanced_beside_noise():
    """Without the test of noise the mean of four seeds is 248 after 20,000 steps."""
    model = TwoTimescaleAC(env=make_env(8), seed=100).learn(20_000)
    env, returns = make_env(8), 0.0
    for episode in range(5):
        observation, _ = env.reset(seed=episode)
        for _ in range(500):
            observation, reward, terminated, _, _ = env.step(int(model.predict(observation)[0]))
            returns += reward / 5
            if terminated:
                break
    assert returns > 400.0


def test_a_training_cut_in_the_warm_up_goes_on_with_its_transitions(tmp_path):
    model = TwoTimescaleAC(env=NoiseWrapper(IdentityEnv(), 2), seed=100, warmup_steps=3000).learn(2700)
    model.save(tmp_path / "cut")
    again = TwoTimescaleAC.load(tmp_path / "cut", env=NoiseWrapper(IdentityEnv(), 2))
    np.testing.assert_array_equal(again.learner.record.rows[:2700], model.learner.record.rows[:2700])
    again.learn(300, reset_num_timesteps=False)  # which alone would be too few
    np.testing.assert_array_equal(again.learner.scale.coarse, [1.0, 10.0, 10.0])
