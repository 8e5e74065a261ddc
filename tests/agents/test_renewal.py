"""A codebook that grows anew in other units, and keeps what its cells have learned."""

import numpy as np
import pytest
from environments import rest_env
from gymnasium import spaces

from oda_rl.agents import TwoTimescaleAC, TwoTimescaleACConfig
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.actor_learner import ActorCriticLearner

WARM_UP = 60
STILL = {"learning_rate": 1e-12, "learning_rate_min": 0.0}


def make_learner(space=None, **options):
    sizes = {"warmup_steps": WARM_UP, "growth_steps": 600, "growth_cells": 8, "max_cells": 10}
    actions = ActionCodec(spaces.Box(-1.0, 1.0, (1,)) if space is None else space)
    ends = np.full(2, np.inf)
    config = TwoTimescaleACConfig(**{**sizes, **options})
    return ActorCriticLearner(2, actions, 1, -ends, ends, config, seed=0)


def wander(learner, n, width, seed=0, blank=False):
    """`n` steps among observations of this width, an episode's last, `blank` if it tells nothing."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        learner.begin(0, width * rng.uniform(-1.0, 1.0, 2))
        reward = -1.0 if blank else -float(rng.random())
        learner.step(0, width * rng.uniform(-1.0, 1.0, 2), reward, not blank, True)


def warm_up(blank=False, **options):
    learner = make_learner(**options)
    wander(learner, WARM_UP * 4 if blank else WARM_UP, 100.0, blank=blank)
    assert learner.numbers.counters[layout.PHASE] == layout.LEARNING
    return learner


def spread_of(learner):
    return learner.scale.restore(learner.codebook.codevectors).std(axis=0)


def test_a_codebook_follows_the_agent_to_where_it_stays():
    learner = warm_up()
    wide = spread_of(learner)
    while learner.numbers.counters[layout.LEARNING_STEPS] < WARM_UP:
        assert (spread_of(learner) > 0.3 * wide).all()
        wander(learner, 1, 0.01, seed=int(learner.numbers.counters[layout.STEPS]))
    wander(learner, WARM_UP, 0.01)
    assert (learner.scale.scale < 0.02).all()
    inside = np.abs(learner.scale.restore(learner.codebook.codevectors)).max(axis=1) < 0.02
    assert inside.sum() >= 4
    assert np.isfinite(learner.greedy(np.zeros((1, 2)))).all()


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.MultiDiscrete([2, 3])])
def test_cells_of_numbered_actions_follow_and_stay_where_agents_were_before(space):
    learner = warm_up(space=space)
    first = learner.scale.scale.copy()
    wander(learner, 2 * WARM_UP, 1.0)
    assert ((0.3 * first < learner.scale.scale) & (learner.scale.scale < 0.8 * first)).all()
    places = np.abs(learner.scale.restore(learner.codebook.codevectors)).max(axis=1)
    assert (places < 10.0).any()
    assert (places > 30.0).any()
    wander(learner, WARM_UP, 1e4)
    wander(learner, WARM_UP, 1e4)
    assert (learner.scale.scale > 10.0 * first).all()
    assert np.isfinite(learner.greedy(np.zeros((1, 2)))).all()


def test_a_codebook_that_grows_anew_has_no_fewer_cells():
    learner = warm_up(max_cells=24, samples_per_cell=4)
    wander(learner, 4 * WARM_UP, 100.0, seed=1)
    n_cells, scale = learner.n_cells, learner.scale.scale.copy()
    assert n_cells > 8
    wander(learner, 4 * WARM_UP, 30.0)
    assert (learner.scale.scale < 0.5 * scale).all()
    assert learner.n_cells >= n_cells


@pytest.mark.parametrize("space", [None, spaces.Discrete(2)])
def test_the_scale_of_numbers_follows_for_eight_warm_ups(space):
    """What a policy visits that hardly changes gets ever less."""
    learner = warm_up(space=space)
    wander(learner, 8 * WARM_UP, 1.0)
    scale, seen = learner.scale.scale.copy(), learner.get_state()["warm_up"]["seen"]
    wander(learner, 8 * WARM_UP, 0.001)
    assert (learner.scale.scale == scale).all() == (space is not None)
    assert (len(seen) == 0) == (space is not None)


@pytest.mark.parametrize("space", [None, spaces.Discrete(2)])
def test_a_scale_that_was_given_stays(space):
    learner = warm_up(space=space, observation_scale=(1.0, 2.0))
    wander(learner, 3 * WARM_UP, 0.01)
    np.testing.assert_array_equal(learner.scale.scale, [1.0, 2.0])


@pytest.mark.parametrize("space", [None, spaces.Discrete(2)])
def test_where_an_actor_loses_its_way_it_learns_no_scale(space):
    learner = warm_up(space=space, blank=True)
    scale = learner.scale.scale.copy()
    wander(learner, 5 * WARM_UP, 0.01, blank=True)
    np.testing.assert_array_equal(learner.scale.scale, scale)
    wander(learner, 16 * WARM_UP, 0.01)
    assert (learner.scale.scale < 0.8 * scale).all()


@pytest.mark.parametrize("local_model", ["linear", "constant"])
@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("softness", [4.0, 0.0])
def test_what_all_cells_agree_on_stays(local_model, tree, softness):
    """A linear function of the environment's units is the same before and after."""
    learner = warm_up(local_model=local_model, tree=tree, softness=softness, **STILL)
    basis, book = learner.sizes.n_basis, learner.codebook
    rows = learner.numbers.counters[layout.N_BASIS] * np.arange(3)
    slopes = np.array([[0.3, -0.2], [0.1, 0.5], [-0.4, 0.2]])[:, : basis - 1]
    learner._storage.unload(book)
    for row, told in zip(rows, slopes, strict=True):
        book.payload[row, : len(book)] = 1.0 + row
        book.payload[row + 1 : row + basis, : len(book)] = told[:, None]
    learner._load_cells()
    points = np.random.default_rng(1).uniform(-0.05, 0.05, (5, 2))
    before = learner.action_values(points), learner.state_values(points)
    wander(learner, 2 * WARM_UP, 0.1)
    assert (learner.scale.scale < 1.0).all()
    np.testing.assert_allclose(learner.action_values(points), before[0], rtol=1e-6)
    np.testing.assert_allclose(learner.state_values(points), before[1], rtol=1e-6)


