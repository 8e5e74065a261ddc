"""Every kind of observation as a row of numbers, and what is refused."""

import gymnasium as gym
import numpy as np
import pytest
from environments import SpacesEnv
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from oda_rl.agents import BadTransitionError, TwoTimescaleAC, TwoTimescaleQ, UniformGridQ
from oda_rl.agents.encoding import make_codec
from oda_rl.agents.observations import ObservationCodec

LEAVES = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 4), start=st.integers(-3, 3)),
    st.builds(spaces.MultiBinary, st.integers(1, 3)),
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    st.lists(st.integers(1, 3), min_size=1, max_size=2).map(
        lambda shape: spaces.Box(-1.0, 1.0, tuple(shape), np.float32)
    ),
)
MIXED = st.one_of(
    LEAVES,
    st.lists(LEAVES, min_size=1, max_size=3).map(spaces.Tuple),
    st.dictionaries(st.sampled_from("abc"), LEAVES, min_size=1).map(spaces.Dict),
)


@given(MIXED, st.integers(0, 1000))
def test_rows_are_those_of_gymnasium_or_the_numbers_themselves(space, seed):
    space.seed(seed)
    codec, samples = ObservationCodec(space, table=False), [space.sample() for _ in range(3)]
    rows = np.array([codec.encode(sample) for sample in samples])
    flat = np.array([spaces.flatten(space, sample) for sample in samples], dtype=float)
    np.testing.assert_array_equal(rows, flat)
    assert len(codec.names(None)) == codec.n_features == rows.shape[1]
    table = ObservationCodec(space)
    row = table.encode(samples[0])
    assert ((row >= table.low) & (row <= table.high)).all()
    assert not table.is_table or (row < table.low + table.counts).all()


@given(MIXED, st.integers(0, 1000))
def test_several_are_encoded_as_one_by_one(space, seed):
    env = make_vec_env(lambda: SpacesEnv(space, spaces.Discrete(2)), 3, seed=seed)
    codec, several = ObservationCodec(space), env.reset()
    rows, single = codec.read(several)
    assert not single
    np.testing.assert_array_equal(rows, codec.encode_many(several, 3))
    first = several
    if isinstance(space, spaces.Dict):
        first = {key: values[0] for key, values in several.items()}
    elif isinstance(space, spaces.Tuple):
        first = tuple(values[0] for values in several)
    else:
        first = several[0]
    np.testing.assert_array_equal(codec.encode(first), rows[0])
    found, single = codec.read(first)
    assert single
    np.testing.assert_array_equal(found, rows[:1])
    np.testing.assert_array_equal(codec.encode_many(codec.batch(first), 1), rows[:1])


def test_one_hot_numbers_know_how_many_values_there_are():
    parts = (
        spaces.Box(-1, 1, (2,)),
        spaces.Discrete(4),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(2),
    )
    space = spaces.Tuple(parts)
    codec = ObservationCodec(space)
    assert codec.kinds.tolist() == [1, 1, 4, 4, 4, 4, 2, 2, 3, 3, 3, 1, 1]
    agent = TwoTimescaleAC(env=SpacesEnv(space, spaces.Discrete(2)), seed=0)
    np.testing.assert_allclose(agent.learner.scale.coarse, np.sqrt(np.maximum(codec.kinds / 2, 1)))


def test_entries_of_many_values_are_numbers_unless_in_a_table():
    start = np.array([-5, 2**60])
    space = spaces.MultiDiscrete([11, 3], start=start)
    codec = ObservationCodec(space, table=False)
    np.testing.assert_array_equal(codec.low, [-5.0, 0.0])
    np.testing.assert_array_equal(codec.high, [5.0, 2.0])
    np.testing.assert_array_equal(codec.encode(start + np.array([7, 1])), [2.0, 1.0])
    np.testing.assert_array_equal(codec.nearest(np.array([[2.3, 7.0]])), [[2.0, 2.0]])
    assert codec.names(None)[1].endswith(f" - {2**60}")
    assert list(codec.other_values(np.array([2.0, 1.0]))) == []
    with pytest.raises(BadTransitionError):
        codec.encode(start + np.array([11, 0]))
    assert ObservationCodec(spaces.MultiDiscrete([10, 3]), table=False).n_features == 13
    assert ObservationCodec(space).is_table
    assert ObservationCodec(spaces.MultiDiscrete([200, 200])).n_features == 2


