"""The wrapper: what becomes of observations, what is learned, and who can use it."""

import gymnasium as gym
import numpy as np
import pytest
from aggregated import Replay, grow, points, wander
from gymnasium.utils.env_checker import check_env

from oda_rl import ODAPartition
from oda_rl.envs import StateAggregation


@pytest.fixture(scope="module")
def grown():
    return grow()


def test_it_works_where_a_grid_does_not():
    if hasattr(gym.wrappers, "DiscretizeObservation"):  # since Gymnasium 1.2
        with pytest.raises(ValueError, match="finite"):
            gym.wrappers.DiscretizeObservation(gym.make("CartPole-v1"), 4)
    env = StateAggregation(gym.make("CartPole-v1"), max_states=20)
    states = wander(env, 8000)
    assert env.observation_space == gym.spaces.Discrete(20)
    assert all(isinstance(state, int) for state in states)
    assert states[:1000] == [0] * 1000
    assert len(set(states)) > 10
    assert set(states) <= set(range(20))
    assert env.n_states <= 20


def test_the_partition_is_that_of_the_observations_learned_one_by_one():
    seen = points()
    env = StateAggregation(Replay(seen), ODAPartition(16, random_state=1), warmup_steps=200)
    wander(env, len(seen) - 12)
    n = env.partition.n_samples_seen_
    assert len(seen) - 12 - 64 < n <= len(seen)
    alone = ODAPartition(16, scale=env.partition.scale_, forgetting=None, random_state=1)
    for x in seen[:n]:
        alone.partial_fit(x[None, :])
    np.testing.assert_allclose(env.partition.codevectors_, alone.codevectors_)
    np.testing.assert_array_equal(env.partition.cell_ids_, alone.cell_ids_)


def test_units_do_not_matter():
    seen = points()
    cells = []
    for scale in (1.0, [1000.0, 1.0]):
        env = StateAggregation(Replay(seen * scale), max_states=16)
        cells.append(wander(env, 2900))
    agree = np.mean(np.array(cells[0]) == np.array(cells[1]))
    assert agree > 0.99
    spread = env.partition.codevectors_.std(axis=0) / seen.std(axis=0) / [1000.0, 1.0]
    assert spread.min() > 0.1  # both coordinates are told apart


def test_bounds_tell_the_scale_where_there_are_some():
    seen = points()
    env = StateAggregation(Replay(seen, low=[-10.0, -3e38], high=[30.0, 3e38]), max_states=8)
    wander(env, 1500)
    assert env.partition.scale_[0] == 20.0
    assert 1500 < env.partition.scale_[1] < 5000


def test_a_fixed_partition_stays_as_it_is(grown):
    before = grown.codevectors_.copy()
    env = StateAggregation(gym.make("CartPole-v1"), grown, learn=False)
    observation, _ = env.env.reset(seed=3)
    state, _ = env.reset(seed=3)
    assert state == grown.cell_ids_[grown.predict(observation[None])[0]]
    wander(env, 500)
    np.testing.assert_array_equal(env.partition.codevectors_, before)
    assert env.births == []
    found = env.revert_observation(state)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, before[list(grown.cell_ids_).index(state)], rtol=1e-6)


def test_the_callers_partition_is_left_alone(grown):
    before, seen = grown.codevectors_.copy(), grown.n_samples_seen_
    env = StateAggregation(gym.make("CartPole-v1"), grown)
    wander(env, 2000, seed=1)
    assert env.partition.n_samples_seen_ > seen
    assert grown.n_samples_seen_ == seen
    np.testing.assert_array_equal(grown.codevectors_, before)
    new = ODAPartition(10)
    wander(StateAggregation(gym.make("CartPole-v1"), new), 1500)
    assert not hasattr(new, "codevectors_")


def test_a_state_stays_the_same_cell_while_the_codebook_grows():
    """Followed by their numbers, cells hardly move between looks; new ones come out of their parents."""
    env = StateAggregation(Replay(np.random.default_rng(0).uniform(size=(8000, 2))), max_states=30)
    wander(env, 3000)
    for _ in range(40):
        before = {state: env.revert_observation(state) for state in env.partition.cell_ids_}
        n_births = len(env.births)
        wander(env, 64)
        births = env.births[n_births:]
        newborn = {birth.cell for birth in births}
        for state in env.partition.cell_ids_:
            now = env.revert_observation(state)
            if state not in newborn:
                assert np.linalg.norm(now - before[state]) < 0.2
        for birth in births:
            if birth.cell in env.partition.cell_ids_ and birth.parent in before:
                now = env.revert_observation(birth.cell)
                assert np.linalg.norm(now - before[birth.parent]) < 0.4
    assert len(env.births) > 10


