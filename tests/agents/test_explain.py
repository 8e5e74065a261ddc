"""Explanations are of what the policy does, and their parts add up to it."""

import gymnasium as gym
import numpy as np
import pytest
from environments import StatesEnv
from gymnasium import spaces

from oda_rl.agents import (
    SOMQ,
    FourierSarsa,
    KernelQ,
    TileCodingSarsa,
    TwoTimescaleQ,
    UniformGridQ,
)
from oda_rl.agents.distill import distill
from oda_rl.agents.distill.formulas import formula_table
from oda_rl.agents.explain import (
    explain_observation,
    explain_policy,
    explanation_sheets,
    explanation_summary,
    plot_explanation,
    policy_sheet,
    policy_summary,
    to_markdown,
)
from oda_rl.agents.models import load_model
from oda_rl.envs.names import observation_names

QUICK = {"seed": 0, "warmup_steps": 500, "growth_steps": 2000, "growth_cells": 15, "max_cells": 25}
CARTPOLE = "oda_rl/CartPole-v1"


def train(env_id=CARTPOLE, steps=12_000, **options):
    import oda_rl.envs  # noqa: F401

    return TwoTimescaleQ(env=env_id, **{**QUICK, **options}).learn(steps)


@pytest.fixture(scope="module")
def model():
    return train()


@pytest.fixture(scope="module")
def continuous():
    return train("oda_rl/Pendulum-v1", 8000)


def states(n=40, seed=0):
    return np.random.default_rng(seed).normal(scale=[1.0, 1.0, 0.1, 1.0], size=(n, 4))


VARIANTS = [
    {},
    {"local_model": "constant"},
    {"softness": 0.0},
    {"codebook": "per_action"},
    {"codebook": "per_action", "softness": 0.0, "local_model": "constant"},
    {"tree": True, "growth_cells": 80, "max_cells": 120, "near_branches": 2},
    {"tree": True, "growth_cells": 60, "max_cells": 100, "samples_per_cell": 3},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_parts_add_up_to_what_the_policy_does(options):
    model = train(steps=6000, **options)
    for state in states(20):
        why = explain_observation(model, state)
        assert why.action == model.predict(state.astype(np.float32), deterministic=True)[0]
        weights = np.array([one.weight for one in why.contributions])
        values = np.array([one.values for one in why.contributions])
        np.testing.assert_allclose(np.nansum(weights[:, None] * values, axis=0), why.values)
        assert why.margin == pytest.approx(np.ptp(why.values))
        assert sum(one.gain for one in why.contributions) == pytest.approx(why.margin)
        each = np.isfinite(values)
        np.testing.assert_allclose((weights[:, None] * each).sum(axis=0), 1.0)
        assert list(weights) == sorted(weights, reverse=True)


def test_values_are_those_of_the_compiled_code(model):
    learner = model.learner
    for state in states().astype(np.float32):
        values = learner.action_values(state[None])[0]
        with learner._table.for_reading() as (_, scratch):
            share = scratch.share.copy()
        why = explain_observation(model, state)
        np.testing.assert_allclose(why.values, values)
        for one in why.contributions:
            assert one.weight == pytest.approx(share[one.number])


def test_a_counterfactual_is_where_the_action_changes(model):
    n_changes = 0
    for state in states(10):
        why = explain_observation(model, state)
        for change in why.counterfactuals:
            j = why.feature_names.index(change.feature)
            assert change.at == pytest.approx(why.observation[j] + change.change)
            there = why.observation.astype(np.float32)
            before = there.copy()
            there[j] = change.at
            before[j] += 0.999 * change.change
            action, _ = model.predict(there, deterministic=True)
            assert action == change.decision != why.action
            assert model.predict(before, deterministic=True)[0] == why.action
            n_changes += 1
    assert n_changes > 10


class Mixed(gym.Env):
    """A number, one of three goals, and a switch."""

    observation_space = gym.spaces.Dict(
        x=gym.spaces.Box(-1.0, 1.0, (1,)), goal=gym.spaces.Discrete(3), on=gym.spaces.MultiBinary(1)
    )
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**30)))
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.reset()[0], 0.0, True, False, {}


