import gymnasium as gym
import numpy as np
import pytest
from environments import IdentityEnv, NoiseWrapper

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
