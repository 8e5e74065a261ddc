"""One partition for all environments of a vector."""

import gymnasium as gym
import numpy as np
import pytest
from aggregated import grow
from gymnasium.vector import AutoresetMode

from oda_rl.envs import StateAggregation, VectorStateAggregation


@pytest.fixture(scope="module")
def grown():
    return grow()


def make_vector(n=3, mode=AutoresetMode.NEXT_STEP):
    return gym.make_vec(
        "CartPole-v1", n, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )


def drive(envs, n, seed=0):
    rng = np.random.default_rng(seed)
    states = [envs.reset(seed=seed)[0]]
    for _ in range(n):
        states.append(envs.step(rng.integers(2, size=envs.num_envs))[0])
    return np.array(states)


def test_one_partition_for_all_environments():
    envs = VectorStateAggregation(make_vector(), max_states=40)
    states = drive(envs, 5000)
    assert states.dtype == np.int64
    assert states.shape == (5001, 3)
    assert envs.observation_space == gym.spaces.MultiDiscrete([40, 40, 40])
    assert envs.single_observation_space == gym.spaces.Discrete(40)
    assert all(row in envs.observation_space for row in states[::100])
    assert 15_003 - 66 < envs.partition.n_samples_seen_ <= 15_003
    assert envs.n_states > 10
    assert envs.revert_observation(states[-1]).shape == (3, 4)


def test_the_same_states_as_one_by_one(grown):
    together = VectorStateAggregation(make_vector(), grown, learn=False)
    apart = gym.make_vec(
        "CartPole-v1",
        3,
        vectorization_mode="sync",
        wrappers=[lambda env: StateAggregation(env, grown, learn=False)],
    )
    assert apart.single_observation_space == together.single_observation_space
    np.testing.assert_array_equal(drive(together, 300), drive(apart, 300))


def test_final_observations_are_states_too(grown):
    envs = VectorStateAggregation(make_vector(mode=AutoresetMode.SAME_STEP), grown)
    plain = make_vector(mode=AutoresetMode.SAME_STEP)
    fixed = VectorStateAggregation(make_vector(), grown, learn=False)
    envs.reset(seed=0)
    plain.reset(seed=0)
    finals = 0
    for _ in range(60):
        *_, info = envs.step(np.zeros(3, dtype=int))
        *_, expected = plain.step(np.zeros(3, dtype=int))
        assert ("final_obs" in info) == ("final_obs" in expected)
        for final, observation in zip(
            info.get("final_obs", ()), expected.get("final_obs", ()), strict=True
        ):
            assert (final is None) == (observation is None)
            if final is not None:
                finals += 1
                assert final in envs.single_observation_space
                if envs.partition.n_samples_seen_ == grown.n_samples_seen_:
                    assert final == fixed._aggregator.find(observation)
    assert finals > 10
    learned = envs.partition.n_samples_seen_ - grown.n_samples_seen_
    assert 61 * 3 + finals - 66 < learned <= 61 * 3 + finals


def test_what_was_not_reset_is_not_learned_twice(grown):
    envs = VectorStateAggregation(make_vector(mode=AutoresetMode.DISABLED), grown)
    before, _ = envs.reset(seed=0)
    for _ in range(64):
        after, _ = envs.reset(seed=1, options={"reset_mask": np.array([False, True, False])})
        assert (after[0], after[2]) == (before[0], before[2])
    assert envs.partition.n_samples_seen_ == grown.n_samples_seen_ + 64