gym.register("test/Mixed-v0", lambda: Mixed())


def test_what_is_discrete_changes_to_another_value():
    def teacher(seen):
        return 3 if seen["on"][0] else int(seen["goal"])

    few = {"max_cells": 1, "rounds": 2, "steps_per_round": 500, "eval_episodes": 2}
    student = distill(teacher, "test/Mixed-v0", **few)
    why = explain_observation(student, {"x": np.zeros(1), "goal": 1, "on": np.zeros(1)})
    found = {(one.feature, one.change, one.decision) for one in why.counterfactuals}
    assert found == {("goal = 0", 1.0, 0), ("goal = 2", 1.0, 2), ("on", 1.0, 3)}
    table = explain_policy(student)
    assert explanation_summary(table, why).startswith("At x = 0, goal = 1, on = 0: action 1")
    assert "(goal = 2)" in str(formula_table(student))


def test_a_change_set_as_printed_changes_the_action(model):
    table, n_changes = explain_policy(model), 0
    for state in states(30, seed=1):
        why = explain_observation(model, state)
        if not why.counterfactuals:
            continue
        changes = explanation_sheets(table, why, n_changes=99)[-1]
        for name, now, change, action in changes.rows:
            j = why.feature_names.index(name)
            for start in (float(now), why.observation[j]):
                there = why.observation.astype(np.float32)
                there[j] = start + float(change)
                found, _ = model.predict(there, deterministic=True)
                assert ["push left", "push right"][found] == action
                assert found != why.action
            n_changes += 1
    assert n_changes > 30


def test_the_table_has_every_cell_in_the_environments_units(model):
    table = explain_policy(model)
    assert sorted(cell.number for cell in table.cells) == list(range(model.n_cells))
    assert table.feature_names == observation_names("CartPole-v1", 4)
    assert table.action_names == ["push left", "push right"]
    visits = [cell.visits for cell in table.cells]
    assert visits == sorted(visits, reverse=True)
    assert sum(visits) == pytest.approx(1.0)
    for cell in table.cells:
        np.testing.assert_array_equal(cell.codevector, model.learner.codevectors[cell.number])
        why = explain_observation(model, cell.codevector)
        assert (cell.action, cell.margin) == (why.action, pytest.approx(why.margin, abs=1e-3))
    assert table.cells_for(1.0) <= model.n_cells
    assert sum(visits[: table.cells_for(0.5)]) >= 0.5 > sum(visits[: table.cells_for(0.5) - 1])


def test_continuous_actions(continuous):
    table = explain_policy(continuous)
    assert table.is_continuous
    assert table.action_names == ["torque (N m)"]
    for cell in table.cells[:5]:
        assert cell.codevector.shape == (3,)
        np.testing.assert_array_equal(cell.own_action, continuous.learner.codevectors[cell.number, 3:])
        seen = cell.codevector.astype(np.float32)
        np.testing.assert_array_equal(cell.action, continuous.predict(seen, deterministic=True)[0])
        why = explain_observation(continuous, cell.codevector)
        assert cell.value == pytest.approx(why.value, rel=1e-3)
        assert sum(one.weight * one.values[0] for one in why.contributions) == pytest.approx(why.value)
        # the search ends at the best of what it has tried, if not always at the very best
        assert why.value >= np.median([value for _, value in why.alternatives])
    assert why.counterfactuals == ()
    assert np.isnan(why.margin)


def test_a_grid_and_a_map():
    grid = UniformGridQ(env="CartPole-v1", bins=(2, 2, 5, 5), seed=0).learn(3000)
    chart = SOMQ(env="CartPole-v1", n_cells=20, seed=0, map_steps=500, learning_rate_by="visits").learn(
        3000
    )
    for model in (grid, chart):
        table = explain_policy(model)
        assert 0 < len(table.cells) <= table.n_cells == model.n_cells
        for state in states(10):
            why = explain_observation(model, state)
            assert why.action == model.predict(state.astype(np.float32), deterministic=True)[0]
            (one,) = why.contributions
            np.testing.assert_array_equal(one.values, model.learner.weights[one.number])
    assert all(np.isnan(cell.visits) for cell in explain_policy(grid).cells)
    assert sum(cell.visits for cell in table.cells) == pytest.approx(1.0)


