"""Distilled policies: they do what their teachers do, and are agents like others."""

import runpy
import shutil
import subprocess
from ctypes import CDLL, c_double
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

import oda_rl.envs
from oda_rl.agents import DistilledPolicy, TwoTimescaleAC, UniformGridQ
from oda_rl.agents.distill import DistilledConfig, distill, polish, shrink
from oda_rl.agents.distill.fitting import Form, Records, find_form, fit_program, least_error
from oda_rl.agents.distill.formulas import draw_page, formula_table
from oda_rl.agents.distill.play import StatesJudge
from oda_rl.agents.distill.teacher import HEAVIEST, Teacher, balanced
from oda_rl.agents.explain import explain_observation, explain_policy
from oda_rl.agents.explain.page import write_report
from oda_rl.agents.export import export_policy
from oda_rl.agents.models import load_model
from oda_rl.agents.policy_program import blank_program

assert oda_rl.envs
FEW = {"rounds": 2, "steps_per_round": 600, "eval_episodes": 3, "n_copies": 2}


def upright(observation):
    """Holds CartPole for 500 steps."""
    return int(observation[2] + 0.4 * observation[3] > 0.0)


def swing(observation):
    """Solves MountainCarContinuous; beyond the bounds."""
    return np.array([200.0 * observation[1]], dtype=np.float32)


@pytest.fixture(scope="module")
def student():
    return distill(upright, "CartPole-v1", max_cells=3, seed=0, **FEW)


def test_a_student_does_what_its_teacher_does(student):
    states = np.random.default_rng(0).uniform(*student.learner.ranges, (2000, 4)).astype(np.float32)
    wanted = states[:, 2] + 0.4 * states[:, 3]
    far = 0.3 * np.abs(wanted).max()  # from where the teacher changes its mind
    same = student.predict(states)[0] == (wanted > 0.0)
    assert same[np.abs(wanted) > far].mean() > 0.97
    assert same.mean() > 0.8
    assert student.n_cells <= 3
    assert evaluate_policy(student, student.get_env(), 3)[0] == 500.0


def test_the_same_seed_gives_the_same_student(student):
    again = distill(upright, "CartPole-v1", max_cells=3, seed=0, **FEW)
    np.testing.assert_array_equal(again.learner.program.values, student.learner.program.values)


def test_a_saved_student_decides_the_same(student, tmp_path):
    student.save(tmp_path / "student.npz")
    loaded = load_model(tmp_path / "student.npz")
    assert isinstance(loaded, DistilledPolicy)
    states = np.random.default_rng(1).standard_normal((200, 4)).astype(np.float32)
    np.testing.assert_array_equal(loaded.predict(states)[0], student.predict(states)[0])
    assert str(loaded.cells()) == str(student.cells())
    assert loaded.learner.program.action_names == ["push left", "push right"]


class BrightEnv(gym.Env):
    """Images with their channels last; the action is right if it is the brighter half."""

    observation_space = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def draw(self):
        self.side = int(self.np_random.integers(2))
        image = self.np_random.integers(0, 60, (4, 4, 3), dtype=np.uint8)
        image[:, 2 * self.side : 2 * self.side + 2, 1] += 150
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.draw(), {}

    def step(self, action):
        reward = float(action == self.side)
        return self.draw(), reward, False, False, {}


def brighter(image):
    assert image.shape == (4, 4, 3)
    return int(image[:, 2:].sum() > image[:, :2].sum())


def test_images_with_their_channels_last_are_distilled():
    gym.register("test/Bright-v0", BrightEnv, max_episode_steps=10)
    options = {"max_cells": 1, "rounds": 1, "steps_per_round": 100, "eval_episodes": 2}
    for teacher in (brighter, TwoTimescaleAC(env="test/Bright-v0", seed=0)):
        found = distill(teacher, "test/Bright-v0", **options)
        assert found.learner.program.codevectors.shape == (1, 48)
        polish(found, steps=200)
    image, _ = gym.make("test/Bright-v0").reset(seed=0)
    actions = [found.predict(one, deterministic=True)[0] for one in (image, image.transpose(2, 0, 1))]
    assert actions[0] == actions[1]
    gym.registry.pop("test/Bright-v0")


