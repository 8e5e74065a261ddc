"""One training run, evaluated and timed in the same way for all algorithms."""

import tempfile
import time
import timeit
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

from benchmarks.plans import RANDOM, SB3, Plan, make_model
from benchmarks.tasks import register_variants
from oda_rl.agents.sb3.evaluation import make_evaluation_envs
from oda_rl.envs import find_dynamics

EVALUATION_SEED = 1_000_000
# Steps in which a codebook grows and all compiled code is called.
WARM_UP_STEPS = 20_000
Run = dict[str, Any]
# The run, the model's files by suffix, and the traceback if the run failed. All are plain types, as they
# are returned by processes that need not have this module.
Trained = tuple[Run | None, dict[str, bytes], str]


class Evaluation:
    """Greedy episodes by SB3's `evaluate_policy`: one in each of several environments, in parallel.

    Every evaluation begins its episodes in the same states, which the seed determines.
    """

    def __init__(self, env_id: str, episodes: int, seed: int) -> None:
        self.seed = seed
        self.envs = make_evaluation_envs(env_id, episodes, seed)
        self._normalized: VecNormalize | None = None

    def play(self, model: BaseAlgorithm) -> np.ndarray:
        """The return of each episode, in the order in which they ended."""
        envs = self.envs
        if model.get_vec_normalize_env() is not None:
            if self._normalized is None:
                self._normalized = VecNormalize(envs, training=False, norm_reward=False)
            sync_envs_normalization(model.get_env(), self._normalized)  # type: ignore[arg-type]
            envs = self._normalized
        # This reset uses the seeds; the reset in evaluate_policy draws the states that follow.
        self.envs.seed(self.seed)
        self.envs.reset()
        returns, _ = evaluate_policy(model, envs, self.envs.num_envs, return_episode_rewards=True)
        return np.array(returns)

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()


def greedy_return(model: Any, env_id: str, episodes: int, seed: int) -> float:
    """Mean return of greedy episodes, one after the other."""
    env = Monitor(gym.make(env_id))
    env.reset(seed=seed)
    return float(np.mean(evaluate_policy(model, env, episodes)[0]))


class CurveCallback(BaseCallback):
    """Evaluates every `eval_freq` steps, without counting the time that this takes.

    Training ends when a mean return reaches `goal`; then `solved` is true. For each evaluation there are
    the `steps` and `seconds` of training before it, and the `returns` of its episodes. Seconds are
    processor time, which other programs do not affect.
    """

    def __init__(self, evaluation: Evaluation, eval_freq: int, goal: float = np.inf) -> None:
        super().__init__()
        self.goal, self.solved = goal, False
        self.evaluation = evaluation
        self.eval_freq = eval_freq
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self.returns: list[list[float]] = []
        self._begun, self._apart = time.process_time(), 0.0

    def _on_training_start(self) -> None:
        self._begun = time.process_time()

    def _on_step(self) -> bool:
        if self.eval_freq and self.num_timesteps >= self.eval_freq * (len(self.steps) + 1):
            begun = time.process_time()
            self.steps.append(self.num_timesteps)
            self.seconds.append(begun - self._begun - self._apart)
            self.returns.append(self.evaluation.play(self.model).tolist())
            self.solved = bool(np.mean(self.returns[-1]) >= self.goal)
            self._apart += time.process_time() - begun
        return not self.solved

    def total_seconds(self) -> float:
        """Seconds of training so far."""
        return time.process_time() - self._begun - self._apart


def count_numbers(model: Any) -> int:
    """Count the stored numbers: for SB3 policy parameters (no target network) and observation scales."""
    if hasattr(model, "n_parameters"):
        return int(model.n_parameters)
    policy = model.policy
    acting = [
        getattr(policy, name) for name in ("q_net", "quantile_net", "actor") if hasattr(policy, name)
    ]
    online = acting[0] if acting else policy
    scaler = model.get_vec_normalize_env()
    scales = 2 * int(np.prod(scaler.observation_space.shape)) if scaler is not None else 0
    return sum(parameter.numel() for parameter in online.parameters()) + scales


