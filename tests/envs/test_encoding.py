"""How states are shown."""

import gymnasium as gym
import numpy as np
import pytest
from aggregated import Replay, grow, points, wander

from oda_rl.envs import StateAggregation, VectorStateAggregation


@pytest.fixture(scope="module")
def grown():
    return grow()


def test_states_as_vectors(grown):
    """What the encodings show is what the partition tells of the same observations."""
    given = {"partition": grown, "learn": False}
    plain = gym.make("CartPole-v1")
    kinds = ("number", "one_hot", "codevector", "association", "features")
    envs = [StateAggregation(gym.make("CartPole-v1"), **given, encoding=kind) for kind in kinds]
    softer, widest = grown.temperature_ * 4.0, grown.temperature_ * 16.0
    rng = np.random.default_rng(0)
    observation, _ = plain.reset(seed=1)
    shown = [env.reset(seed=1)[0] for env in envs]
    for _ in range(30):
        number, one_hot, codevector, association, features = shown
        assert all(env.observation_space.contains(state) for env, state in zip(envs, shown, strict=True))
        assert one_hot.tolist() == [float(i == number) for i in range(len(one_hot))]
        np.testing.assert_allclose(codevector, envs[0].revert_observation(number), rtol=1e-6)
        away = (((grown.codevectors_ - observation) / grown.scale_) ** 2).sum(axis=1)
        expected = np.exp(-(away - away.min()) / softer)
        np.testing.assert_allclose(
            association[grown.cell_ids_], expected / expected.sum(), rtol=1e-4, atol=1e-6
        )
        expected = np.exp(-(away - away.min()) / widest)
        expected /= np.sqrt((expected**2).sum())
        np.testing.assert_allclose(features[grown.cell_ids_], expected, rtol=1e-4, atol=1e-6)
        action = int(rng.integers(2))
        observation, _, ended, _, _ = plain.step(action)
        shown = [env.step(action)[0] for env in envs]
        if ended:
            observation, _ = plain.reset()
            shown = [env.reset()[0] for env in envs]


def test_vectors_of_a_codebook_that_grows():
    env = StateAggregation(Replay(points()), max_states=16, encoding="association")
    states = wander(env, 2900)
    assert states[0].tolist() == [1.0] + [0.0] * 15
    np.testing.assert_allclose(np.sum(states, axis=1), 1.0, rtol=1e-5)
    assert np.mean(np.array(states[-500:]).max(axis=1) < 0.95) > 0.5
    envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    envs = VectorStateAggregation(envs, max_states=16, warmup_steps=60, encoding="codevector")
    envs.reset(seed=0)
    for _ in range(100):
        seen, *_ = envs.step(np.array([0, 1, 0]))
    assert seen.shape == envs.observation_space.shape == (3, 4)
    assert seen.dtype == np.float32


def test_features_of_any_softness_have_one_length():
    """Of a single cell as well as of all, and within the space."""
    for softness in (0.0, 0.5, 4.0, 1e6):
        env = StateAggregation(Replay(points()), max_states=16, encoding="features", softness=softness)
        states = wander(env, 2900)
        assert all(env.observation_space.contains(state) for state in states)
        np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1.0, rtol=1e-5)
        assert states[0].tolist() == [1.0] + [0.0] * 15


def test_an_encoding_that_is_not_there():
    with pytest.raises(ValueError, match=r"encoding must be one of \('number', .*got 'binary'"):
        StateAggregation(gym.make("CartPole-v1"), encoding="binary")