def test_a_student_is_explained(student):
    table = explain_policy(student)
    assert sum(cell.visits for cell in table.cells) == pytest.approx(1.0)
    why = explain_observation(student, [0.0, 0.0, 0.05, 0.0])
    values = student.learner.action_values(np.array([[0.0, 0.0, 0.05, 0.0]]))[0]
    total = sum(one.weight * one.values for one in why.contributions)
    np.testing.assert_allclose(total, values, atol=1e-9)
    assert why.action == 1
    changed = why.sample.copy()
    change = next(one for one in why.counterfactuals if one.feature == "pole angle (rad)")
    changed[2] += change.rounded
    assert student.predict(changed.astype(np.float32))[0] == 0


def test_points_of_a_box(tmp_path):
    student = distill(swing, "MountainCarContinuous-v0", max_cells=1, seed=0, **FEW)
    states = np.array([[-0.5, 0.02], [-0.5, -0.02]], dtype=np.float32)
    np.testing.assert_allclose(student.predict(states)[0], [[1.0], [-1.0]])
    assert np.isnan(explain_observation(student, states[0]).value)
    page = write_report(student, tmp_path / "swing.html").read_text()
    assert "from -1 (blue) to 1 (orange)" in page
    # what the one cell computes, and as much of the map as was seen
    assert formula_table(student)["force"][0] in page
    np.testing.assert_array_equal(student.view().limits(), student.learner.ranges)
    export_policy(student, tmp_path / "swing.py")
    exported = runpy.run_path(str(tmp_path / "swing.py"))["decide"]
    about = states.astype(float) * [[1.0, 0.1], [0.5, 1.0]]
    decided = student.learner.program.decide(about)
    np.testing.assert_allclose([exported(row) for row in about.tolist()], decided)
    assert (np.abs(decided) < 1.0).any()
    if shutil.which("cc"):
        export_policy(student, tmp_path / "swing.c")
        library = tmp_path / "swing.so"
        flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-lm"]
        subprocess.run(["cc", tmp_path / "swing.c", "-o", library, *flags], check=True)
        action = (c_double * 1)()
        for row, wanted in zip(about.tolist(), decided, strict=True):
            CDLL(str(library)).policy_decide((c_double * 2)(*row), action)
            assert action[0] == pytest.approx(wanted[0])
    assert "force" in formula_table(student).header
    assert draw_page(student).get_figwidth() > 2.0


class Wide(gym.Env):
    """Actions that begin at 5, of which one is never right; a discrete state."""

    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(4))
        return self.state, {}

    def step(self, action):
        assert 5 <= action <= 7
        reward = float(action == (5 if self.state < 2 else 7))
        self.state = int(self.np_random.integers(4))
        return self.state, reward, False, False, {}


gym.register("test/Wide-v0", lambda: Wide(), max_episode_steps=20)


def test_actions_that_the_teacher_never_takes_and_states_with_numbers(tmp_path):
    student = distill(lambda state: 5 if state < 2 else 7, "test/Wide-v0", max_cells=2, **FEW)
    located = student.learner.program.codevectors
    assert np.abs(located[located != 0.0]).min(initial=1.0) > 1e-6  # rounding is no number
    assert student.predict(np.arange(4))[0].tolist() == [5, 5, 7, 7]
    assert student.learner.program.actions.tolist() == [5, 7]
    student.save(tmp_path / "wide.npz")
    loaded = load_model(tmp_path / "wide.npz")
    assert loaded.predict(np.arange(4))[0].tolist() == [5, 5, 7, 7]