def test_learning_can_be_turned_off_and_on(grown):
    env = StateAggregation(gym.make("CartPole-v1"), grown)
    env.learn = False
    wander(env, 300)
    assert env.partition.n_samples_seen_ == grown.n_samples_seen_
    env.learn = True
    wander(env, 300)
    assert env.partition.n_samples_seen_ > grown.n_samples_seen_


def test_a_file_brings_the_same_states(grown, tmp_path):
    path = grown.save(tmp_path / "cells")
    first = StateAggregation(gym.make("CartPole-v1"), grown, learn=False)
    for partition in (path, str(path), ODAPartition.load(path)):
        env = StateAggregation(gym.make("CartPole-v1"), partition, learn=False)
        assert env.observation_space == first.observation_space
        assert wander(env, 300) == wander(first, 300)
    more = StateAggregation(gym.make("CartPole-v1"), path)
    assert wander(more, 3000) == wander(StateAggregation(gym.make("CartPole-v1"), grown), 3000)


@pytest.mark.parametrize("learn", [True, False])
def test_gymnasiums_checks(grown, learn):
    check_env(StateAggregation(gym.make("CartPole-v1").unwrapped, grown, learn=learn))
    check_env(StateAggregation(gym.make("Pendulum-v1").unwrapped, max_states=5))


def test_the_spec_makes_it_again(grown, tmp_path):
    path = str(grown.save(tmp_path / "cells"))
    env = StateAggregation(gym.make("CartPole-v1"), path, learn=False)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, StateAggregation)
    assert again.learn is False
    assert wander(again, 100) == wander(env, 100)


def test_images_are_flattened_and_come_back():
    seen = np.random.default_rng(0).integers(0, 255, (3000, 2, 3)).astype(np.uint8)
    env = StateAggregation(Replay(seen, 0, 255), max_states=8)
    states = wander(env, 2900)
    assert len(set(states)) > 3
    assert env.revert_observation(states[-1]).shape == (2, 3)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (gym.spaces.Dict(a=gym.spaces.Box(-1, 1)), "FlattenObservation"),
        (gym.spaces.Discrete(4), "need no aggregation"),
        (gym.spaces.Box(-1, 1, (0,)), "a Box is accepted"),
    ],
)
def test_other_spaces_are_refused(space, message):
    env = Replay(points())
    env.observation_space = space
    with pytest.raises(ValueError, match=message):
        StateAggregation(env)


def test_bad_arguments_are_refused(grown):
    def make(*arguments, **more):
        return StateAggregation(gym.make("CartPole-v1"), *arguments, **more)

    with pytest.raises(TypeError, match="partition must be an ODAPartition"):
        make(42)
    with pytest.raises(ValueError, match="learn=False needs a fitted partition"):
        make(ODAPartition(5), learn=False)
    with pytest.raises(ValueError, match="max_states must be at least"):
        make(grown, max_states=10)
    with pytest.raises(ValueError, match="max_states must be at least 1"):
        make(max_states=0)
    with pytest.raises(
        ValueError, match="partition must have 4 features, as an observation does, got 2"
    ):
        make(ODAPartition(5).fit(points()))
    with pytest.raises(FileNotFoundError, match="no model file"):
        make("nowhere.npz")
    with pytest.raises(ValueError, match="during the warm-up"):
        make().learn = False
    env = make(grown)
    with pytest.raises(ValueError, match=r"states must be current states, .* got 1000"):
        env.revert_observation(1000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"softness": "x"}, "softness must be a non-negative and finite number, got 'x'"),
        ({"softness": True}, "softness must be a non-negative and finite number, got True"),
        ({"learn": "no"}, "learn must be True or False, got 'no'"),
        ({"warmup_steps": 10**13}, "warmup_steps must be .* fit into memory, got 10000000000000"),
        ({"warmup_steps": 10**30}, "warmup_steps must be .* fit into memory, got 1000000000000"),
        ({"max_states": 10**30}, "max_states must be .* fit into memory, got 1000000000000"),
        ({"max_states": 10**13, "encoding": "one_hot"}, "max_states must be .* fit into memory"),
    ],
)
def test_arguments_of_other_kinds_are_refused_with_their_name(given, message):
    with pytest.raises(ValueError, match=message):
        StateAggregation(Replay(points()), **given)