def test_an_agent_learns_from_entries_of_many_values(tmp_path):
    env = SpacesEnv(spaces.MultiDiscrete([200, 200]), spaces.Discrete(2))
    model = TwoTimescaleAC(env=env, seed=0).learn(3_000)
    model.save(tmp_path / "model.npz")
    other = TwoTimescaleAC.load(tmp_path / "model.npz", env=env)
    some = np.array([env.observation_space.sample() for _ in range(20)])
    np.testing.assert_array_equal(model.predict(some)[0], other.predict(some)[0])


def goal_space(shape=(2,), of_achieved=None):
    """Observations of an environment with goals."""
    own, bounds = of_achieved or shape, (-1.0, 1.0)
    return spaces.Dict(
        observation=spaces.Box(*bounds, (1,)),
        achieved_goal=spaces.Box(*bounds, own),
        desired_goal=spaces.Box(*bounds, shape),
    )


def test_a_goal_is_read_as_its_difference_from_what_is_achieved():
    codec = ObservationCodec(goal_space())
    seen = {"observation": [0.5], "achieved_goal": [0.25, -1.0], "desired_goal": [1.0, 0.5]}
    row = dict(zip(codec.names(None), codec.encode(seen).tolist(), strict=True))
    assert row == {
        **{"observation": 0.5, "achieved_goal[0]": 0.25, "achieved_goal[1]": -1.0},
        **{"desired_goal[0] - achieved_goal[0]": 0.75, "desired_goal[1] - achieved_goal[1]": 1.5},
    }
    ends = dict(zip(codec.names(None), codec.high, strict=True))
    assert ends["desired_goal[0] - achieved_goal[0]"] == np.inf
    assert ends["achieved_goal[0]"] == 1.0
    several = {key: np.array([value, value]) for key, value in seen.items()}
    np.testing.assert_array_equal(codec.encode_many(several, 2), [codec.encode(seen)] * 2)
    np.testing.assert_array_equal(codec.read(several)[0], codec.read(seen)[0].repeat(2, axis=0))


def test_goals_of_other_shapes_are_read_as_they_are():
    codec = ObservationCodec(goal_space((2,), (3,)))
    seen = {"observation": [0.5], "achieved_goal": [0.25, -1.0, 0.0], "desired_goal": [1.0, 0.5]}
    assert codec.goal is None
    assert sorted(codec.encode(seen)) == [-1.0, 0.0, 0.25, 0.5, 0.5, 1.0]


def test_large_goals_are_reduced_to_components():
    codec = make_codec(goal_space((30, 30)), table=False)
    assert codec.goal is None


@pytest.mark.parametrize("normalised", [False, True])
def test_a_model_of_goals_is_stored_with_how_they_are_read(tmp_path, monkeypatch, normalised):
    env = DummyVecEnv([lambda: SpacesEnv(goal_space(), spaces.Discrete(2))])
    env = VecNormalize(env) if normalised else env
    model = TwoTimescaleAC(env=env, seed=0).learn(2_000)
    model.save(tmp_path / "model.npz")
    other = TwoTimescaleAC.load(tmp_path / "model.npz", env=env)
    some = env.reset()
    np.testing.assert_array_equal(model.predict(some)[0], other.predict(some)[0])
    monkeypatch.setattr(model.observations, "goal", None)
    model.save(tmp_path / "earlier.npz")
    with pytest.raises(ValueError, match="'goal' is None; expected 'difference'"):
        TwoTimescaleAC.load(tmp_path / "earlier.npz")


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.bool_, np.int64])
def test_dtypes_of_a_box(dtype):
    high = 1 if dtype is np.bool_ else 9
    codec = ObservationCodec(spaces.Box(0, high, (2,), dtype))
    for given_ in (np.array([1, 0], dtype), [1, 0], np.array([1, 0], object), np.array([True, False])):
        np.testing.assert_array_equal(np.asarray(codec.encode(given_), float), [1.0, 0.0])


