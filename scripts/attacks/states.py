"""Attacks on states of agents: loaded into trained learners, or left by trainings that were stopped."""

import io
from copy import deepcopy
from typing import Any

import numpy as np
from stable_baselines3.common.env_util import make_vec_env

from attacks import estimator_states
from attacks.interrupting import alike, interrupt, some_lines
from attacks.models import AGENT, FEW, TREE, content_of
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


def tell(model: Any, rows: np.ndarray) -> dict[str, Any]:
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
        wrong = unlike(tell(new, rows), tell(elsewhere, rows))
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


def prepare() -> None:
    """Compile all code before children are forked."""
    for name in CASES:
        make(name, 1, 1).learn(STEPS)
    estimator_states.prepare()


ATTACKS: dict[str, Attack] = {
    "states of learners": attack_learners,
    "states of trainings": attack_trainings,
    "states of estimators": estimator_states.attack_estimators,
}