@pytest.mark.parametrize("space", [None, spaces.Discrete(2)])
def test_a_file_goes_on_with_what_was_visited_and_remembered(space):
    learner, other = warm_up(space=space), make_learner(space=space)
    learner.watch_errors()
    wander(learner, WARM_UP // 2, 0.01)
    other.set_state(learner.get_state())
    for one in (learner, other):
        wander(one, 3 * WARM_UP, 0.01, seed=1)
    np.testing.assert_array_equal(learner.codebook.codevectors, other.codebook.codevectors)
    assert np.isfinite(learner.td_errors).any()
    other.set_state(learner.get_state(under_way=False))
    wander(other, 1, 0.01)


def test_where_nothing_is_remembered_the_cells_tell_what_was():
    learner, other = warm_up(space=spaces.Discrete(2)), make_learner(space=spaces.Discrete(2))
    first = learner.scale.scale.copy()
    state = learner.get_state()
    state["warm_up"]["seen"] = state["warm_up"]["seen"][:WARM_UP]  # as in files of before
    other.set_state(state)
    wander(other, 4 * WARM_UP, 1.0)
    assert ((0.1 * first < other.scale.scale) & (other.scale.scale < 0.8 * first)).all()


def test_with_little_known_of_what_was_visited_cells_stay():
    learner, other = warm_up(), make_learner()
    wander(learner, WARM_UP - 5, 0.01)
    other.set_state(learner.get_state(under_way=False))
    scale = other.scale.scale.copy()
    wander(other, 10, 0.01)
    np.testing.assert_array_equal(other.scale.scale, scale)


@pytest.mark.parametrize("seed", [0, 1])
def test_where_an_agent_rests_for_most_of_the_time_is_not_all_there_is(seed):
    """Less than a step of a hundred is elsewhere; these are no outliers, as they come every time."""
    sizes = {"growth_steps": 2000, "growth_cells": 8, "max_cells": 20}
    model = TwoTimescaleAC(env=rest_env(), seed=seed, warmup_steps=2000, **sizes).learn(12_000)
    assert model.learner.scale.scale[0] > 0.1