def test_angles_are_named():
    model = UniformGridQ(env="Acrobot-v1", bins=3, angles=((0, 1), (2, 3)), seed=0).learn(3000)
    names = explain_policy(model).feature_names
    assert names == ["velocity 1", "velocity 2", "angle 1 (rad)", "angle 2 (rad)"]
    why = explain_observation(model, [0.0, 1.0, 1.0, 0.0, 0.5, -0.5])
    np.testing.assert_allclose(why.point, [0.5, -0.5, np.pi / 2, 0.0], atol=1e-6)


@pytest.mark.parametrize("algorithm", [TileCodingSarsa, FourierSarsa, KernelQ])
def test_what_has_no_cells_is_not_explained(algorithm):
    model = algorithm(env="CartPole-v1", seed=0)
    for explain in (explain_policy, lambda m: explain_observation(m, np.zeros(4))):
        with pytest.raises(ValueError, match=f"{algorithm.__name__} has no cells to explain"):
            explain(model)


def test_bad_input_is_refused(model):
    with pytest.raises(ValueError, match="must be 4 finite numbers, in this order: cart position"):
        explain_observation(model, [0.0, 0.0])
    with pytest.raises(ValueError, match="finite"):
        explain_observation(model, [0.0, np.nan, 0.0, 0.0])
    states = TwoTimescaleQ(env="Blackjack-v1", seed=0).learn(100)
    assert explain_observation(states, [10, 5, 0]).observation.tolist() == [10.0, 5.0, 0.0]
    for wrong in ([10.5, 5, 0], [32, 5, 0], [10, -1, 0]):
        with pytest.raises(ValueError, match="must be integers from 0, 0, 0 to 31, 10, 1, in this"):
            explain_observation(states, wrong)
    with pytest.raises(ValueError, match="still in its warm-up"):
        explain_policy(TwoTimescaleQ(env="CartPole-v1", seed=0))


def test_explaining_changes_nothing(model):
    before = model.learner.get_state()["slow"]["codebook"]
    explain_policy(model)
    explain_observation(model, np.zeros(4))
    for name, array in model.learner.get_state()["slow"]["codebook"].items():
        np.testing.assert_array_equal(array, before[name])


# -- reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["model", "continuous"])
def test_sheets_and_markdown(which, request):
    model = request.getfixturevalue(which)
    table = explain_policy(model)
    why = explain_observation(model, table.cells[0].codevector)
    for sheet in (policy_sheet(table, 5), *explanation_sheets(table, why)):
        assert all(len(row) == len(sheet.header) for row in sheet.rows)
    assert len(policy_sheet(table, 5).rows) == 5
    assert f"the 5 visited most of {model.n_cells} cells" in policy_sheet(table, 5).title
    page = to_markdown(table, why)
    assert page.startswith(f"# {model.env_id}")
    cells = page.split("## All cells")[1]
    assert cells.count("\n| ") == model.n_cells + 2
    assert "90 %" in policy_summary(table)
    rest = explanation_sheets(table, why, n_cells=1)[0].rows
    assert rest[1][0] == f"{len(why.contributions) - 1} others"
    assert rest[-1][0] == "all"


@pytest.mark.parametrize("which", ["model", "continuous"])
def test_the_picture_marks_the_state(which, request):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    model = request.getfixturevalue(which)
    table = explain_policy(model)
    why = explain_observation(model, table.cells[0].codevector)
    ax = plot_explanation(table, why)
    assert ax.get_xlabel() == table.feature_names[-2]
    *lines, star = ax.get_lines()
    np.testing.assert_allclose(np.ravel(star.get_data()), why.point[-2:])
    active = [one for one in why.contributions if one.weight >= 0.01]
    assert len(lines) == len(active)
    for line, one in zip(lines, active, strict=True):
        np.testing.assert_allclose(np.array(line.get_data())[:, 1], one.codevector[-2:])
    assert plot_explanation(table, dimensions=(0, 1)).get_ylabel() == table.feature_names[1]
    with pytest.raises(ValueError, match="dimensions"):
        plot_explanation(table, dimensions=(0, 9))
    plt.close("all")


