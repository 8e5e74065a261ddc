"""Attacks on resumed trainings: cut anywhere, saved and loaded, they must end like an uncut one."""

import io
from typing import Any

import numpy as np
from stable_baselines3.common.env_util import make_vec_env

from attacks.models import AGENT, FEW, TREE, content_of
from attacks.trials import Attack, Begin, Found, Verdict
from oda_rl import agents

STEPS = 3000
NUMBERED: dict[str, dict[str, Any]] = {
    "TwoTimescaleQ": AGENT,
    "TwoTimescaleAC": AGENT,
    "UniformGridQ": {"bins": 4, **FEW},
    "SOMQ": {"n_cells": 16, **FEW},
    "TileCodingSarsa": {"tiles": 3, "tilings": 4, **FEW},
    "FourierSarsa": {"order": 2, **FEW},
    "KernelQ": {"max_points": 20, **FEW},
}
CASES: list[tuple[str, dict[str, Any], str]] = [
    *(
        (name, options, env_id)
        for env_id in ("CartPole-v1", "oda_rl/CartPole-v1", "MountainCar-v0")
        for name, options in NUMBERED.items()
    ),
    *(
        (name, AGENT, env_id)
        for env_id in ("Pendulum-v1", "oda_rl/Pendulum-v1")
        for name in ("TwoTimescaleQ", "TwoTimescaleAC")
    ),
    ("TwoTimescaleQ", TREE | {"tree": True}, "oda_rl/CartPole-v1"),
]


def attack(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial with an agent and one environment, or two in every second round of all cases."""
    name, options, env_id = CASES[number % len(CASES)]
    n_envs = 1 + number // len(CASES) % 2
    cut = int(rng.integers(1, STEPS // n_envs)) * n_envs
    begin(name, f"{n_envs} of {env_id}, cut after {cut} steps of {STEPS}")
    kind: Any = getattr(agents, name)

    def make(steps: int) -> Any:
        model = kind(env=make_vec_env(env_id, n_envs, seed=1), seed=1, **options)
        return model.learn(steps, planned_timesteps=STEPS)

    whole, first = make(STEPS), make(cut)
    second = kind.load(io.BytesIO(content_of(first)), env=make_vec_env(env_id, n_envs, seed=2))
    second.learn(second.remaining_timesteps, reset_num_timesteps=False)
    same = content_of(second) == content_of(whole)
    return Found(Verdict.EQUAL if same else Verdict.WRONG)


def prepare() -> None:
    """Compile all code before children are forked."""
    for name, options, env_id in CASES:
        getattr(agents, name)(env=env_id, seed=0, **options).learn(STEPS // 2)


ATTACKS: dict[str, Attack] = {"resumes": attack}