@pytest.mark.parametrize("states", ["a", 1.5, None, True, [0.0], [[0], [0, 0]]])
def test_only_whole_numbers_are_states(states):
    env = StateAggregation(Replay(points()), max_states=8)
    with pytest.raises(ValueError, match="states must be integers, the numbers of current states, got"):
        env.revert_observation(states)
    assert env.revert_observation([]).shape == (0, 2)
    with pytest.raises(ValueError, match="learn must be True or False, got 'no'"):
        env.learn = "no"


@pytest.mark.parametrize("when", [5, 2000])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_observation_that_is_not_finite_is_refused(when, value):
    seen = points()
    seen[when, 1] = value
    env = StateAggregation(Replay(seen), max_states=8)
    with pytest.raises(ValueError, match=rf"the environment returned the observation .*{value}"):
        wander(env, 2900)


@pytest.mark.parametrize("steps", [3, 200])
@pytest.mark.parametrize("found", [np.ones(1), np.ones(3), 1.0, np.ones((1, 2)), None])
def test_an_observation_of_another_shape_is_refused(steps, found):
    class Liar(gym.Env):
        observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = gym.spaces.Discrete(2)
        n = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, dtype=np.float32), {}

        def step(self, action):
            self.n += 1
            seen = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
            return (found if self.n == steps else seen), 0.0, False, False, {}

    env = StateAggregation(Liar(), max_states=5, warmup_steps=100)
    env.reset(seed=0)
    for _ in range(steps - 1):
        env.step(0)
    with pytest.raises(ValueError, match=r"observation of shape .* observation_space is \(2,\)"):
        env.step(0)
    assert env.observation(np.zeros(2, dtype=np.float32)) < 5  # and it goes on


def test_divergences_of_positive_data():
    seen = np.random.default_rng(0).gamma(4.0, size=(3000, 2))
    seen[2500, 0] = -1.0
    env = StateAggregation(Replay(seen), ODAPartition(8, divergence="kl", random_state=0))
    with pytest.raises(ValueError, match="outside the domain of the divergence 'kl'"):
        wander(env, 2900)
    assert env.n_states == 8


# -- a learner of one's own ----------------------------------------------------------------------


def q_learning(env, steps, seed):
    """The twenty lines of the documentation: cells first, then values."""
    rng = np.random.default_rng(seed)
    q = np.full((env.observation_space.n, env.action_space.n), 100.0)
    state, _ = env.reset(seed=seed)
    for t in range(steps):
        if t == 30_000:
            env.learn = False
        greedy = t >= 30_000 and rng.random() > 0.02
        action = int(q[state].argmax()) if greedy else int(rng.integers(env.action_space.n))
        after, reward, terminated, truncated, _ = env.step(action)
        if t >= 30_000:
            target = reward + 0.99 * (0.0 if terminated else q[after].max())
            q[state, action] += 0.2 * (1.0 - t / steps) * (target - q[state, action])
        state = env.reset()[0] if terminated or truncated else after
    return q


def test_a_tabular_q_learner_learns_cart_pole():
    env = StateAggregation(gym.make("CartPole-v1"), max_states=100)
    q = q_learning(env, 100_000, seed=0)
    returns = []
    for episode in range(20):
        state, _ = env.reset(seed=1000 + episode)
        total, ended = 0.0, False
        while not ended:
            state, reward, terminated, truncated, _ = env.step(int(q[state].argmax()))
            total, ended = total + reward, terminated or truncated
        returns.append(total)
    assert np.mean(returns) > 300


def test_stable_baselines_learns_from_states(grown):
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env

    options = {"wrapper_class": StateAggregation, "seed": 0}
    fixed = {"partition": grown, "learn": False}
    envs = make_vec_env("CartPole-v1", 2, wrapper_kwargs=fixed, **options)
    model = sb3.PPO("MlpPolicy", envs, n_steps=32, batch_size=64, seed=0).learn(64)
    assert model.predict(envs.reset())[0].shape == (2,)
    growing = {"max_states": 30, "warmup_steps": 300}
    growing = make_vec_env("CartPole-v1", 1, wrapper_kwargs=growing, **options)
    model = sb3.DQN("MlpPolicy", growing, learning_starts=1470, seed=0).learn(1500)
    assert growing.envs[0].n_states > 1
    assert 0 <= model.predict(growing.reset())[0][0] < 2
