"""Policies as source files: they decide as the agent does."""

import importlib.util
import re
import shutil
import subprocess
from ctypes import CDLL, c_double
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from environments import SpacesEnv
from gymnasium import spaces

import oda_rl.envs
from oda_rl.agents import SOMQ, FourierSarsa, TwoTimescaleAC, TwoTimescaleQ, UniformGridQ
from oda_rl.agents.distill import distill
from oda_rl.agents.export import export_policy, policy_program
from oda_rl.agents.policy_program import blank_program

assert oda_rl.envs
SMALL = {"max_cells": 20, "growth_cells": 12, "growth_steps": 2_000, "warmup_steps": 500}
AGENTS = {
    "actor": lambda env: TwoTimescaleAC(env=env, seed=0, **SMALL).learn(8_000),
    "linear": lambda env: TwoTimescaleQ(env=env, seed=0, **SMALL).learn(8_000),
    "constant": lambda env: TwoTimescaleQ(env=env, seed=0, local_model="constant", **SMALL).learn(8_000),
    "nearest": lambda env: TwoTimescaleQ(env=env, seed=0, softness=0.0, **SMALL).learn(8_000),
    "map": lambda env: SOMQ(env=env, n_cells=9, seed=0).learn(6_000),
    "distilled": lambda env: distill(
        lambda x: int(x[2] + 0.4 * x[3] > 0.1 * x[1] ** 2), env, max_cells=3, rounds=1, eval_episodes=2
    ),
    "grid": lambda env: UniformGridQ(env=env, bins=3, seed=0).learn(6_000),
}


@pytest.fixture(scope="module", params=AGENTS)
def model(request):
    return AGENTS[request.param]("oda_rl/CartPole-v1")


def states_of(model, n=10_000):
    """States about the cells, far ones too."""
    program = policy_program(model)
    rng = np.random.default_rng(0)
    near = program.codevectors[rng.integers(len(program.codevectors), size=n)]
    found = near + 0.5 * np.minimum(program.scale, 5.0) * rng.standard_normal(near.shape)
    return found.astype(np.float32).astype(np.float64)


def wanted(model, states):
    return model.predict(states.astype(np.float32), deterministic=True)[0]


