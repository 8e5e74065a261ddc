"""Features of the baselines against slow twins written from their definitions."""

from itertools import product

import numpy as np
import pytest
from gymnasium import spaces

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.baselines import (
    FourierConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)
from oda_rl.agents.linear_q import kernels
from oda_rl.agents.linear_q.encoding import Encoder, Scratch, encode, fourier_features, nearest_cell
from oda_rl.agents.linear_q.features import (
    make_features,
    make_fourier,
    make_tiles,
)
from oda_rl.agents.linear_q.learner import LinearLearner

RNG = np.random.default_rng(0)
NO_COUNTS = np.empty(0, dtype=np.int64)  # no table of states


def source_of(periodic):
    return np.array([(j, 0 if angle else -1) for j, angle in enumerate(periodic)])


def tiles_of(features, points, periodic):
    """The tiles of points in [0, 1]; an angle is told by its cosine and its sine."""
    n = len(periodic)
    source = np.array([(2 * j, 2 * j + 1 if angle else -1) for j, angle in enumerate(periodic)])
    low = np.where(periodic, -np.pi, 0.0)
    inverse = np.where(periodic, 1.0 / (2.0 * np.pi), 1.0)
    encoder = Encoder(source, low, inverse, *features.tables)
    found = Scratch(
        np.zeros(n), np.zeros(features.n_active, dtype=np.int64), *(np.zeros(1),) * 2, np.zeros((1, 1))
    )
    for u in points:
        observation = np.zeros(2 * n)
        turned = 2.0 * np.pi * u - np.pi
        observation[0::2] = np.where(periodic, np.cos(turned), u)
        observation[1::2] = np.sin(turned)
        assert encode(observation, features.kind, encoder, found)
        yield found.u.copy(), found.index.copy()


def naive_tile(u, tiles, tilings, periodic):
    """The tile of each tiling as a number, from the coordinates of the tile in its grid."""
    found = []
    for t in range(tilings):
        flat = t
        for j, n in enumerate(tiles):
            displaced = u[j] * n + (t * (2 * j + 1) % tilings) / tilings
            size = n if periodic[j] else n + 1
            i = int(np.floor(displaced))
            i = i % n if periodic[j] else min(i, n)
            flat = flat * size + i
        found.append(flat)
    return found


@pytest.mark.parametrize("tilings", [1, 3, 8])
@pytest.mark.parametrize("periodic", [(False, False, False), (False, True, True)])
def test_tiles(tilings, periodic):
    tiles = (4, 2, 5)
    features = make_tiles(tiles, tilings, np.array(periodic), "tiles")
    points = np.vstack([RNG.random((200, 3)), np.array(list(product((0.0, 0.5, 1.0), repeat=3)))])
    for u, index in tiles_of(features, points, periodic):
        assert index.tolist() == naive_tile(u, tiles, tilings, periodic)
        assert index.max() < features.n_features


def test_a_grid_has_its_bins_and_no_more():
    features = make_features(UniformGridConfig(bins=(3, 2)), np.zeros(2, dtype=bool), RNG, NO_COUNTS)
    assert features.n_features == 6
    seen = set()
    points = np.array(list(product(np.linspace(0.0, 1.0, 13), repeat=2)))
    for u, index in tiles_of(features, points, (False, False)):
        assert index[0] == min(int(u[0] * 3), 2) * 2 + min(int(u[1] * 2), 1)
        seen.add(int(index[0]))
    assert seen == set(range(6))


@pytest.mark.parametrize(("order", "coupled"), [(1, None), (3, None), (3, 1), (4, 2)])
def test_fourier(order, coupled):
    n = 3
    features = make_fourier(order, coupled, n)
    vectors = [
        c
        for c in product(range(order + 1), repeat=n)
        if np.count_nonzero(c) <= (n if coupled is None else coupled)
    ]
    assert features.n_features == len(vectors)
    spare, found = np.zeros((4, max(len(vectors), order * n))), np.zeros(len(vectors))
    lengths = [max(1.0, np.linalg.norm(c)) for c in vectors]
    np.testing.assert_allclose(np.sort(features.gain), np.sort(1.0 / np.array(lengths)))
    for u in RNG.random((20, n)):
        fourier_features(u, order, features.parent, spare, found)
        expected = [np.cos(np.pi * np.dot(c, u)) for c in vectors]
        np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-12)
        # The same vector has the same function and the same share of the stepsize.
        np.testing.assert_allclose(
            (found * features.gain).sum(), np.dot(expected, 1.0 / np.array(lengths)), atol=1e-10
        )


def test_fourier_couples_as_many_as_it_can():
    assert make_fourier(3, None, 4).n_features == 256
    assert make_fourier(3, None, 6).n_features == 1 + 6 * 3 + 15 * 9 + 20 * 27
    assert make_fourier(3, None, 400).n_features == 1 + 400 * 3


def move(location, lattice, winner, u, source, rate, radius):
    """One update of a map that has unfolded, with this rate and radius."""
    learner = LinearLearner(
        1, ActionCodec(spaces.Discrete(2)), 1, np.zeros(1), np.ones(1), SOMConfig(), seed=0
    )
    settings = learner._settings._replace(
        map_rate_final=rate, map_radius_final=radius, map_horizon=1e300, map_steps=0
    )
    encoder = learner._encoder._replace(source=source, location=location, lattice=lattice)
    kernels.move_map(winner, settings, np.zeros(2, dtype=np.int64), encoder, u)


