"""Polishing: the search, the numbers that it moves, and the episodes by which it judges."""

from dataclasses import replace

import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy

from oda_rl.agents import DistilledPolicy
from oda_rl.agents.distill import distill, polish
from oda_rl.agents.distill.play import Judge
from oda_rl.agents.distill.polishing import N_STATES, CovarianceAdaptation, Numbers
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.evaluation import make_evaluation_envs

FEW = {"rounds": 1, "steps_per_round": 400, "eval_episodes": 3}


def clumsy(observation):
    """Looks at the pole's angle alone, and drops it."""
    return int(observation[2] > 0.0)


def spin(observation):
    """A torque that needs more than one cell."""
    return np.array([np.clip(observation[2] * observation[0], -2.0, 2.0)], dtype=np.float32)


def test_the_search_finds_the_bottom_of_a_narrow_valley():
    rng = np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    stiff = axes @ np.diag(10.0 ** np.linspace(0, 3, 6)) @ axes.T
    bottom = np.arange(6.0)
    search = CovarianceAdaptation(np.zeros(6), 0.5, rng)
    for _ in range(300):
        away = search.ask() - bottom
        search.tell(-np.einsum("ni,ij,nj->n", away, stiff, away))
    np.testing.assert_allclose(search.mean, bottom, atol=1e-6)


@pytest.fixture(scope="module")
def clumsy_student():
    return distill(clumsy, "CartPole-v1", max_cells=1, seed=0, **FEW)


@pytest.fixture(scope="module")
def spinner():
    return distill(spin, "Pendulum-v1", max_cells=2, seed=0, **FEW)


@pytest.mark.parametrize("which", ["clumsy_student", "spinner"])
def test_tables_are_judged_in_compiled_code_as_in_python(which, request):
    student = request.getfixturevalue(which)
    env_id = student.env_id
    judge = Judge(env_id, 5, 3)
    found = judge(student)
    envs = make_evaluation_envs(env_id, 5, judge.seed)
    wanted, lengths = evaluate_policy(student, envs, 5, return_episode_rewards=True)
    assert found == pytest.approx(np.mean(wanted), rel=1e-9)
    assert judge.n_steps == sum(lengths)
    judge.seed += 5
    assert judge(student) != found


def test_without_compiled_dynamics_all_episodes_are_played_and_the_same_again():
    student = distill(lambda state: 1 if state in (0, 4) else 2, "FrozenLake-v1", max_cells=1, **FEW)
    judge = Judge("FrozenLake-v1", 23, 3)
    found = judge(student)
    n_steps = judge.n_steps
    assert found * 23 == pytest.approx(round(found * 23))
    assert judge(student) == found
    assert judge.n_steps == 2 * n_steps


def test_the_numbers_of_a_table_go_there_and_back(spinner):
    program = spinner.learner.program
    states = np.random.default_rng(0).standard_normal((50, 3))
    numbers = Numbers(program, states)
    vector = numbers.vector()
    assert len(vector) == program.n_numbers - program.bounds.size
    np.testing.assert_allclose(
        numbers.program(vector).action_values(states), program.action_values(states)
    )
    constant = replace(program, slopes=program.slopes[:, :, :0])
    assert len(Numbers(constant, states).vector()) == len(vector) - np.count_nonzero(program.slopes)
    other = numbers.program(vector + 0.1)
    assert other.n_numbers == program.n_numbers
    assert np.abs(other.action_values(states) - program.action_values(states)).max() > 0.01


def test_what_is_interrupted_leaves_the_best_so_far(clumsy_student, tmp_path, monkeypatch):
    clumsy_student.save(tmp_path / "student.npz")
    student = load_model(tmp_path / "student.npz")
    before, calls, judge = student.learner.program, [], Judge.__call__

    def interrupted(self, policy):
        calls.append(policy)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return judge(self, policy)

    monkeypatch.setattr(Judge, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        polish(student, steps=100_000)
    assert student.learner.program is before
    assert student.learner.n_learned == N_STATES  # the visits are those of the table that was kept
    assert student.num_timesteps > clumsy_student.num_timesteps


def test_of_a_constant_action_there_is_nothing_to_polish():
    student = distill(lambda _: 1, "CartPole-v1", max_cells=1, **FEW)
    steps = student.num_timesteps
    assert polish(student, steps=1000).n_parameters == 0
    assert student.num_timesteps == steps


def test_polishing_gets_a_better_return(clumsy_student, tmp_path):
    clumsy_student.save(tmp_path / "student.npz")
    student, again = (load_model(tmp_path / "student.npz") for _ in range(2))
    judge = Judge("CartPole-v1", 30, 7)
    before, numbers, steps = judge(student), student.n_parameters, student.num_timesteps
    assert polish(student, steps=150_000, seed=0) is student
    assert judge(student) > 2.0 * before
    assert student.n_parameters == numbers
    assert 150_000 <= student.num_timesteps - steps < 400_000
    polish(again, steps=150_000, seed=0)
    np.testing.assert_array_equal(again.learner.program.slopes, student.learner.program.slopes)
    with pytest.raises(ValueError, match="steps must be"):
        polish(student, steps=0)
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        polish(student, seed=-1)
    with pytest.raises(TypeError, match="student must be a DistilledPolicy"):
        polish(clumsy)
    with pytest.raises(ValueError, match="must have been distilled"):
        polish(DistilledPolicy(env="CartPole-v1"))
