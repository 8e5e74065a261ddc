"""The transitions of a warm-up, which tell what coordinates of an observation are noise."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.learner import Learner
from oda_rl.agents.noise_coordinates import MOST_COORDINATES, find_noise
from oda_rl.agents.observation_scale import ObservationScale

# Options of actions beyond which an action is known by the numbers that an environment takes for it
MOST_OPTIONS = 64


class WarmUpRecord:
    """The first transitions of a warm-up, up to `most`, of environments that take turns.

    A row of `rows` has the observation before, that after, the reward, and the action as a compiled
    environment takes it; `last` (n_envs, n_observed) are the observations before the next ones, infinite
    where there is none. Nothing is kept of a table, or of more coordinates than can be judged.
    """

    def __init__(self, sizes: Sizes, most: int) -> None:
        d, judged = sizes.n_observed, sizes.n_observed <= MOST_COORDINATES and not sizes.is_table
        self.rows = np.empty((most if judged else 0, 2 * d + 1 + sizes.n_command))
        self.n = 0
        self.last = np.full((sizes.n_envs, d), np.inf)

    def begin(self, env: int, observation: NDArray[Any]) -> None:
        """Keep what was observed, of which nothing is known that led to it."""
        self.last[env] = np.where(np.isfinite(observation), observation, np.inf)

    def add(self, env: int, command: NDArray[Any], reward: float, observation: NDArray[Any]) -> None:
        """Keep a transition, if it is whole and there is room."""
        row = np.concatenate([self.last[env], observation, [reward], command])
        if self.n < len(self.rows) and np.isfinite(row).all():
            self.rows[self.n] = np.clip(row, -LARGEST, LARGEST)
            self.n += 1
        self.begin(env, observation)

    def find_noise(self, actions: ActionCodec) -> NDArray[np.bool_]:
        """Which coordinates are noise, of shape (n_observed,)."""
        d, rows = self.last.shape[1], self.rows[: self.n]
        taken = rows[:, 2 * d + 1 :]
        if 0 < sum(actions.options) <= MOST_OPTIONS:
            parts = zip(taken.T.astype(np.int64), actions.options, strict=True)
            taken = np.hstack([np.eye(count)[part] for part, count in parts])
        return find_noise(rows[:, :d], taken, rows[:, 2 * d], rows[:, d : 2 * d])

    def get_state(self) -> dict[str, Any]:
        """The transitions so far, and the last observations."""
        return {"transitions": self.rows[: self.n].copy(), "last": self.last.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`, or, in a file of before that has none, with transitions to come."""
        found = state.get("transitions", self.rows[:0])
        self.n = len(found)
        self.rows[: self.n] = found
        last = state.get("last", np.empty((0, 0)))
        self.last[:] = last if last.shape == self.last.shape else np.inf


class RecordingLearner(Learner):
    """A learner that keeps the transitions of its warm-up in a `record`, until the scale is known."""

    sizes: Sizes
    scale: ObservationScale

    @cached_property
    def record(self) -> WarmUpRecord:
        """The transitions of the warm-up so far; none are kept once it is over."""
        return WarmUpRecord(self.sizes, self.config.warmup_steps)

    def begin(self, env: int, observation: NDArray[Any]) -> int:
        """Start an episode, as `Learner.begin`."""
        if not self.is_scaled:
            self.record.begin(env, observation)
        return super().begin(env, observation)

    def step(
        self, env: int, observation: NDArray[Any], reward: float, terminated: bool, ended: bool
    ) -> int:
        """Learn from what the last action led to, as `Learner.step`."""
        if not self.is_scaled:
            self.record.add(env, self.memory.command[env], reward, observation)
        return super().step(env, observation, reward, terminated, ended)

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """As `Learner.get_state`, with the record as long as it is of use."""
        state = super().get_state(under_way)
        if not self.is_scaled:
            state["warm_up"] |= self.record.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        super().set_state(state)
        self.record = WarmUpRecord(self.sizes, 0 if self.is_scaled else self.config.warmup_steps)
        self.record.set_state(state["warm_up"])

    def _end_warm_up(self) -> None:
        self.scale.coarsen(self.record.find_noise(self.actions))
        self.record = WarmUpRecord(self.sizes, 0)
