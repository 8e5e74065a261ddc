"""Comparing agents: the same evaluation for all, runs that are kept, tables."""

import csv
import io
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import compare

    from benchmarks import comparison, plans, runs, training
    from common import tables
finally:
    sys.path.pop(0)  # workers of a cluster must do without it

pytestmark = pytest.mark.usefixtures("few_decisions")
BRIEFLY = {"total_timesteps": 1000, "eval_freq": 500, "eval_episodes": 2, "n_jobs": 1, "seeds": (0, 1)}
SHORTER = {"total_timesteps": 200, "eval_freq": 100}


def run_compare(output, capsys, **options):
    """What `compare.py` returns and prints."""
    code = compare.main(compare.Args(output=output, **{**BRIEFLY, **options}))
    return code, capsys.readouterr().out


def read_runs(output, algorithm="*", env_id="*"):
    paths = sorted(output.glob(f"runs/{env_id}/{algorithm}-*/seed-*.json"))
    return {path: json.loads(path.read_text())["run"] for path in paths}


def read_row(output, section, algorithm):
    """The cells of one row of the Markdown tables."""
    (part,) = [p for p in (output / "comparison.md").read_text().split("\n## ") if p.startswith(section)]
    (line,) = re.findall(rf"^\| {algorithm} \|.*$", part, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def no_picture(script, monkeypatch):
    """Leave out the picture, which is looked at where it is of several algorithms."""
    for own in (compare, script("compare")):
        monkeypatch.setattr(own, "draw_comparison", lambda fields: None)
        monkeypatch.setattr(own, "save", lambda figure, path, dpi: None)


@pytest.fixture(scope="module")
def compared(few_decisions, tmp_path_factory):
    """Two environments, on one of which two of four algorithms cannot be run."""
    output = tmp_path_factory.mktemp("compare")
    algorithms = ("TwoTimescaleQ", "UniformGridQ", "A2C", "DQN")
    env_ids = ("CartPole-v1", "Pendulum-v1")
    args = compare.Args(algorithms=algorithms, env_ids=env_ids, output=output, **BRIEFLY)
    assert compare.main(args) == 0
    return output


def test_every_run_leaves_its_curve_and_its_model(compared):
    made = read_runs(compared)
    assert len(made) == 2 * 4 + 2 * 2
    for path, run in made.items():
        with path.with_suffix(".csv").open() as file:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        assert [row["steps"] for row in rows] == run["steps"]
        assert [500 <= a < 520 and 1000 <= b < 1020 for a, b in [run["steps"]]] == [True]
        assert [row["seconds"] for row in rows] == pytest.approx(run["curve_seconds"], abs=1e-4)
        assert 0 < run["curve_seconds"][0] < run["curve_seconds"][1] <= run["seconds"]
        for row in rows:
            episodes = [value for name, value in row.items() if name.startswith("episode_")]
            assert len(episodes) == plans.CURVE_EPISODES
            assert row["mean"] == pytest.approx(np.mean(episodes))
        models = [p for p in path.parent.glob(f"{path.stem}.*") if p.suffix in (".npz", ".zip", ".pkl")]
        assert sum(p.stat().st_size for p in models) == run["file_bytes"] > 0
        assert run["mean"] == pytest.approx(np.mean(run["returns"]))
        assert run["decision"] > 0


def test_a_normalised_agent_is_scored_in_the_units_of_the_environment(compared):
    for run in read_runs(compared, "A2C", "Pendulum-v1").values():
        assert all(-2000 < value < -500 for value in run["returns"])  # normalised: some -20


def test_markdown_says_what_the_runs_say(compared):
    means = [run["mean"] for run in read_runs(compared, "UniformGridQ", "CartPole-v1").values()]
    row = read_row(compared, "CartPole-v1, 1,000 steps", "UniformGridQ")
    low, middle, high = min(means), np.mean(means), max(means)  # of two runs
    assert row[1] == f"{middle:.1f} ({low:.1f}, {high:.1f})"
    assert row[2] == f"{middle:.1f}"
    assert row[3:6] == ["-", "-", "0/2"]
    assert row[6] == "208"
    together = read_row(compared, "All environments", "A2C")
    assert together[1:3] == ["2 of 2", "4"]
    assert read_row(compared, "All environments", "DQN")[1:3] == ["1 of 2", "2"]


def test_what_cannot_be_run_is_in_the_table(compared, capsys):
    for algorithm in ("UniformGridQ", "DQN"):
        assert read_row(compared, "Pendulum-v1", algorithm)[1] == "not for this environment"
    told = (compared / "comparison.md").read_text()
    assert "- DQN is not for Pendulum-v1: DQN does not take actions in Box" in told
    code, output = run_compare(compared, capsys, algorithms=("DQN",), env_ids=("NoSuchTask-v0",))
    assert code == 1
    (line,) = output.splitlines()  # nothing to type next, as it would not run either
    assert line.startswith("DQN is not for NoSuchTask-v0: Environment `NoSuchTask` doesn't exist")


@pytest.mark.usefixtures("no_picture")
def test_one_run_and_one_episode_are_counted_as_one(tmp_path, capsys):
    options = {"algorithms": ("UniformGridQ",), "seeds": (0,), "eval_episodes": 1}
    _, output = run_compare(tmp_path, capsys, **options)
    assert "1 run of 1,000 steps, 1 in parallel." in output
    assert "of the means of 1 greedy episode with the last policy" in " ".join(output.split())


def test_pictures_and_lines(compared):
    assert (compared / "comparison.png").stat().st_size > 50_000
    with (compared / "runs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12


@pytest.mark.usefixtures("no_picture")
def test_what_is_kept_is_not_made_again(tmp_path, capsys):
    options = {"algorithms": ("UniformGridQ",), "seeds": (0, 1), **SHORTER}
    code, output = run_compare(tmp_path, capsys, **options)
    assert code == 0
    assert "kept from before" not in output
    assert f"{tmp_path / 'comparison.md'}" in output
    first = next(iter(read_runs(tmp_path)))
    told = json.loads(first.read_text())
    told["run"]["mean"] = 123.4
    first.write_text(json.dumps(told))
    code, output = run_compare(tmp_path, capsys, **{**options, "seeds": (0, 1, 2)})
    assert code == 0
    assert "UniformGridQ on CartPole-v1, seeds 0, 1: kept from before" in output
    assert "seed 0:" not in output
    assert "seed 2:" in output
    assert ",123.4," in (tmp_path / "runs.csv").read_text()
    assert "seed 0:" in run_compare(tmp_path, capsys, **options, fresh=True)[1]
    assert ",123.4," not in (tmp_path / "runs.csv").read_text()


CRASHING = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Crashing(CartPoleEnv):
    def reset(self, *, seed=None, options=None):
        self.bad = getattr(self, "bad", False) or seed == 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.bad:
            raise RuntimeError("the pole is broken")
        return super().step(action)

gym.register("Crashing-v0", Crashing, max_episode_steps=50)
"""


@pytest.mark.usefixtures("no_picture")
def test_a_run_that_fails_stops_no_other(tmp_path, capsys, monkeypatch):
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    env_id = "crashing:Crashing-v0"
    options = {"algorithms": ("UniformGridQ", "A2C"), "env_ids": (env_id,), **SHORTER}
    code, output = run_compare(tmp_path, capsys, **options)
    assert code == 1
    for name in ("UniformGridQ", "A2C"):
        failed = f"{name} on {env_id}, seed 1, failed: RuntimeError: the pole is broken"
        assert failed in output.replace("\n", " ")
    assert "Traceback" not in output
    assert len(read_runs(tmp_path)) == 2
    errors = list(tmp_path.glob("runs/*/*/seed-1.error.txt"))
    assert len(errors) == 2
    assert "Traceback" in errors[0].read_text()
    assert "A2C on crashing:Crashing-v0: SB3's defaults" in (tmp_path / "comparison.md").read_text()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"total_timesteps": 100}, "--total-timesteps must be at least --eval-freq"),
        ({"seeds": (0, 0)}, "--seeds must have at least one value and no duplicates, got [0, 0]"),
        (
            {"algorithms": ("PPO", "PPO")},
            "--algorithms must have at least one value and no duplicates, got ['PPO', 'PPO']",
        ),
    ],
)
def test_arguments_that_make_no_sense(tmp_path, capsys, options, complaint):
    code, output = run_compare(tmp_path / "none", capsys, **options)
    assert code == 2
    assert complaint in output
    assert not (tmp_path / "none").exists()


def test_a_kept_run_that_cannot_be_read_is_made_again(tmp_path):
    run = {"seed": 0, "mean": 1.0, "numbers": 2}
    plan = {"algorithm": "PPO", "env_id": "CartPole-v1", "total_timesteps": 1}
    kept = {"plan": {**plan, "code": "", "finished": 0.0}, "run": run}
    whole, folder = json.dumps(kept), tmp_path / "CartPole-v1" / "PPO"
    folder.mkdir(parents=True)
    damaged = [whole[:-9], "{}", "[]", '{"plan": {}, "run": {}}', json.dumps({**kept, "run": 1})]
    for seed, content in enumerate([whole, *damaged]):
        (folder / f"seed-{seed}.json").write_text(content)
    assert runs.find_kept(folder, range(7)) == {0: run}
    console = Console(file=io.StringIO(), width=40)
    assert [found for _, found, _ in runs.read_newest(tmp_path, console)] == [[run]]
    lines = console.file.getvalue().splitlines()
    for seed, line in enumerate(lines, 1):
        assert line.startswith(f"A stored run is left out: {folder / f'seed-{seed}.json'} is damaged")
    assert len(lines) == len(damaged)


def what_is_learned(runs):
    return {
        path.name: [run[part] for part in ("returns", "steps", "curve_returns", "numbers")]
        for path, run in runs.items()
    }


@pytest.mark.usefixtures("no_picture")
def test_an_interrupted_comparison_keeps_its_runs_and_goes_on(tmp_path, capsys, interrupt, monkeypatch):
    env_id = "suite/DeepSea10-v0"  # which only the scripts register
    typed = (
        *("--output", tmp_path, "--total-timesteps", 1000, "--eval-freq", 500, "--eval-episodes", 2),
        *("--algorithms", "UniformGridQ", "--env-ids", env_id, "--n-jobs", 2, "--seeds", *range(500)),
    )
    monkeypatch.setattr(sys, "argv", ["compare.py", *map(str, typed)])
    code, output = interrupt(lambda: read_runs(tmp_path), "compare", *typed)
    assert code == 130, output
    assert "Interrupted. Finished runs are kept; to run the others:" in output
    assert "python scripts/compare.py --output" in output
    assert "Traceback" not in output
    made = read_runs(tmp_path)
    kept = [run["seed"] for run in made.values()]
    assert 1 <= len(kept) < 500
    assert read_row(tmp_path, env_id, "UniformGridQ")
    options = {"algorithms": ("UniformGridQ",), "env_ids": (env_id,)}
    code, output = run_compare(tmp_path, capsys, **options, seeds=(*kept, 500))
    assert code == 0
    assert f"{', '.join(map(str, kept))}: kept from before" in output
    # Processes have learned what is learned here.
    assert run_compare(tmp_path, capsys, **options, seeds=kept, fresh=True)[0] == 0
    again = read_runs(tmp_path)
    assert what_is_learned({path: again[path] for path in made}) == what_is_learned(made)


class Push:
    """A policy that always does the same."""

    def predict(self, observations, state=None, episode_start=None, deterministic=False):
        return np.zeros(len(observations), dtype=int), state

    def get_vec_normalize_env(self):
        return None


def test_every_evaluation_begins_in_the_same_states():
    evaluation = training.Evaluation("CartPole-v1", 5, seed=7)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = evaluation.play(Push()), evaluation.play(Push())
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    evaluation.close()
    np.testing.assert_array_equal(first, second)
    expected = []
    for i in range(5):
        env = gym.make("CartPole-v1")
        env.reset(seed=7 + i)
        env.reset()
        length, ended = 0, False
        while not ended:
            _, _, ended, _, _ = env.step(0)
            length += 1
        expected.append(length)
    assert sorted(first) == sorted(expected)


def test_time_for_evaluations_is_not_counted(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(training.time, "process_time", lambda: clock[0])

    class Slow:
        def play(self, model):
            clock[0] += 1000.0
            return np.array([1.0, 2.0])

    class Model:
        num_timesteps = 0
        logger = None

        def get_env(self):
            return None

    model = Model()
    callback = training.CurveCallback(Slow(), eval_freq=10)
    callback.init_callback(model)
    clock[0] = 50.0
    callback.on_training_start({}, {})
    for step in range(1, 26):
        clock[0] += 1.0
        model.num_timesteps = step
        assert callback.on_step()
    assert callback.steps == [10, 20]
    assert callback.seconds == [10.0, 20.0]
    assert callback.total_seconds() == 25.0
    assert callback.returns == [[1.0, 2.0]] * 2


def test_numbers_of_an_agent_of_sb3():
    plan = plans.Plan("A2C", "Acrobot-v1", 1000, options={"n_envs": 1})
    hidden = 64 * 65
    policy_and_critic = 2 * (7 * 64 + hidden) + 3 * 65 + 65
    assert training.count_numbers(plans.make_model(plan, 0)) == policy_and_critic
    scaled = plans.Plan("A2C", "Acrobot-v1", 1000, options={"n_envs": 1, "normalize": True})
    assert training.count_numbers(plans.make_model(scaled, 0)) == policy_and_critic + 2 * 6


def make_field():
    return comparison.Field("CartPole-v1", 475.0)


def test_scores_are_normalised_by_random_play_and_threshold():
    field = make_field()
    assert 15 < field.random_return < 30
    scores = field.normalize(np.array([field.random_return, 475.0]))
    np.testing.assert_allclose(scores, [0.0, 1.0])
    assert field.random_return == make_field().random_return


def test_steps_and_seconds_to_the_threshold():
    run = {"steps": [10, 20, 30], "curve_seconds": [1.0, 2.0, 3.0], "curve": [1.0, 7.0, 3.0]}
    plan = plans.Plan("UniformGridQ", "CartPole-v1", 30)
    entry = comparison.Entry(plan, [run, {**run, "curve": [1.0, 2.0, 3.0]}], threshold=5.0)
    assert entry.to_threshold("steps").tolist() == [20, np.inf]
    assert entry.to_threshold("curve_seconds").tolist() == [2.0, np.inf]


def test_numbers_have_the_digits_that_say_something():
    assert tables.interval_text(-0.001, -0.26, 0.004, digits=2) == "0.00 (-0.26, 0.00)"
    assert tables.interval_text(-1100.2, -1200.0, -950.0) == "-1100 (-1200, -950)"
    assert tables.seconds_text(0.034) == "0.03"
    assert tables.seconds_text(1234.56) == "1,234.6"
    assert tables.seconds_text(np.inf) == tables.steps_text(np.inf) == "-"


def test_the_picture_of_a_single_run_has_numbers_that_do_not_overlap():
    run = {"steps": [500, 1000], "curve": [150.0, 174.09], "curve_seconds": [0.1, 0.2], "mean": 174.09}
    entry = comparison.Entry(plans.Plan("PPO", "CartPole-v1", 1000), [run], np.inf)
    figure = compare.draw_comparison([comparison.Field("CartPole-v1", np.inf, entries=[entry])])
    figure.canvas.draw()
    steps, _, profile = figure.axes
    assert "IQM of 1 seed," in steps.get_title("left")
    low, high = profile.get_xlim()
    boxes = [
        label.get_window_extent()
        for tick, label in zip(profile.get_xticks(), profile.get_xticklabels(), strict=True)
        if low <= tick <= high
    ]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
