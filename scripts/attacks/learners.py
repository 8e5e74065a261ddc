"""Attacks on agents: states loaded into others, trainings that are cut, threads that act and learn."""

import io
import threading
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import make_vec_env

from attacks.interrupting import alike, interrupt, some_lines
from attacks.models import AGENT, BASELINES, MAKERS, N_STEPS, TREE, content_of, model_bytes
from attacks.trials import Attack, Begin, Found, Verdict
from oda_rl import agents
from oda_rl.agents.callbacks import KeepBestCallback, SnapshotCallback

STEPS, RESUMED_STEPS = 1500, 3000
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
    **{name: (name, CART, options) for name, options in BASELINES.items()},
    "TileCodingSarsa, by visits": (
        *("TileCodingSarsa", CART),
        BASELINES["TileCodingSarsa"] | {"learning_rate_by": "visits"},
    ),
}

# Agents whose trainings are cut and resumed, with their options and environments
RESUMED: list[tuple[str, dict[str, Any], str]] = [
    *(
        (name, options, env_id)
        for env_id in ("CartPole-v1", "oda_rl/CartPole-v1", "MountainCar-v0")
        for name, options in ({"TwoTimescaleQ": AGENT, "TwoTimescaleAC": AGENT} | BASELINES).items()
    ),
    *(
        (name, AGENT, env_id)
        for env_id in ("Pendulum-v1", "oda_rl/Pendulum-v1")
        for name in ("TwoTimescaleQ", "TwoTimescaleAC")
    ),
    ("TwoTimescaleQ", TREE | {"tree": True}, "oda_rl/CartPole-v1"),
]
THREADS, POINTS = 8, 64
# Actions of each trial, over all threads, that are compared with the right ones.
ACTIONS = 100_000
LEARN_STEPS = 4000
THREADED = [
    *("TwoTimescaleQ", "TwoTimescaleQ, tree", "TwoTimescaleQ, continuous", "TwoTimescaleQ, table"),
    *("TwoTimescaleAC", "TwoTimescaleAC, tree", "TwoTimescaleAC, continuous", "TwoTimescaleAC, table"),
    *("TwoTimescaleQ, per action", "UniformGridQ", "SOMQ", "TileCodingSarsa"),
    *("FourierSarsa", "KernelQ"),
]
assert set(THREADED) <= set(MAKERS)


def unlike(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return the names of the entries that differ between two states."""
    return ", ".join(name for name in one if not alike(one[name], other[name]))


def some_steps(rng: np.random.Generator) -> int:
    """Draw a number of steps, from the first of the warm-up to well after it."""
    return int(10.0 ** rng.uniform(0.0, np.log10(STEPS)))


def make(name: str, seed: int, n_envs: int) -> Any:
    """Make an untrained agent."""
    kind, env_id, options = CASES[name]
    env = make_vec_env(env_id, n_envs, seed=seed)
    return getattr(agents, kind)(env=env, seed=seed, **options)


def rows_of(model: Any, rng: np.random.Generator) -> np.ndarray:
    """Draw observations, encoded for a learner."""
    space = model.observation_space
    found = [model.observations.encode(space.sample()) for _ in range(20)]
    rows = np.array(found, dtype=np.float64)
    return rows if model.observations.is_table else rng.normal(size=rows.shape)


def outputs_of(model: Any, rows: np.ndarray) -> dict[str, Any]:
    """Return a learner's states and outputs."""
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
    """Run one trial: a state loaded into a trained learner must give the same as in a new learner."""
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
        wrong = unlike(outputs_of(new, rows), outputs_of(elsewhere, rows))
        if wrong:
            return Found(Verdict.WRONG, f"{what}other {wrong}")
        for model in (elsewhere, new):
            model.learn(300)
    if not alike(before, state):
        return Found(Verdict.WRONG, "the state was changed")
    return _judge_file(elsewhere)


def _judge_file(model: Any) -> Found:
    """Check that an agent's file can be read and continued with one to three environments."""
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
    """Run one trial: a training that keeps its best policy is stopped, interrupted, or completes."""
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


def attack_resumes(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: a training that is cut anywhere, saved and loaded must end like an uncut one."""
    name, options, env_id = RESUMED[number % len(RESUMED)]
    n_envs = 1 + number // len(RESUMED) % 2
    cut = int(rng.integers(1, RESUMED_STEPS // n_envs)) * n_envs
    begin(name, f"{n_envs} of {env_id}, cut after {cut} steps of {RESUMED_STEPS}")
    kind: Any = getattr(agents, name)

    def make(steps: int) -> Any:
        model = kind(env=make_vec_env(env_id, n_envs, seed=1), seed=1, **options)
        return model.learn(steps, planned_timesteps=RESUMED_STEPS)

    whole, first = make(RESUMED_STEPS), make(cut)
    second = kind.load(io.BytesIO(content_of(first)), env=make_vec_env(env_id, n_envs, seed=2))
    second.learn(second.remaining_timesteps, reset_num_timesteps=False)
    same = content_of(second) == content_of(whole)
    return Found(Verdict.EQUAL if same else Verdict.WRONG)


def load_to_learn(name: str) -> Any:
    """Load the model of a name, with an environment to learn from."""
    kind, content = model_bytes(name)
    model: Any = kind.load(io.BytesIO(content))
    model.set_env(gym.make(model.env_id))
    return model


def attack_with_threads(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: actions of a model at rest must be right; one in training must learn the same."""
    name = THREADED[number % len(THREADED)]
    begin(name, f"{ACTIONS} actions of {THREADS} threads")
    resting, learning, alone = load_to_learn(name), load_to_learn(name), load_to_learn(name)
    points = np.array([resting.observation_space.sample() for _ in range(POINTS)])
    if points.dtype.kind == "f":
        points = rng.normal(size=points.shape).astype(points.dtype)
    expected = resting.predict(points, deterministic=True)[0]
    alone.learn(LEARN_STEPS, reset_num_timesteps=False)
    wrong, errors = [0] * THREADS, []

    def act(thread: int) -> None:
        own = np.random.default_rng([number, thread])
        try:
            for _ in range(ACTIONS // THREADS // POINTS + 1):
                order = own.permutation(POINTS)
                found = resting.predict(points[order], deterministic=True)[0]
                wrong[thread] += int(
                    np.any(found != expected[order], axis=tuple(range(1, found.ndim))).sum()
                )
                found, _ = learning.predict(points[order], deterministic=True)
                wrong[thread] += sum(not learning.action_space.contains(action) for action in found)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=act, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    learning.learn(LEARN_STEPS, reset_num_timesteps=False)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    if sum(wrong):
        return Found(Verdict.WRONG, f"{sum(wrong)} actions")
    same = content_of(learning) == content_of(alone)
    return Found(Verdict.EQUAL) if same else Found(Verdict.WRONG, "something else was learned")


def prepare() -> None:
    """Compile all code before children are forked."""
    for name in CASES:
        make(name, 1, 1).learn(STEPS)
    for name, options, env_id in RESUMED:
        getattr(agents, name)(env=env_id, seed=0, **options).learn(RESUMED_STEPS // 2)
    for name in THREADED:
        model = load_to_learn(name)
        model.learn(N_STEPS, reset_num_timesteps=False)
        model.predict(model.observation_space.sample(), deterministic=True)


ATTACKS: dict[str, Attack] = {
    "states of learners": attack_learners,
    "states of trainings": attack_trainings,
    "resumes": attack_resumes,
    "threads": attack_with_threads,
}
