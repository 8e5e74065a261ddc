"""Attacks by states: given to models that are elsewhere, copied in mid-stream, left by an interrupt."""

import io
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stable_baselines3.common.env_util import make_vec_env

import oda_rl
from attacks.models import AGENT, FEW, TREE, X, content_of
from attacks.numbers import SMALL, targets_of
from attacks.trials import Attack, Begin, Found, Verdict
from oda_rl import agents
from oda_rl.agents.callbacks import KeepBestCallback, SnapshotCallback

STEPS = 1500
CART, PENDULUM, SEA = "oda_rl/CartPole-v1", "oda_rl/Pendulum-v1", "oda_rl/DeepSea-v0"
# Agents with their environments; those stepped from Python can be interrupted at every step.
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "TwoTimescaleQ": ("TwoTimescaleQ", CART, AGENT),
    "TwoTimescaleQ, from Python": ("TwoTimescaleQ", "CartPole-v1", AGENT),
    "TwoTimescaleQ, tree": ("TwoTimescaleQ", CART, TREE | {"tree": True}),
    "TwoTimescaleQ, perturbed": ("TwoTimescaleQ", CART, AGENT | {"bifurcation": "perturb"}),
    "TwoTimescaleQ, per action": ("TwoTimescaleQ", CART, AGENT | {"codebook": "per_action"}),
    "TwoTimescaleQ, continuous": ("TwoTimescaleQ", PENDULUM, AGENT),
    "TwoTimescaleQ, table": ("TwoTimescaleQ", SEA, {}),
    "TwoTimescaleAC": ("TwoTimescaleAC", CART, AGENT),
    "TwoTimescaleAC, from Python": ("TwoTimescaleAC", "CartPole-v1", AGENT),
    "TwoTimescaleAC, mountain car": ("TwoTimescaleAC", "oda_rl/MountainCar-v0", AGENT),
    "TwoTimescaleAC, tree": ("TwoTimescaleAC", CART, TREE | {"tree": True}),
    "TwoTimescaleAC, continuous": ("TwoTimescaleAC", PENDULUM, AGENT),
    "TwoTimescaleAC, table": ("TwoTimescaleAC", SEA, {}),
    "UniformGridQ": ("UniformGridQ", CART, {"bins": 4, **FEW}),
    "SOMQ": ("SOMQ", CART, {"n_cells": 16, **FEW}),
    "TileCodingSarsa": ("TileCodingSarsa", CART, {"tiles": 3, "tilings": 4, **FEW}),
    "TileCodingSarsa, by visits": (
        *("TileCodingSarsa", CART),
        {"tiles": 2, "tilings": 4, "learning_rate_by": "visits", **FEW},
    ),
    "FourierSarsa": ("FourierSarsa", CART, {"order": 2, **FEW}),
    "KernelQ": ("KernelQ", CART, {"max_points": 20, **FEW}),
}
STREAMED = [
    name for name, make in SMALL.items() if hasattr(make(), "partial_fit") and hasattr(make(), "save")
]
# Parameters that a user may change in mid-stream, where an estimator has them
CHANGES: dict[str, tuple[Any, ...]] = {
    "max_codevectors": (2, 4, 12, 30),
    "cooling": (0.5, 0.95),
    "t_min": (1e-3, "auto"),
    "finish": (True, False),
    "n_warmup": (10, 500),
    "window": (20, 80),
    "max_children": (2, 5),
    "layers": (1, 3),
    "rule": ("nearest", "density"),
    "mode": ("majority",),
    "local_model": ("constant", "linear"),
    "bifurcation": ("perturb", "critical"),
}
PACKAGES = tuple(str(Path(one.__file__).parent) for one in (oda_rl, agents))


def alike(one: Any, other: Any) -> bool:
    """Whether two states are the same, to the bit."""
    if isinstance(one, dict):
        same = isinstance(other, dict) and one.keys() == other.keys()
        return same and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        same = one.shape == other.shape and one.dtype == other.dtype
        return same and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    return bool(one == other or (one != one and other != other))


def unlike(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The names of what is not the same in two states."""
    return ", ".join(name for name in one if not alike(one[name], other[name]))


def some_steps(rng: np.random.Generator) -> int:
    """From the first step of the warm-up to well after it."""
    return int(10.0 ** rng.uniform(0.0, np.log10(STEPS)))


# -- interrupts ----------------------------------------------------------------------------------------


def some_lines(rng: np.random.Generator) -> int:
    """Of the package, from its first ones to beyond the end of most of what is interrupted."""
    return int(10.0 ** rng.uniform(1.0, 4.5))


def interrupt(do: Callable[[], object], after: int) -> None:
    """Do something; Ctrl-C comes after so many lines of the package, if there are as many."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGES):
            return None
        if event == "line":
            count += 1
            if count == after:
                signal.raise_signal(signal.SIGINT)
        return trace

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(trace)
    try:
        do()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)