def test_the_nearest_rows_are_whole_where_the_space_is():
    space = spaces.Dict(a=spaces.Box(-3, 3, (2,), np.int8), b=spaces.Box(-1.0, 1.0, (1,)))
    codec = ObservationCodec(space)
    np.testing.assert_array_equal(codec.nearest(np.array([[0.7, -9.0, 0.7]])), [[1.0, -3.0, 0.7]])


@pytest.mark.parametrize(
    "wrong", [np.zeros(1), np.zeros(3), [0.0], None, "ab", np.array([1j, 0j]), {"a": 1}]
)
def test_what_is_no_observation_is_named_with_its_space(wrong):
    with pytest.raises(BadTransitionError, match=r"the environment returned .* space is Box\(-1"):
        ObservationCodec(spaces.Box(-1.0, 1.0, (2,))).encode(wrong)


class Lying(SpacesEnv):
    """Returns another observation than its space says, from some step on."""

    def __init__(self, wrong, at):
        super().__init__(spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2))
        self.wrong, self.left = wrong, at

    def step(self, action):
        self.left -= 1
        return (self.wrong if self.left <= 0 else self.observation_space.sample()), 0.0, False, False, {}


@pytest.mark.parametrize(("n_envs", "size"), [(1, 1), (1, 3), (2, 3)])
def test_a_lying_environment_is_refused_in_every_loop(n_envs, size):
    env = make_vec_env(lambda: Lying(np.zeros(size, np.float32), 20), n_envs)
    kind = TwoTimescaleQ if n_envs == 1 else TwoTimescaleAC
    with pytest.raises((BadTransitionError, ValueError), match=r"shape"):
        kind(env=env, seed=0).learn(1000)


class Broken(SpacesEnv):
    """Returns something else from its 20th step on, or fails there."""

    def __init__(self, broken):
        super().__init__(spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2))
        self.broken, self.n = broken, 0

    def step(self, action):
        self.n += 1
        seen, *rest = super().step(action)
        return (seen, *rest) if self.n < 20 else self.broken(seen)


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize(
    "broken",
    [
        lambda seen: (seen, None, False, False, {}),
        lambda seen: (seen, np.ones(2), False, False, {}),
        lambda seen: (seen, 1j, False, False, {}),
        lambda seen: (seen, 1.0, False, {}),
        lambda seen: (seen, 1.0, False, True, None),
        lambda seen: None,
    ],
    ids=["no reward", "rewards", "complex", "four", "no info", "nothing"],
)
def test_what_is_no_transition_is_named_with_its_step(broken, n_envs):
    env = make_vec_env(lambda: Broken(broken), n_envs) if n_envs > 1 else Broken(broken)
    model = TwoTimescaleAC(env=env, seed=0)
    with pytest.raises(
        BadTransitionError,
        match=rf"^step {20 * n_envs}: the environment returned no trans.*reward, term",
    ):
        model.learn(1000)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_an_error_of_the_environment_stays_as_it_is(n_envs):
    def fail(seen):
        raise TypeError("of its own")

    model = TwoTimescaleAC(env=make_vec_env(lambda: Broken(fail), n_envs), seed=0)
    note = f"This happened at step {20 * n_envs} of the training"
    with pytest.raises(TypeError, match=rf"^of its own\n{note}"):
        model.learn(1000)


@pytest.mark.parametrize("name", ["action_space", "observation_space"])
def test_an_environment_without_a_space_is_refused_by_its_name(name):
    env = SpacesEnv(spaces.Discrete(2), spaces.Discrete(2))
    delattr(env, name)
    with pytest.raises(
        TypeError, match=f"env must have an {name}, a space of Gymnasium; .* has no such"
    ):
        TwoTimescaleAC(env=env)