def test_nearest_cell_and_neighbours():
    lattice = np.array(list(product(range(3), range(2))), dtype=np.float64).T
    location = RNG.random((2, 6))
    u, distance = RNG.random(2), np.zeros(6)
    plain = source_of((False, False))
    winner = nearest_cell(u, plain, location, distance)
    assert winner == np.argmin(((location.T - u) ** 2).sum(axis=1))
    expected = location.copy()
    for i in range(6):
        apart = ((lattice[:, i] - lattice[:, winner]) ** 2).sum()
        expected[:, i] += 0.3 * np.exp(-apart / (2 * 0.8**2)) * (u - location[:, i])
    move(location, lattice, winner, u, plain, 0.3, 0.8)
    np.testing.assert_allclose(location, expected)


def test_a_map_takes_the_short_way_round():
    location, lattice = np.array([[0.95, 0.5]]), np.array([[0.0, 1.0]])
    u, angle = np.array([0.05]), np.array([[0, 1]])
    assert nearest_cell(u, angle, location, np.zeros(2)) == 0
    move(location, lattice, 0, u, angle, 0.8, 0.1)
    np.testing.assert_allclose(location, [[0.03, 0.5]])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (UniformGridConfig(bins=100), r"bins=\(100, 100, .* gives 1,000,000,000,000 cells; at most 5,0"),
        (UniformGridConfig(bins=(2, 2)), r"bins must be one number, or 6, .* got \(2, 2\)"),
        (TileCodingConfig(tiles=20), r"gives 686,128,968 cells; at most 5,000,000"),
        (SOMConfig(n_cells=(1000, 1000)), r"gives 1,000,000 cells; at most 833,333"),
        (FourierConfig(order=9, coupled=6), r"gives 1,000,000 functions; at most 20,000.*coupled"),
    ],
)
def test_too_many(config, message):
    with pytest.raises(ValueError, match=message):
        make_features(config, np.zeros(6, dtype=bool), RNG, NO_COUNTS)


@pytest.mark.parametrize("n", [144, 84 * 84 * 4])
@pytest.mark.parametrize(("config", "name"), [(UniformGridConfig, "bins"), (TileCodingConfig, "tiles")])
def test_the_message_for_an_image_is_short(config, name, n):
    message = f"{name}=2 each for {n} coordinates gives about .* cells; at most 5,000,000 .* SOMQ"
    with pytest.raises(ValueError, match=message) as caught:
        make_features(config(), np.zeros(n, dtype=bool), RNG, NO_COUNTS)
    assert len(str(caught.value)) < 240


@pytest.mark.parametrize("config", [UniformGridConfig, TileCodingConfig, SOMConfig, FourierConfig])
def test_the_usual_sizes_are_moderate(config):
    for n in range(1, 9):
        features = make_features(config(), np.zeros(n, dtype=bool), RNG, NO_COUNTS)
        assert 4 <= features.n_features <= 100_000


# -- ranges ------------------------------------------------------------------------------------------


def make_learner(low, high, **options):
    config = UniformGridConfig(warmup_steps=4, **options)
    actions = ActionCodec(spaces.Discrete(2))
    return LinearLearner(len(low), actions, 1, np.array(low), np.array(high), config, seed=0)


def test_range_from_the_user_the_space_or_what_is_seen():
    inf = np.inf
    learner = make_learner(
        [-inf, -1.0, -3e38], [inf, 2.0, 3e38], observation_low=(-5.0, -inf, -inf), bins=2
    )
    learner.begin(0, np.array([0.0, 0.0, 1.0]))
    for x in (2.0, 3.0, 10.0):
        learner.step(0, np.array([x, 0.0, 1.0]), 0.0, False, False)
    assert learner.is_scaled
    np.testing.assert_allclose(learner.range.lower, [-5.0, -1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(learner.range.upper, [11.0, 2.0, 1.0], atol=1e-6)
    assert np.isfinite(learner.range.inverse).all()


def test_back_into_the_warm_up():
    learner = make_learner([-np.inf], [np.inf], bins=2)
    learner.begin(0, np.zeros(1))
    state = learner.get_state()
    for _ in range(2):
        for x in (3.0, 4.0, 5.0, 6.0):
            learner.step(0, np.array([x]), 0.0, False, False)
        assert learner.is_scaled
        upper = learner.range.upper[0]
        learner.set_state(state)
        assert not learner.is_scaled
    assert upper == 5.5


def test_angles_take_the_place_of_cosine_and_sine():
    learner = make_learner([-1.0] * 3, [1.0] * 3, bins=(2, 4), angles=((0, 2),))
    assert learner.n_cells == 8
    learner.begin(0, np.zeros(3))
    for _ in range(3):
        learner.step(0, np.zeros(3), 0.0, False, False)
    learner.weights[:, 1] = np.arange(8)
    for angle, quarter in ((-3.0, 0), (-1.0, 1), (1.0, 2), (3.0, 3)):
        learner.step(0, np.array([np.cos(angle), 0.5, np.sin(angle)]), 0.0, False, False)
        assert learner.memory.index[0, 0] == 4 + quarter


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation_low": (0.0,)}, r"observation_low must be 2 numbers.*got \(0.0,\)"),
        ({"observation_low": (5.0, 0.0)}, "observation_low must be below observation_high"),
        (
            {"angles": ((0, 2),)},
            r"angles must be indices of coordinates, from 0 to 1, got \(\(0, 2\),\)",
        ),
    ],
)
def test_ranges_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        make_learner([-1.0, -1.0], [1.0, 1.0], **options)
