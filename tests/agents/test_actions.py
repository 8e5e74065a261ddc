import inspect

import numpy as np
import pytest
from gymnasium import spaces

from oda_rl import storage
from oda_rl._schema import anything
from oda_rl.agents.actions import MOST_COMBINATIONS, ActionCodec, describe_space, restore_space

# Gymnasium 1.1 has `Discrete` of one dtype alone
SHORT = {"dtype": np.uint8} if "dtype" in inspect.signature(spaces.Discrete).parameters else {}
SPACES = [
    spaces.Discrete(4, start=-1),
    spaces.Discrete(3, **SHORT),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiDiscrete([2, 3], np.int8),
    spaces.MultiDiscrete([[2, 2], [2, 3]], start=[[1, 0], [0, 5]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary((2, 2)),
    spaces.Box(np.float32([-2.0, 0.0]), np.float32([2.0, 0.5])),
    spaces.Box(-1.0, 3.0, (2, 2), np.float64),
    spaces.Box(-1.5e308, 1.5e308, (1,), np.float64),  # their difference is no number
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_decoded_actions_are_in_the_space(space):
    codec = ActionCodec(space)
    if codec.is_continuous:
        rng = np.random.default_rng(0)
        chosen = codec.centre + codec.scale * rng.uniform(-1.0, 1.0, (50, len(codec.centre)))
    else:
        chosen = list(range(codec.n_actions))
    decoded = [codec.decode(one) for one in chosen]
    assert all(space.contains(action) for action in decoded)
    assert len({np.asarray(action).tobytes() for action in decoded}) == len(chosen)
    together = codec.decode_many(chosen)
    np.testing.assert_array_equal(together, np.array(decoded))
    assert all(space.contains(action) for action in together)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_survive_a_file(space, tmp_path):
    storage.save(tmp_path / "space.npz", "Space", describe_space(space))
    assert restore_space(storage.load(tmp_path / "space.npz", "Space", anything)) == space


def test_the_edge_of_a_box_stays_inside():
    space = spaces.Box(np.float32([0.1]), np.float32([0.3]))
    codec = ActionCodec(space)
    for u in (-1.0, 1.0):
        assert space.contains(codec.decode(codec.centre + codec.scale * u))


def test_the_ends_of_a_box_are_its_bounds():
    space = spaces.Box(np.array([[-2.0, 0.25]]), np.array([[3.0, 4.0]]), dtype=np.float64)
    np.testing.assert_array_equal(ActionCodec(space).ends, [[-2.0, 0.25], [3.0, 4.0]])
    assert ActionCodec(spaces.Discrete(3)).ends.shape == (2, 0)


def test_actions_are_named_after_what_the_environment_takes():
    space = spaces.MultiDiscrete([2, 2], start=[1, 5])
    assert ActionCodec(space).names(None)[1:3] == ["action (1, 6)", "action (2, 5)"]
    assert ActionCodec(spaces.Discrete(2, start=5)).names("Unknown-v0") == ["action 5", "action 6"]
    assert ActionCodec(spaces.Discrete(3)).names("MountainCar-v0")[1] == "coast"
    assert ActionCodec(spaces.Box(-1.0, 1.0, (2,))).names(None) == ["action[0]", "action[1]"]


def test_combinations_of_parts_that_are_learned_by_themselves_may_be_many():
    codec = ActionCodec(spaces.MultiBinary(12), MOST_COMBINATIONS)
    assert codec.n_actions == 4096
    np.testing.assert_array_equal(codec.decode(5), [0] * 9 + [1, 0, 1])
    values = np.random.default_rng(0).normal(size=(2, 24))
    found = codec.add_parts(values)
    assert found.shape == (2, 4096)
    np.testing.assert_allclose(found[:, 5], values[:, [*range(0, 18, 2), 19, 20, 23]].sum(axis=1))
    with pytest.raises(ValueError, match="5000 values in one part; at most 1024"):
        ActionCodec(spaces.MultiDiscrete([5000, 2]), MOST_COMBINATIONS)
    with pytest.raises(ValueError, match="131072 actions; at most 65536"):
        ActionCodec(spaces.MultiBinary(17), MOST_COMBINATIONS)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, np.inf, (1,)), "must be bounded"),
        (spaces.Box(0, 3, (2,), np.int64), "floating-point"),
        (spaces.Box(1.0, 1.0, (2,)), "low must be below high"),
        (spaces.MultiDiscrete([50, 50]), "2500 actions; at most 1024"),
        (spaces.MultiBinary(30), "1073741824 actions"),
        (spaces.Discrete(10**9), "1000000000 actions; at most 1024"),
        (spaces.Tuple([spaces.Discrete(2)]), "Discrete, MultiDiscrete, MultiBinary and a bounded Box"),
    ],
)
def test_unsupported_spaces(space, message):
    with pytest.raises(ValueError, match=message):
        ActionCodec(space)
