"""Attacks by environments whose return values violate their spaces, or which raise errors."""

import traceback
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from attacks.models import BASELINES, FEW, SMALL
from attacks.trials import Attack, Begin, Found, Verdict, describe
from oda_rl import agents
from oda_rl.agents.learner import BadTransitionError, DivergenceError

STEPS, GOOD_STEPS = 1500, 300
SPACES = {
    "Box": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "Discrete": spaces.Discrete(6),
    "Dict": spaces.Dict(place=spaces.Discrete(4), speed=spaces.Box(-1.0, 1.0, (2,), np.float32)),
}
ACTIONS = {"numbered": spaces.Discrete(3), "continuous": spaces.Box(-1.0, 1.0, (1,), np.float32)}
AGENTS: list[tuple[str, dict[str, Any], str, str]] = [
    *(("TwoTimescaleQ", SMALL, space, "numbered") for space in SPACES),
    *(("TwoTimescaleAC", SMALL, space, "numbered") for space in SPACES),
    ("TwoTimescaleQ", SMALL, "Box", "continuous"),
    ("TwoTimescaleAC", SMALL, "Box", "continuous"),
    *(
        (name, options, "Dict" if name == "FourierSarsa" else "Box", "numbered")
        for name, options in BASELINES.items()
    ),
    ("UniformGridQ", FEW, "Discrete", "numbered"),
]


class OwnError(Exception):
    """An error that the environment itself raises."""


def _raise() -> None:
    raise OwnError("the environment's own")


# Functions that replace an observation or a reward, by name.
OBSERVATIONS: dict[str, Callable[[Any], Any]] = {
    "NaN": lambda seen: _like(seen, np.nan),
    "infinity": lambda seen: _like(seen, -np.inf),
    "1e308": lambda seen: _like(seen, 1e308),
    "1e9": lambda seen: _like(seen, 1e9),
    "-1": lambda seen: _like(seen, -1),
    "0.5": lambda seen: _like(seen, 0.5),
    "longer": lambda seen: np.ones(7),
    "shorter": lambda seen: np.ones(1),
    "a matrix": lambda seen: np.ones((2, 2)),
    "nothing": lambda seen: np.empty(0),
    "None": lambda seen: None,
    "a text": lambda seen: "left",
    "a list": lambda seen: [0.5, 0.25],
    "float16": lambda seen: np.ones(2, dtype=np.float16),
    "complex": lambda seen: np.ones(2, dtype=complex),
    "objects": lambda seen: np.array([None, {}], dtype=object),
    "a dictionary": lambda seen: {"place": 9, "more": 1},
    "2**70": lambda seen: 2**70,
    "its own error": lambda seen: _raise(),
}
REWARDS: dict[str, Callable[[Any], Any]] = {
    "NaN": lambda reward: float("nan"),
    "infinity": lambda reward: float("inf"),
    "1e308": lambda reward: 1e308,
    "-1e308": lambda reward: -1e308,
    "1e12": lambda reward: 1e12,
    "None": lambda reward: None,
    "a text": lambda reward: "much",
    "an array": lambda reward: np.array([1.0]),
    "two numbers": lambda reward: np.array([1.0, 2.0]),
    "complex": lambda reward: 1j,
    "its own error": lambda reward: _raise(),
}
FAULTS = [
    *(("observation", name) for name in OBSERVATIONS),
    *(("reward", name) for name in REWARDS),
    ("reset", "its own error"),
    ("reset", "NaN"),
]


def _like(seen: Any, value: float) -> Any:
    """Replace the first number of an observation (in a dictionary, of its `speed`)."""
    if isinstance(seen, dict):
        return {**seen, "speed": _like(seen["speed"], value)}
    if np.ndim(seen) == 0:
        return value
    changed = np.array(seen, dtype=np.float64)
    changed.flat[0] = value
    return changed


class FaultyEnv(gym.Env):
    """Random observations, rewards for some actions; one is faulty at step `at`, or all from then on."""

    def __init__(self, space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space, self.action_space = space, action_space
        self.fault, self.at, self.lasting, self.n = ("", ""), 0, False, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        what, name = self.fault
        seen = self._observe()
        return (OBSERVATIONS[name](seen) if what == "reset" and self._is_faulty() else seen), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make one step; every twentieth ends the episode."""
        self.n += 1
        seen, reward = self._observe(), float(np.ravel(action)[0] > 0.5)
        what, name = self.fault
        if self._is_faulty():
            seen = OBSERVATIONS[name](seen) if what == "observation" else seen
            reward = REWARDS[name](reward) if what == "reward" else reward
        return seen, reward, self.n % 20 == 0, False, {}

    def _is_faulty(self) -> bool:
        return (
            self.n >= self.at > 0 if self.lasting or self.fault[0] == "reset" else self.n == self.at > 0
        )

    def _observe(self) -> Any:
        seen: Any = self.observation_space.sample()
        return seen


def make(number: int) -> Any:
    """Make the agent of a trial's number, with one or two environments; return it and the last one."""
    name, options, space, actions = AGENTS[number % len(AGENTS)]
    n_envs = 1 + number // len(AGENTS) % 2
    kind: Any = getattr(agents, name)
    envs = [FaultyEnv(SPACES[space], ACTIONS[actions]) for _ in range(n_envs)]
    env: Any = envs[0] if n_envs == 1 else DummyVecEnv([lambda one=one: one for one in envs])  # type: ignore[misc]
    return kind(env=env, seed=0, **options), envs[-1]


def attack(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial with an agent and a fault; numbers change the agent at once, the fault more slowly.

    Either no error must be raised, or one that names the step. The model must be sound afterwards.
    """
    fault = FAULTS[number // (2 * len(AGENTS)) % len(FAULTS)]
    model, faulty = make(number)
    faulty.at, faulty.lasting, faulty.fault = (
        int(rng.integers(1, STEPS)),
        bool(rng.random() < 0.3),
        fault,
    )
    begin(type(model).__name__, f"{fault[0]}: {fault[1]} at {faulty.at}, {'lasting' * faulty.lasting}")
    try:
        model.learn(STEPS)
        found = Found(Verdict.VALID if faulty.n >= faulty.at else Verdict.EQUAL)
    except (BadTransitionError, DivergenceError) as error:
        found = Found(Verdict.REFUSED, describe(error))
        if "step" not in str(error):
            return Found(Verdict.WRONG, f"no step is named: {error}")
    except Exception as error:  # raised by the environment or by a wrapper of SB3
        found = Found(Verdict.REFUSED, describe(error))
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        own = isinstance(error, OwnError) or "stable_baselines3" in where
        if not own or "step" not in "".join(getattr(error, "__notes__", ())):
            return found._replace(verdict=Verdict.RAW)
    try:
        faulty.fault = "", ""
        model.learn(GOOD_STEPS, reset_num_timesteps=False)
        rows = np.stack([model.observations.encode(faulty._observe()) for _ in range(20)])
        values = model.learner.action_values(np.ascontiguousarray(rows, dtype=np.float64))
        model.predict(faulty._observe(), deterministic=True)
    except DivergenceError as error:  # caused by a lasting fault
        return Found(Verdict.REFUSED, describe(error))
    except Exception as error:
        return Found(Verdict.LATE, describe(error))
    return found if np.isfinite(values).all() else found._replace(verdict=Verdict.NAN)


def prepare() -> None:
    """Compile all code before children are forked."""
    for number in range(2 * len(AGENTS)):
        model, _ = make(number)
        model.learn(STEPS)
        model.predict(model.observation_space.sample(), deterministic=True)


ATTACKS: dict[str, Attack] = {"environments": attack}