# -- agents --------------------------------------------------------------------------------------------


def make(name: str, seed: int, n_envs: int) -> Any:
    """An agent that has learned nothing."""
    kind, env_id, options = CASES[name]
    env = make_vec_env(env_id, n_envs, seed=seed)
    return getattr(agents, kind)(env=env, seed=seed, **options)


def rows_of(model: Any, rng: np.random.Generator) -> np.ndarray:
    """Observations as a learner takes them."""
    space = model.observation_space
    found = [model.observations.encode(space.sample()) for _ in range(20)]
    rows = np.array(found, dtype=np.float64)
    return rows if model.observations.is_table else rng.normal(size=rows.shape)


def tell(model: Any, rows: np.ndarray) -> dict[str, Any]:
    """All that a learner knows and would do."""
    learner = model.learner
    return {
        **learner.get_state(),
        "resting": learner.get_state(under_way=False),
        "greedy": learner.greedy(rows),
        "values": learner.action_values(rows),
        "cells": learner.n_cells,
        "rate": learner.exploration_rate,
        "figures of the log": learner.figures(),
        "drawn": learner.act(rows, deterministic=False),
    }


def attack_learners(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """One trial: a state of one run is given to a learner of another; all is as in a new learner."""
    name, n_envs = list(CASES)[number % len(CASES)], 1 + number // len(CASES) % 2
    at, to, under_way = some_steps(rng), some_steps(rng), bool(rng.random() < 0.5)
    begin(name, f"{n_envs} environments, step {at} to step {to}, {'with' if under_way else 'no'} memory")
    state = make(name, 1, n_envs).learn(at).learner.get_state(under_way)
    before, elsewhere, new = deepcopy(state), make(name, 2, n_envs).learn(to), make(name, 2, n_envs)
    rows = rows_of(new, rng)
    for model in (elsewhere, new):
        model.learner.set_state(state)
        model.set_env(make_vec_env(CASES[name][1], n_envs, seed=3), force_reset=True)
    for what in ("", "after more steps: "):
        wrong = unlike(tell(new, rows), tell(elsewhere, rows))
        if wrong:
            return Found(Verdict.WRONG, f"{what}other {wrong}")
        for model in (elsewhere, new):
            model.learn(300)
    if not alike(before, state):
        return Found(Verdict.WRONG, "the state was changed")
    return _judge_file(elsewhere)


def _judge_file(model: Any) -> Found:
    """Whether the file of an agent can be read, and gone on with, by other environments too."""
    kind, content = type(model), content_of(model)
    again = kind.load(io.BytesIO(content))
    if content_of(again) != content:
        return Found(Verdict.WRONG, "another file is written")
    rows = rows_of(again, np.random.default_rng(0))
    for n_envs in (1, 2, 3):
        again = kind.load(io.BytesIO(content), env=make_vec_env(model.env_id, n_envs))
        again.learn(60, reset_num_timesteps=False)
        again = kind.load(io.BytesIO(content_of(again)))
        if not np.isfinite(again.learner.action_values(rows)).all():
            return Found(Verdict.NAN, f"gone on with {n_envs} environments")
    return Found(Verdict.EQUAL)


def attack_trainings(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """One trial: a training that keeps its best policy is stopped, interrupted, or ends."""
    name, n_envs = list(CASES)[number % len(CASES)], 1 + number // len(CASES) % 2
    steps, every = some_steps(rng), int(10.0 ** rng.uniform(0.5, 3.0))
    stopped, after = bool(rng.random() < 0.2), some_lines(rng)
    how = "is stopped" if stopped else f"is interrupted at line {after}"
    begin(name, f"{steps} steps of {n_envs}, best of every {every}, {how}")
    model = make(name, 1, n_envs)
    best = KeepBestCallback(make_vec_env(CASES[name][1], 1), n_eval_episodes=1, eval_freq=every)
    kept = SnapshotCallback(every=every)

    def train() -> None:
        model.learn(steps, callback=[best, kept], callback_every=50)

    model.stopping = stopped
    if stopped:
        train()
    else:
        interrupt(train, after)
    if rng.random() < 0.5:
        best.give_back()
    for view in kept.views():
        if view.values is not None and not np.isfinite(view.values(view.codevectors)).all():
            return Found(Verdict.NAN, "a view")
    return _judge_file(model)


# -- estimators ----------------------------------------------------------------------------------------


def reload(model: Any) -> Any:
    """The same from its file."""
    return type(model).load(io.BytesIO(content_of(model)))


COPIES: dict[str, Callable[[Any], Any]] = {
    "saved": reload,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "copied": deepcopy,
}


def learn(model: Any, name: str, how: str, rows: np.ndarray) -> str:
    """Let an estimator learn; returns what it refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(model, how)(X[rows], *targets_of(name, rows))
        except ValueError as error:
            return str(error)
    return ""


def change(model: Any, rng: np.random.Generator) -> str:
    """Set one parameter to another value; returns which."""
    found = [key for key in model.get_params() if key.rpartition("__")[2] in CHANGES]
    if not found:
        return "no parameter"
    key = found[rng.integers(len(found))]
    values = CHANGES[key.rpartition("__")[2]]
    value = values[rng.integers(len(values))]
    model.set_params(**{key: value})
    return f"{key} = {value}"


def answers(model: Any) -> list[Any]:
    """What comes out of an estimator, or that nothing does."""
    try:
        found = [model.predict(X), getattr(model, "codevectors_", ())]
        for method in ("predict_proba", "transform", "score_samples"):
            if hasattr(model, method):
                found.append(getattr(model, method)(X))
    except NotFittedError:
        return ["not fitted"]
    return found


def attack_estimators(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """One trial: an estimator is fitted, streamed to, changed and interrupted, and copied all the while.

    Copies go on as it does; after all of it a fit is that of a new estimator.
    """
    name = STREAMED[number % len(STREAMED)]
    model: Any = SMALL[name]()
    twin, told = clone(model), []
    for _ in range(rng.integers(2, 6)):
        what = str(rng.choice(["fit", "partial_fit", "partial_fit", "change", "interrupt"]))
        rows = rng.permutation(len(X))[: 240 if rng.random() < 0.3 else int(rng.integers(30, 240))]
        how = "partial_fit" if rng.random() < 0.7 else "fit"
        if what == "change":
            own = np.random.default_rng(rng.integers(2**32))
            told.append(change(model, deepcopy(own)))
            change(twin, own)
        elif what == "interrupt":
            after = some_lines(rng)
            told.append(f"{how} {len(rows)}, interrupted at line {after}")
            begin(name, "; ".join(told))
            before = answers(model)
            learn(twin, name, how, rows)
            interrupt(partial(learn, model, name, how, rows), after)
            left = answers(model)
            if not (alike(left, answers(twin)) or (how == "fit" and alike(left, before))):
                return Found(Verdict.WRONG, "half of it was learned")
            twin = deepcopy(model)
        else:
            told.append(f"{what} {len(rows)}")
            begin(name, "; ".join(told))
            refused = [learn(one, name, what, rows) for one in (model, twin)]
            if refused[0] != refused[1]:
                return Found(Verdict.WRONG, f"refused: {refused}")
        expected = answers(twin)
        if not alike(answers(model), expected):
            return Found(Verdict.WRONG, "a copy does something else")
        if expected != ["not fitted"]:
            copy = str(rng.choice(list(COPIES)))
            told.append(copy)
            begin(name, "; ".join(told))
            try:
                twin = COPIES[copy](twin)
            except ValueError as error:
                if "must stay" not in str(error):
                    raise
                return Found(Verdict.REFUSED, str(error))
            if not alike(answers(twin), expected):
                return Found(Verdict.WRONG, "the copy does something else")
            if not all(np.isfinite(np.asarray(part, dtype=float)).all() for part in expected):
                return Found(Verdict.NAN)
    new, rows = clone(model), np.arange(len(X))
    refused = [learn(one, name, "fit", rows) for one in (model, new)]
    if refused[0] != refused[1] or (not refused[0] and not alike(answers(model), answers(new))):
        return Found(Verdict.WRONG, f"a last fit is not that of a new estimator {refused}")
    return Found(Verdict.EQUAL)


def prepare() -> None:
    """Have all code compiled before a child is forked."""
    for name in CASES:
        make(name, 1, 1).learn(STEPS)
    for name in STREAMED:
        for how in ("fit", "partial_fit"):
            learn(SMALL[name](), name, how, np.arange(len(X)))


ATTACKS: dict[str, Attack] = {
    "states of learners": attack_learners,
    "states of trainings": attack_trainings,
    "states of estimators": attack_estimators,
}
