"""Trials of hyperparameters, rung by rung: one process has the study, others train.

A rung is a part of the training of several seeds. Between two rungs Optuna may prune the trial. Models
are sent as bytes, so that any process or machine can train a rung, and a lost worker costs one rung.
"""

import io
import os
import socket
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
from optuna import Study, Trial, storages
from optuna.importance import get_param_importances
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import IntegrityError, OperationalError

import oda_rl.agents
from benchmarks.plans import Plan, make_model
from benchmarks.training import EVALUATION_SEED, Evaluation
from common.search_spaces import Range, suggest
from common.workers import Workers

OWNER = "process"
DONE = (TrialState.COMPLETE, TrialState.PRUNED)
# Seconds within which a process notes that a trial is its own
PATIENCE = 5
# Attempts to open a storage before its error is raised
OPENINGS = 10
Models = list[bytes]


@dataclass(frozen=True)
class Task:
    """What all trials of a study have in common."""

    agent: str
    env_id: str
    total_timesteps: int
    seeds: tuple[int, ...]
    rungs: int
    episodes: int


def train_rung(task: Task, options: dict[str, Any], rung: int, models: Models) -> tuple[float, Models]:
    """Train all seeds up to the end of a rung, counted from 1, and evaluate them.

    `models` are those of the previous rung, empty for the first. A seed that diverges has a return of
    minus infinity. Returns the mean return over seeds, and the models.
    """
    made = [
        _train(task, options, rung, seed, models[i] if models else None)
        for i, seed in enumerate(task.seeds)
    ]
    return float(np.mean([value for value, _ in made])), [model for _, model in made]


def _train(
    task: Task, options: dict[str, Any], rung: int, seed: int, stored: bytes | None
) -> tuple[float, bytes]:
    total = task.total_timesteps
    plan = Plan(task.agent, task.env_id, total, options=options)
    if stored is None:
        model = make_model(plan, seed)
    else:
        model = getattr(oda_rl.agents, task.agent).load(io.BytesIO(stored), env=gym.make(task.env_id))
    until = total * rung // task.rungs
    try:
        model.learn(
            until - model.num_timesteps,
            log_interval=None,
            reset_num_timesteps=stored is None,
            planned_timesteps=total,
        )
    except ArithmeticError:
        return -np.inf, b""
    evaluation = Evaluation(task.env_id, task.episodes, EVALUATION_SEED + seed * task.episodes)
    value = float(np.mean(evaluation.play(model)))
    evaluation.close()
    model.env.close()
    file = io.BytesIO()
    model.save(file)
    return value, file.getvalue()


# -- the study ---------------------------------------------------------------------------------------


def find_done(study: Study) -> list[FrozenTrial]:
    """The trials that are complete or pruned."""
    return study.get_trials(deepcopy=False, states=DONE)


def find_running(study: Study) -> list[FrozenTrial]:
    """The trials that a process has begun and not ended."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def requeue_lost(study: Study) -> int:
    """Enqueue again the trials whose process on this machine has ended; return how many.

    A process notes itself right after it has begun a trial. A trial that still has no process after
    `PATIENCE` seconds was begun by one that was killed in between, on any machine.
    """
    unowned = {trial.number for trial in find_running(study) if OWNER not in trial.user_attrs}
    if unowned:
        time.sleep(PATIENCE)
    lost = 0
    for trial in find_running(study):
        host, _, pid = trial.user_attrs.get(OWNER, "").rpartition(":")
        ended = host == socket.gethostname() and not psutil.pid_exists(int(pid))
        if ended or (not pid and trial.number in unowned):
            with suppress(RuntimeError):  # another process was quicker
                study.tell(trial.number, state=TrialState.FAIL)
                # what was planned for it may not have been asked for yet
                study.enqueue_trial({**trial.system_attrs.get("fixed_params", {}), **trial.params})
                lost += 1
    return lost


def search(
    study: Study, task: Task, space: Mapping[str, Range], n_trials: int, workers: Workers
) -> Iterator[FrozenTrial]:
    """Run trials of a search space, one on each worker, until the study has `n_trials`.

    Yields each trial as it ends.
    """
    running: dict[Future, tuple[Trial, dict[str, Any], int]] = {}

    def submit_rung(trial: Trial, options: dict[str, Any], rung: int, models: Models) -> None:
        rung_of = partial(train_rung, task, options, rung, models)
        running[workers.submit(rung_of)] = trial, options, rung

    while True:
        while len(running) < workers.n and len(find_done(study)) + len(running) < n_trials:
            trial = study.ask()
            trial.set_user_attr(OWNER, f"{socket.gethostname()}:{os.getpid()}")
            submit_rung(trial, suggest(trial, space), 1, [])
        if not running:
            return
        for future in workers.wait(running):
            trial, options, rung = running.pop(future)
            value, models = future.result()
            diverged, last = not np.isfinite(value), rung == task.rungs
            if not diverged:
                trial.report(value, rung)
            if diverged or (not last and trial.should_prune()):
                yield study.tell(trial, state=TrialState.PRUNED)
            elif last:
                yield study.tell(trial, value)
            else:
                submit_rung(trial, options, rung + 1, models)


def open_storage(url: str) -> BaseStorage:
    """Open the storage of a study, and make the folder of an SQLite file.

    If commands begin on a new storage at the same time, one makes its tables, and the others try again.
    """
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    for _ in range(OPENINGS - 1):
        with suppress(IntegrityError, OperationalError):
            return storages.get_storage(url)
        time.sleep(0.5)
    return storages.get_storage(url)


def importances(study: Study) -> dict[str, float]:
    """Importance of each hyperparameter; empty if there are too few trials to estimate it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return get_param_importances(study)
        except (RuntimeError, ValueError, UserWarning):
            return {}
