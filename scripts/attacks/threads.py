"""Attacks by threads: eight of them act with two models, one of which learns at the same time."""

import io
import threading
from typing import Any

import gymnasium as gym
import numpy as np

from attacks.models import MAKERS, N_STEPS, content_of, model_bytes
from attacks.trials import Attack, Begin, Found, Verdict

THREADS, POINTS = 8, 64
# Actions of each trial, over all threads, that are compared with the right ones.
ACTIONS = 100_000
LEARN_STEPS = 4000
NAMES = [
    *("TwoTimescaleQ", "TwoTimescaleQ, tree", "TwoTimescaleQ, continuous", "TwoTimescaleQ, table"),
    *("TwoTimescaleAC", "TwoTimescaleAC, tree", "TwoTimescaleAC, continuous", "TwoTimescaleAC, table"),
    *("TwoTimescaleQ, per action", "UniformGridQ", "SOMQ", "TileCodingSarsa"),
    *("FourierSarsa", "KernelQ"),
]
assert set(NAMES) <= set(MAKERS)


def load(name: str) -> Any:
    """Load the model of a name, with an environment to learn from."""
    kind, content = model_bytes(name)
    model: Any = kind.load(io.BytesIO(content))
    model.set_env(gym.make(model.env_id))
    return model


def attack(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: actions of a model at rest must be right; one in training must learn the same."""
    name = NAMES[number % len(NAMES)]
    begin(name, f"{ACTIONS} actions of {THREADS} threads")
    resting, learning, alone = load(name), load(name), load(name)
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
    for name in NAMES:
        model = load(name)
        model.learn(N_STEPS, reset_num_timesteps=False)
        model.predict(model.observation_space.sample(), deterministic=True)


ATTACKS: dict[str, Attack] = {"threads": attack}