def test_the_picture_of_a_table_of_states_has_their_values():
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    model = TwoTimescaleQ(env="FrozenLake-v1", seed=0, warmup_steps=200).learn(2000)
    table = explain_policy(model)
    why = explain_observation(model, 4)
    ax = plot_explanation(table, why)
    drawn = np.concatenate([dots.get_offsets() for dots in ax.collections])
    expected = np.array([[*cell.codevector, cell.value] for cell in table.cells])
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state", "value")
    np.testing.assert_allclose(np.ravel(ax.get_lines()[-1].get_data()), [4.0, why.value])
    plt.close("all")


def test_an_agent_has_its_cells_as_a_table(model, continuous):
    for agent in (model, continuous):
        cells = agent.cells()
        assert len(cells["cell"]) == agent.n_cells
        assert sum(cells["visits"]) == pytest.approx(1.0)
        first = agent.learner.codevectors[cells["cell"][0]]
        names = observation_names(agent.env_id, len(agent.observation_space.low))
        np.testing.assert_array_equal([cells[name][0] for name in names], first[: len(names)])


# -- files ---------------------------------------------------------------------------------------


def test_a_file_is_read_whatever_it_holds(tmp_path, model):
    grid = UniformGridQ(env=gym.make("CartPole-v1"), bins=2, seed=0)
    for saved in (model, grid):
        saved.save(tmp_path / "model.npz")
        found = load_model(tmp_path / "model.npz")
        assert type(found) is type(saved)
        assert found.n_cells == saved.n_cells
    from oda_rl import ODARegressor

    X = states()
    # linear, as those that distil: their compiled code is there already
    path = ODARegressor(2, local_model="linear").fit(X, X[:, :1]).save(tmp_path / "regressor")
    with pytest.raises(ValueError, match="contains a ODARegressor, which is not an agent"):
        load_model(path)
    with pytest.raises(FileNotFoundError, match="no model file"):
        load_model(tmp_path / "nothing.npz")


@pytest.mark.parametrize("kind", [TwoTimescaleQ, UniformGridQ])
def test_whole_numbers_change_to_whole_numbers(kind):
    env = StatesEnv(spaces.Box(0, 20, (2,), np.int64), lambda x: int(x[0] > 7), n_actions=2)
    options = QUICK if kind is TwoTimescaleQ else {"seed": 0}
    model = kind(env=env, gamma=0.0, **options).learn(6_000)
    for state in ([3, 5], [15, 5]):
        why = explain_observation(model, state)
        assert why.counterfactuals[0].feature == "observation[0]"
        for one in why.counterfactuals:
            j = int(one.feature == "observation[1]")
            there = np.array(state)
            assert one.change == one.rounded == one.at - state[j] == int(one.change)
            there[j] = one.at
            assert model.predict(there, deterministic=True)[0] == one.decision != why.action
            there[j] -= np.sign(one.change)
            assert model.predict(there, deterministic=True)[0] == why.action, "the smallest change"


def test_the_smallest_change_in_whole_numbers_comes_first():
    high = np.array([2, 40])
    env = StatesEnv(
        spaces.Box(0, high, dtype=np.int64), lambda x: int(12 * x[0] + x[1] > 27), n_actions=2
    )
    model = UniformGridQ(env=env, gamma=0.0, bins=(3, 20), seed=0).learn(6_000)
    for state in np.ndindex(3, 41):
        changes = explain_observation(model, state).counterfactuals
        parts = [abs(one.change) / high[int(one.feature == "observation[1]")] for one in changes]
        assert parts == sorted(parts)