def time_decision(model: BaseAlgorithm, env_id: str, number: int = 50) -> float:
    """Microseconds from one observation to the greedy action; the least of ten times."""
    envs = make_evaluation_envs(env_id, 1, EVALUATION_SEED)
    batch: Any = envs.reset()
    envs.close()
    if isinstance(batch, dict):
        observation: Any = {name: part[0] for name, part in batch.items()}
    else:
        observation = tuple(part[0] for part in batch) if isinstance(batch, tuple) else batch[0]
    scaler = model.get_vec_normalize_env()

    def decide() -> None:
        seen = observation if scaler is None else scaler.normalize_obs(observation)
        model.predict(seen, deterministic=True)

    return 1e6 * min(timeit.repeat(decide, number=number, repeat=10)) / number


def read_model_files(model: BaseAlgorithm) -> dict[str, bytes]:
    """Return the contents of the files that are needed to use the agent again, by suffix."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model"
        model.save(path)
        scaler = model.get_vec_normalize_env()
        if scaler is not None:
            scaler.save(str(path.with_suffix(".vecnormalize.pkl")))
        return {found.name.removeprefix("model"): found.read_bytes() for found in Path(name).iterdir()}


_warm: set[tuple[Any, ...]] = set()


def warm_up(plan: Plan) -> None:
    """Compile the code of our agents once in a process, so that no run's time includes it."""
    if plan.algorithm in SB3 or plan.algorithm == RANDOM:
        return
    with gym.make(plan.env_id) as env:
        spaces = type(env.observation_space), type(env.action_space)
        kind = (plan.algorithm, str(plan.options), *spaces, find_dynamics(env) is None)
    if kind in _warm:
        return
    short = min(plan.total_timesteps, WARM_UP_STEPS)
    plan = replace(plan, total_timesteps=short)
    model = make_model(plan, 0)
    model.learn(short, callback=CurveCallback(Evaluation(plan.env_id, 1, 0), short))
    _warm.add(kind)


def train(plan: Plan, seed: int) -> Trained:
    """Train with one seed; return the results of the last greedy policy, and its files.

    The run has `seed`; `mean` and `sd` of the `returns` of the greedy episodes at the end; `cells` and
    `numbers`; `seconds`, without evaluations; `steps`, `curve` (means), `curve_seconds` and
    `curve_returns` of the evaluations during training; `file_bytes`, and `decision` in microseconds.
    """
    torch.set_num_threads(1)
    register_variants()
    warm_up(plan)
    model = make_model(plan, seed)
    curve = CurveCallback(
        Evaluation(plan.env_id, plan.curve_episodes, EVALUATION_SEED * (seed + 1)), plan.eval_freq
    )
    model.learn(plan.total_timesteps, callback=curve)
    seconds = curve.total_seconds()
    curve.evaluation.close()
    last = Evaluation(
        plan.env_id, plan.eval_episodes, EVALUATION_SEED * (seed + 1) + plan.curve_episodes
    )
    returns = last.play(model)
    last.close()
    files = read_model_files(model)
    run = {
        "seed": seed,
        "mean": float(np.mean(returns)),
        "sd": float(np.std(returns)),
        "cells": getattr(model, "n_cells", 0),
        "numbers": count_numbers(model),
        "seconds": seconds,
        "file_bytes": sum(map(len, files.values())),
        "decision": time_decision(model, plan.env_id),
        "returns": returns.tolist(),
        "steps": curve.steps,
        "curve": [float(np.mean(row)) for row in curve.returns],
        "curve_seconds": curve.seconds,
        "curve_returns": curve.returns,
    }
    return run, files, ""


def try_to_train(plan: Plan, seed: int) -> Trained:
    """Call `train`; return the traceback of an error, so that it does not stop other runs."""
    try:
        return train(plan, seed)
    except Exception:
        return None, {}, traceback.format_exc()