def test_a_model_without_an_environment_says_so(tmp_path):
    model = TwoTimescaleAC()
    for use in (
        lambda: model.predict(np.zeros(2)),
        lambda: model.save(tmp_path / "model"),
        lambda: model.n_cells,
        model.cells,
        model.get_parameters,
        lambda: model.set_env(gym.make("CartPole-v1")),
    ):
        with pytest.raises(
            AttributeError, match=r"TwoTimescaleAC has no \w+ before .* make it with env=\.\.\."
        ):
            use()
    assert not hasattr(model, "policy")
    with pytest.raises(AttributeError, match="no attribute 'polcy'"):
        model.polcy  # noqa: B018


def test_a_list_in_place_of_an_array():
    env = gym.wrappers.TransformObservation(gym.make("CartPole-v1"), list, None)
    plain = TwoTimescaleQ(env="CartPole-v1", seed=0).learn(300)
    listed = TwoTimescaleQ(env=env, seed=0).learn(300)
    np.testing.assert_array_equal(plain._last_obs, listed._last_obs)


def test_parts_of_a_dict_have_scales_of_their_own():
    space = spaces.Dict(
        kind=spaces.Discrete(3),
        wide=spaces.Box(-1000.0, 1000.0, (2,)),
        fine=spaces.Box(-0.001, 0.001, (1, 2)),
    )
    model = TwoTimescaleQ(env=SpacesEnv(space, spaces.Discrete(2)), seed=0)
    model.learn(2_200)
    found = model.learner.scale.scale / model.learner.scale.coarse  # they are noise
    scale = dict(zip(model.observations.names(None), found, strict=True))
    assert scale["wide[0]"] == pytest.approx(1000.0)
    assert scale["fine[1]"] == pytest.approx(0.001)
    assert scale["kind = 2"] == pytest.approx(0.5)
    assert model.predict(space.sample())[0] in (0, 1)


@pytest.mark.parametrize("kind", [TwoTimescaleAC, UniformGridQ])
@pytest.mark.filterwarnings("error")
def test_observations_of_few_bits_are_learned_from_without_a_word(kind):
    env = SpacesEnv(spaces.Box(-1.0, 1.0, (2,), np.float16), spaces.Discrete(2))
    assert kind(env=env, seed=0).learn(200).num_timesteps == 200


def test_spaces_within_spaces_are_refused_with_a_way_out():
    inner = spaces.Dict(a=spaces.Dict(b=spaces.Discrete(2)), c=spaces.MultiBinary(2))
    with pytest.raises(ValueError, match=r"nested Dict or Tuple.*FlattenObservation"):
        TwoTimescaleAC(env=SpacesEnv(inner, spaces.Discrete(2)))
    flat = gym.wrappers.FlattenObservation(SpacesEnv(inner, spaces.Discrete(2)))
    assert TwoTimescaleAC(env=flat, seed=0).learn(20).num_timesteps == 20


def test_no_observations_have_no_actions():
    model = TwoTimescaleAC(env="CartPole-v1", seed=0)
    assert model.predict(np.zeros((0, 4)))[0].shape == (0,)


def test_what_reset_returns_is_named():
    env = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match=r"the tuple \(observation, info\) that reset\(\) returns"):
        TwoTimescaleAC(env=env).predict(env.reset())


def test_rows_of_different_lengths_are_refused_by_name():
    model = TwoTimescaleAC(env=SpacesEnv(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2)))
    with pytest.raises(
        ValueError, match=r"observation must have shape \(2,\) or \(n, 2\), got parts of"
    ):
        model.predict([[0, 0], [0]])


def test_states_that_are_no_table_are_few():
    points = spaces.Box(-1.0, 1.0, (1,))
    with pytest.raises(ValueError, match=r"Discrete\(100000\) needs 100,000 one-hot features"):
        TwoTimescaleAC(env=SpacesEnv(spaces.Discrete(100_000), points))
    assert TwoTimescaleAC(env=SpacesEnv(spaces.Discrete(300), points)).observations.n_features == 300
