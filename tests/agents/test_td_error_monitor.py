"""TD errors of the cells."""

import numpy as np
import pytest
from environments import SquareEnv, identity_env

import oda_rl.envs  # noqa: F401
from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ

QUICK = {"warmup_steps": 200, "growth_steps": 2000, "growth_cells": 20, "max_cells": 30}
TREE = {"tree": True, "growth_cells": 60, "max_cells": 100, "samples_per_cell": 3}


def train(steps, watch, env="oda_rl/MountainCar-v0", **options):
    model = TwoTimescaleQ(env=env, seed=0, **{**QUICK, **options})
    if watch:
        model.learner.watch_errors()
    return model.learn(steps)


@pytest.mark.parametrize(
    "options", [{}, {"softness": 0.0}, {"codebook": "per_action"}, TREE, {**TREE, "softness": 0.0}]
)
def test_watching_changes_nothing(options):
    watched, other = (train(8_000, watch, **options) for watch in (True, False))
    np.testing.assert_array_equal(watched.learner.q_values, other.learner.q_values)
    np.testing.assert_array_equal(watched.learner.codevectors, other.learner.codevectors)
    np.testing.assert_equal(watched.learner.get_state()["figures"], other.learner.get_state()["figures"])
    assert other.learner.td_errors is None


@pytest.mark.parametrize("options", [{}, TREE])
def test_the_mean_over_the_cells_is_about_the_mean_over_time(options):
    model = train(30_000, True, **options)
    errors = model.learner.td_errors
    assert errors.shape == (model.n_cells,)
    seen = np.isfinite(errors)
    assert seen.sum() > model.n_cells / 2
    assert (errors[seen] >= 0.0).all()
    visits = model.learner.codebook["visits"].sum(axis=0)
    overall = model.learner.figures()["train/td_error"]
    assert np.average(errors[seen], weights=visits[seen]) == pytest.approx(overall, rel=0.5)


def test_a_reward_that_is_learned_leaves_no_error():
    early, late = (train(steps, True, identity_env(), gamma=0.0) for steps in (2_500, 30_000))
    assert np.nanmean(late.learner.td_errors) < 0.5 * np.nanmean(early.learner.td_errors)


@pytest.mark.parametrize("options", [{}, TREE])
def test_errors_stay_with_their_cells(options):
    model = train(8_000, True, **options)
    state = model.learner.get_state()
    errors = model.learner.td_errors
    assert np.isfinite(errors).any()
    model.learner.set_state(state)  # the same codebook again
    np.testing.assert_array_equal(model.learner.td_errors, errors)


@pytest.mark.parametrize("options", [{}, TREE])
def test_it_can_begin_and_end_at_any_time(options):
    model, other = (train(4_000, False, **options) for _ in range(2))
    model.learner.watch_errors()
    assert np.isnan(model.learner.td_errors).all()
    model.learn(2_000, reset_num_timesteps=False)
    assert np.isfinite(model.learner.td_errors).any()
    model.learner.watch_errors(False)
    assert model.learner.td_errors is None
    model.learn(2_000, reset_num_timesteps=False)
    other.learn(2_000, reset_num_timesteps=False)
    other.learn(2_000, reset_num_timesteps=False)
    np.testing.assert_array_equal(model.learner.q_values, other.learner.q_values)


@pytest.mark.parametrize("kind", [TwoTimescaleQ, TwoTimescaleAC])
def test_it_goes_on_in_a_learner_that_takes_the_place_of_another(kind):
    options = {**QUICK, "growth_steps": 500}
    model, other = (kind(env=SquareEnv(), seed=seed, **options) for seed in (0, 1))
    model.learner.watch_errors()
    model.learn(2_000)  # makes a learner of the components of images
    assert np.isfinite(model.learner.td_errors).any()
    other.learn(2_000)
    model.set_parameters(other.get_parameters())
    assert not np.isfinite(model.learner.td_errors).any()
    model.learn(500, reset_num_timesteps=False)
    assert np.isfinite(model.learner.td_errors).any()
    assert other.learner.td_errors is None