def test_weights_are_what_there_is_to_lose():
    model = UniformGridQ(env="CartPole-v1", bins=2, seed=0).learn(3_000)
    teacher = Teacher(model, model.observations, model.actions)
    states = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    labels, weights, values = teacher.label(states, 50)
    np.testing.assert_array_equal(values, model.learner.action_values(states.astype(float)))
    np.testing.assert_array_equal(labels, values.argmax(axis=1))
    np.testing.assert_allclose(weights, values.max(axis=1) - values.min(axis=1))
    assert balanced(np.array([1.0, 1.0, 1.0])).tolist() == [1.0, 1.0, 1.0]
    assert balanced(np.r_[np.zeros(99), 1.0]).max() == HEAVIEST
    with pytest.raises(TypeError, match="the teacher must be an agent"):
        Teacher(3, model.observations, model.actions)


def test_the_fit_finds_the_table_that_made_the_labels():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (3000, 2))
    form = Form(np.array([[-0.5, 0.0], [0.5, 0.0]]), np.array([1.0, np.inf]), 0.3, np.ones((2, 2), bool))
    share = 1.0 / (1.0 + np.exp(-2.0 * states[:, :1] / 0.3))
    own = [1.0 - 0.5 * states[:, :1], states @ [[0.2], [0.7]]]
    points = (1.0 - share) * own[0] + share * own[1]
    blank = blank_program("", ["a", "b"], ["u"], None, np.array([[-1.0], [1.0]]))
    inside = np.abs(points[:, 0]) < 0.85
    records = Records(states[inside], points[inside], np.ones(int(inside.sum())))
    program, _ = fit_program(form, records, blank, "")
    np.testing.assert_allclose(program.action_values(records.states), records.labels, atol=1e-3)
    # points at a bound say only that what is predicted lies there, or beyond
    beyond = Records(states, np.clip(points, -1.0, 1.0), np.ones(len(states)))
    program, _ = fit_program(form, beyond, blank, "")
    assert np.abs(program.decide(states) - np.clip(points, -1.0, 1.0)).max() < 0.1
    assert least_error(form.without_cell(0), records) > least_error(form, records)
    assert form.without_slope(0, 1).size == form.size - 1


@pytest.mark.parametrize("cells_of", ["codebook", "tree"])
def test_cells_lie_where_decisions_change(cells_of):
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (2000, 2))
    labels = (np.abs(states[:, 0]) > 0.4).astype(int)  # not linear: takes more than a cell
    config = DistilledConfig(cells_of=cells_of)
    form = find_form(Records(states, labels, np.ones(2000)), 4, config, rng)
    assert 1 < len(form.codevectors) <= 4
    assert form.scale[0] < form.scale[1]


def test_shrinking_finds_that_two_coordinates_decide():
    front = shrink(upright, "CartPole-v1", max_cells=1, seed=0, **FEW)
    numbers = [point.numbers for point in front.best]
    assert numbers == sorted(numbers)
    small = front.smallest(0.02)
    assert small.n_parameters <= 4
    slopes = small.learner.program.slopes[0, 1]
    assert slopes[3] / slopes[2] == pytest.approx(0.4, rel=0.3)
    assert front.table()["numbers"] == numbers
    assert front.plot().get_xlabel() == "numbers"
    with pytest.raises(ValueError, match="numbers must be at least"):
        front.within(0)
    with pytest.raises(ValueError, match="tolerance must be"):
        front.smallest(np.nan)


def test_tables_are_judged_by_the_teachers_own_values_in_states_of_its_own():
    teacher = UniformGridQ(env="CartPole-v1", bins=2, seed=0).learn(3_000)
    options = {**FEW, "eval_episodes": 1, "judge": "states"}
    front = shrink(teacher, "CartPole-v1", max_cells=1, tolerance=0.1, seed=0, **options)
    assert front.reference == 1.0
    student = front.within(None)
    asked = Teacher(teacher, teacher.observations, teacher.actions)
    judge = StatesJudge(asked, "CartPole-v1", 2, 7, 500)
    values = teacher.learner.action_values(judge.states)
    chosen = values[np.arange(len(values)), student.learner.greedy(judge.states)]
    lost = (values.max(axis=1) - chosen).sum() / np.ptp(values, axis=1).sum()
    assert judge(student) == pytest.approx(1.0 - lost)
    assert judge(student) > 0.8
    assert judge(asked) == 1.0
    assert front.table()["kept"][-1] == max(point.result for point in front.points)