def load_python(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_program_has_the_values_of_the_agent(model):
    states = states_of(model, 500)
    program = policy_program(model)
    np.testing.assert_allclose(
        program.action_values(states), model.learner.action_values(states), rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("bins", [6, (3, 8)])
def test_a_grid_decides_as_the_agent_between_two_of_its_cells(bins, tmp_path):
    env = SpacesEnv(spaces.Box(0, 24, (2,), np.int64), spaces.Discrete(4))
    model = UniformGridQ(env=env, bins=bins, seed=0, warmup_steps=50).learn(100)
    model.learner.weights[:] = np.random.default_rng(0).normal(size=model.learner.weights.shape)
    states = np.indices((25, 25)).reshape(2, -1).T
    expected, _ = model.predict(states, deterministic=True)
    program = export_policy(model, tmp_path / "policy.py", digits=9)
    np.testing.assert_array_equal(program.decide(states), expected)
    decide = load_python(tmp_path / "policy.py").decide
    np.testing.assert_array_equal([decide(row) for row in states.tolist()], expected)


def test_the_python_file_decides_as_the_agent(model, tmp_path):
    states = states_of(model, 2_000)  # the slowest of the three
    export_policy(model, tmp_path / "policy.py")
    decide = load_python(tmp_path / "policy.py").decide
    np.testing.assert_array_equal([decide(row) for row in states.tolist()], wanted(model, states))


def compiled(model, folder):
    """The C file as a library; compiled in single precision too."""
    export_policy(model, folder / "policy.c")
    library = folder / "policy.so"
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-lm"]
    subprocess.run(["cc", folder / "policy.c", "-DREAL=float", "-o", library, *flags], check=True)
    subprocess.run(["cc", folder / "policy.c", "-o", library, *flags], check=True)
    return CDLL(str(library))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_file_decides_as_the_agent(model, tmp_path):
    states = states_of(model)
    decide = compiled(model, tmp_path).policy_decide
    found = [decide((c_double * 4)(*row)) for row in states.tolist()]
    np.testing.assert_array_equal(found, wanted(model, states))


BAD = [[0.0, 0.0, np.nan, 0.0], [np.inf, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -np.inf]]


def test_the_python_file_refuses_what_the_agent_refuses(model, tmp_path):
    export_policy(model, tmp_path / "policy.py")
    decide = load_python(tmp_path / "policy.py").decide
    for observation in BAD:
        with pytest.raises(ValueError, match=r"observation must be finite, got \[.*(nan|inf)"):
            decide(observation)
    for observation in ([0.0] * 3, [0.0] * 5):
        with pytest.raises(ValueError, match=f"must have 4 numbers, got {len(observation)}"):
            decide(observation)
    row = np.zeros((1, 4))
    numbers = [[None, 0, 0, 0], ["a", 0, 0, 0], ["1", 0, 0, 0], [0, 0, 0, 10**400], row, row.tolist()]
    for wrong in (*numbers, 5, None, "0000", [row[0], 0, 0, 0]):
        with pytest.raises(ValueError, match=r"observation must be 4 numbers, got .*\.$") as caught:
            decide(wrong)
        assert len(str(caught.value)) < 140
    np.testing.assert_array_equal(decide(row[0]), decide([0, 0.0, np.float32(0.0), False]))


def test_the_python_file_refuses_numbers_whose_squares_overflow(model, tmp_path):
    unbounded = np.full(4, np.inf)
    program = replace(policy_program(model), low=-unbounded, high=unbounded)
    export_policy(program, tmp_path / "policy.py")
    decide = load_python(tmp_path / "policy.py").decide
    if np.isinf(program.scale).all():  # a single cell without distances
        assert decide([1e200] * 4) in program.actions
        return
    for large in (1e200, -1.7e308, 1.3e154):
        with pytest.raises(ValueError, match=r"observation is too large, got \["):
            decide([large] * 4)
    assert decide([1e100] * 4) in program.actions


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_file_returns_a_status_for_what_the_agent_refuses(model, reacher, tmp_path):
    decide = compiled(model, tmp_path).policy_decide
    assert [decide((c_double * 4)(*row)) for row in BAD] == [-1] * 3
    (tmp_path / "box").mkdir()
    decide, action = compiled(reacher, tmp_path / "box").policy_decide, (c_double * 2)(7.0, 7.0)
    for row in ([np.nan, 0.0], [0.0, np.inf]):
        assert decide((c_double * 2)(*row), action) == -1
        assert list(action) == [7.0, 7.0]
    assert decide((c_double * 2)(0.0, 0.0), action) == 0
    assert list(action) != [7.0, 7.0]


def test_the_onnx_model_decides_as_the_agent(model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    states = states_of(model)
    export_policy(model, tmp_path / "policy.onnx")
    onnx.checker.check_model(str(tmp_path / "policy.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    found, values = session.run(None, {"observation": states})
    np.testing.assert_array_equal(found, wanted(model, states))
    np.testing.assert_allclose(values, policy_program(model).action_values(states), rtol=1e-9, atol=1e-9)


def test_few_digits_make_a_smaller_file_that_decides_nearly_the_same(model, tmp_path):
    states = states_of(model)
    whole = export_policy(model, tmp_path / "whole.py")
    short = export_policy(model, tmp_path / "short.py", digits=4)
    assert (tmp_path / "short.py").stat().st_size < (tmp_path / "whole.py").stat().st_size
    assert (whole.decide(states) == short.decide(states)).mean() > 0.98
    module = load_python(tmp_path / "short.py")
    np.testing.assert_array_equal(
        [module.decide(row) for row in states[:500].tolist()], short.decide(states[:500])
    )


class Reach(gym.Env):
    """Two coordinates to be reached, in a box that is not about 0."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Box(np.array([0.0, -3.0], np.float32), np.array([1.0, 5.0], np.float32))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.state, {}

    def step(self, action):
        reward = -float(((action - self.state) ** 2).sum())
        return self.reset()[0], reward, True, False, {}


@pytest.fixture(scope="module")
def reacher():
    return TwoTimescaleAC(env=Reach(), seed=0, **SMALL).learn(5_000)


def test_the_actor_of_a_box_is_written_too(reacher, tmp_path):
    states = states_of(reacher, 2_000)
    expected = wanted(reacher, states)
    assert expected.std(axis=0).min() > 0.0
    export_policy(reacher, tmp_path / "policy.py")
    decide = load_python(tmp_path / "policy.py").decide
    np.testing.assert_allclose([decide(row) for row in states.tolist()], expected, rtol=1e-5, atol=1e-6)
    if shutil.which("cc"):
        library, found = compiled(reacher, tmp_path), (c_double * 2)()
        for row, action in zip(states.tolist(), expected, strict=True):
            library.policy_decide((c_double * 2)(*row), found)
            np.testing.assert_allclose(list(found), action, rtol=1e-5, atol=1e-6)


def test_the_actor_of_a_box_as_an_onnx_model(reacher, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    export_policy(reacher, tmp_path / "policy.onnx")
    states = states_of(reacher)
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    found, _ = session.run(None, {"observation": states})
    np.testing.assert_allclose(found, wanted(reacher, states), rtol=1e-5, atol=1e-6)


def test_actions_are_what_the_environment_takes(tmp_path):
    class Odd(gym.Env):
        observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
        action_space = gym.spaces.MultiDiscrete([2, 3], start=[1, 5])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32), {}

        def step(self, action):
            state = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
            return state, float(action[1]), False, False, {}

    model = TwoTimescaleAC(env=Odd(), seed=0, **SMALL).learn(4_000)
    export_policy(model, tmp_path / "policy.py")
    states = np.linspace(-1.0, 1.0, 50, dtype=np.float32)[:, None]
    decide = load_python(tmp_path / "policy.py").decide
    found = [decide(row) for row in states.astype(float).tolist()]
    np.testing.assert_array_equal(found, model.predict(states, deterministic=True)[0])


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: TwoTimescaleQ(env="Pendulum-v1", seed=0), "actions in Box"),
        (lambda: FourierSarsa(env="CartPole-v1", seed=0), "cannot be exported; supported"),
        (lambda: TwoTimescaleAC(env="CartPole-v1", seed=0), "call learn first"),
        (lambda: TwoTimescaleQ(env="CartPole-v1", tree=True, seed=0, **SMALL).learn(4_000), "a tree"),
    ],
)
def test_what_is_no_table_is_refused(make, word, tmp_path):
    with pytest.raises(ValueError, match=word):
        export_policy(make(), tmp_path / "policy.py")
    assert not list(tmp_path.iterdir())


def test_what_is_left_of_a_warm_up_is_said(tmp_path):
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    model = TwoTimescaleAC(env=SpacesEnv(box, box), seed=0, warmup_steps=100)
    ends = {0: "up to 100 more steps, or up to 250", 150: "up to 49 more steps, or up to 99"}
    for steps, words in ends.items():  # no episode terminates: it is extended after 100 and 150 steps
        if steps:
            model.learn(steps)
        with pytest.raises(ValueError, match=f"still in its warm-up, which ends after {words} if it is"):
            export_policy(model, tmp_path / "policy.py")
    model.learn(50, reset_num_timesteps=False)
    with pytest.raises(ValueError, match="which ends after up to 49 more steps; call learn first"):
        model.cells()
    model.learn(49, reset_num_timesteps=False)
    assert export_policy(model, tmp_path / "policy.py").n_numbers > 0


def test_bad_arguments_are_refused(tmp_path):
    model = SOMQ(env="CartPole-v1", n_cells=4, seed=0).learn(2_000)
    with pytest.raises(ValueError, match=r"must end with one of \.py, \.c, \.onnx, got"):
        export_policy(model, tmp_path / "policy.java")
    for digits in (0, 18, 2.5, "3", True):
        with pytest.raises(ValueError, match="digits must be"):
            export_policy(model, tmp_path / "policy.c", digits=digits)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ([[0.0, 0.0, np.nan, 0.0]], "observations must be finite"),
        ([[0.0, 0.0, -np.inf, 0.0]], "observations must be finite"),
        ([0.0, 0.0, 0.0, 0.0], r"shape \(n, 4\), got \(4,\)"),
        ([[0.0] * 5], r"shape \(n, 4\), got \(1, 5\)"),
    ],
)
def test_a_program_refuses_what_is_no_list_of_observations(observations, message, model, tmp_path):
    program = export_policy(model, tmp_path / "policy.py")
    with pytest.raises(ValueError, match=message):
        program.decide(observations)


# Names that would end a comment, or make it invalid, if they were written as they are
UNSAFE = [
    '"""\nRAN = True\n"""',
    *(
        '"',
        'a"""b',
        "a\\",
        "a\\x",
        "a\\U",
        "\nRAN = True",
        "\rRAN = True",
        "\x0cRAN = 1",
        "\0",
        "\ud800",
        "\u202e",
    ),
    *(
        "*/\nint ran;\n/*",
        "a*/b",
        "a/*b",
        "/*/",
        "*",
        "/",
        "??/",
        "a??/\nint ran;",
        "\u2028int ran;",
        "{0}%s",
    ),
]


@pytest.mark.parametrize("discrete", [True, False])
def test_names_stay_within_the_comments_of_a_file(discrete, tmp_path):
    actions = np.arange(len(UNSAFE)) if discrete else None
    bounds = np.zeros((2, 0)) if discrete else np.tile([[-1.0], [1.0]], len(UNSAFE))
    for number, name in enumerate(UNSAFE):
        program = blank_program(name, UNSAFE, UNSAFE, actions, bounds)
        module = load_python(export_to(program, tmp_path / f"policy{number}.py"))
        assert not hasattr(module, "RAN")
        # escapes are read as what they stand for, and surrogates are replaced
        assert name.replace("\ud800", "\ufffd") in module.__doc__
        assert np.ndim(module.decide([0.0] * len(UNSAFE))) == int(not discrete)
    source = export_to(replace(program, name="\n".join(UNSAFE)), tmp_path / "policy.c")
    if shutil.which("cc"):
        for standard in ("-std=c99", "-std=gnu99"):
            flags = [standard, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"]
            subprocess.run(["cc", *flags, source], check=True)
    code = re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.DOTALL)
    assert "ran" not in re.findall(r"\w+", code)


def export_to(program, path):
    export_policy(program, path)
    return path


def test_names_that_no_encoding_can_store_are_replaced_in_onnx_too(tmp_path):
    onnx = pytest.importorskip("onnx")
    program = blank_program("\ud800", ["\udfff"], ["a"], np.arange(1), np.zeros((2, 0)))
    export_policy(program, tmp_path / "policy.onnx")
    assert onnx.load(tmp_path / "policy.onnx").graph.doc_string.startswith(
        "\ufffd. Observation: \ufffd."
    )