def test_without_values_the_same_decisions_count_and_of_points_their_variance(student):
    asked = Teacher(upright, student.observations, student.actions)
    judge = StatesJudge(asked, "CartPole-v1", 2, 0, 200)
    same = [upright(row) for row in judge.states] == student.learner.greedy(judge.states)
    assert judge(student) == pytest.approx(same.mean())
    pointed = distill(swing, "MountainCarContinuous-v0", max_cells=1, seed=0, judge="states", **FEW)
    asked = Teacher(swing, pointed.observations, pointed.actions)
    judge = StatesJudge(asked, "MountainCarContinuous-v0", 2, 0, 200)
    assert judge(pointed) > 0.99
    halved = replace(pointed.learner.program, slopes=0.5 * pointed.learner.program.slopes)
    pointed.learner.program = halved
    assert judge(pointed) < 0.99


def test_who_decides_better_than_the_teacher_is_judged_as_well_as_it():
    teacher = UniformGridQ(env="CartPole-v1", bins=2, seed=0).learn(3_000)

    class Careless:
        learner, observations = teacher.learner, teacher.observations

        def predict(self, seen, deterministic):
            return np.zeros(len(seen), dtype=int), None

    asked = Teacher(Careless(), teacher.observations, teacher.actions)
    judge = StatesJudge(asked, "CartPole-v1", 2, 7, 500)
    assert judge(teacher) == 1.0
    values = -teacher.learner.action_values(judge.states)
    teacher.learner.greedy = lambda _: values.argmax(axis=1)
    assert judge(teacher) == pytest.approx(0.0)


def test_environments_are_closed(monkeypatch):
    closed = []
    monkeypatch.setattr(DummyVecEnv, "close", lambda envs: closed.append(envs))
    distill(lambda state: 5 if state < 2 else 7, "test/Wide-v0", max_cells=1, **FEW)
    assert len(closed) == 2  # of the recorder, and of the judge
    distill(upright, "CartPole-v1", max_cells=1, judge="states", **FEW)
    assert len(closed) == 4


def test_what_is_refused():
    with pytest.raises(ValueError, match="cannot learn from rewards"):
        DistilledPolicy(env="CartPole-v1").learn(10)
    with pytest.raises(ValueError, match="env must be"):
        shrink(upright)
    for tolerance in (2.0, -0.1, np.nan, "small"):
        with pytest.raises(ValueError, match="tolerance must be"):
            shrink(upright, "CartPole-v1", tolerance=tolerance)
    for seed in (-1, 0.5, None):
        with pytest.raises(ValueError, match="seed must be an integer"):
            distill(upright, "CartPole-v1", seed=seed)
    with pytest.raises(ValueError, match="max_cells must be"):
        distill(upright, "CartPole-v1", max_cells=0)
    for env in (Wide(), None):
        with pytest.raises(ValueError, match="env must be the id"):
            distill(lambda state: 5, env, **FEW)


@pytest.mark.parametrize(
    ("env_id", "action"),
    [("CartPole-v1", 7), ("CartPole-v1", 0.5), ("Pendulum-v1", [np.nan]), ("Pendulum-v1", [0.1, 0.2])],
)
def test_what_the_environment_does_not_take_is_refused(env_id, action):
    with pytest.raises(ValueError, match="the teacher must return actions in"):
        distill(lambda _: action, env_id, max_cells=1, **FEW)


def test_of_tables_that_are_equally_good_the_smallest_is_kept():
    student = distill(upright, "CartPole-v1", max_cells=4, seed=0, **FEW)
    assert student.n_cells == 1
    assert evaluate_policy(student, student.get_env(), 3)[0] == 500.0
