"""Compiled environments and a learner in one compiled loop, and the episode records passed to SB3."""

import math
import time
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from oda_rl._interrupts import call_compiled
from oda_rl.agents import compiled_rollout
from oda_rl.envs.dynamics import (
    CompiledDynamics,
    StartBlock,
    find_dynamics,
    get_elapsed_steps,
    hand_back,
)
from oda_rl.envs.wrapper_chain import episode_record, find_monitor, restore_counters

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Episode starts drawn at once for each environment
STARTS = 256
NO_LIMIT = np.iinfo(np.int64).max


def find_dynamics_of_all(envs: list[gym.Env]) -> list[CompiledDynamics] | None:
    """The dynamics of all environments, or None if one compiled loop cannot step them all in turn."""
    found = [one for one in map(find_dynamics, envs) if one is not None]
    kinds = {(one.step, one.reset, len(one.parameters), one.state_size) for one in found}
    return found if len(found) == len(envs) and len(kinds) == 1 else None


def _is_finite(state: NDArray[np.float64]) -> bool:
    """Whether a state is finite. If not, the next step raises an error, and a reset follows."""
    return all(map(math.isfinite, state.tolist()))


class CompiledRun:
    """A learner past its warm-up on compiled environments, continuing from their present states.

    `reset` must have been called in the environments. `dynamics` are what `find_dynamics` returned for
    them, in the same order.
    """

    def __init__(
        self, model: "OnlineAlgorithm", envs: list[gym.Env], dynamics: list[CompiledDynamics]
    ) -> None:
        self.model: Any = model
        self.envs, self.dynamics = envs, dynamics
        self.monitors = [find_monitor(env) for env in envs]
        self._is_handed_over = (
            False  # whether the environments and their generators are in step with this run
        )
        self.starts = [StartBlock(one.env, STARTS) for one in dynamics]
        n = len(envs)
        clock = np.zeros((n, compiled_rollout.N_CLOCK), dtype=np.int64)
        clock[:, compiled_rollout.ELAPSED] = [get_elapsed_steps(env) for env in envs]
        clock[:, compiled_rollout.TIME_LIMIT] = [one.time_limit or NO_LIMIT for one in dynamics]
        played = np.zeros((n, 2))
        played[:, compiled_rollout.RETURN] = [sum(one.rewards) if one else 0.0 for one in self.monitors]
        self.cursor = np.zeros(compiled_rollout.N_CURSOR, dtype=np.int64)
        self.cursor[compiled_rollout.ROUNDED] = n > 1
        self.rollout = compiled_rollout.Rollout(
            # read again: a callback may have changed them during the warm-up
            parameters=np.array([one.env.refresh_parameters() for one in dynamics]),
            starts=np.array([block.rows for block in self.starts]),
            cursor=self.cursor,
            clock=clock,
            played=played,
            state=np.array([one.env.get_state() for one in dynamics]),
            observation=np.array(model._last_obs, dtype=np.float64).reshape(n, -1),
            episodes=np.zeros((n * STARTS, 4)),
        )

    def advance(self, n_steps: int) -> list[dict[str, Any]]:
        """Make `n_steps` steps; return an info with the Monitor's record of each episode that ended."""
        infos: list[dict[str, Any]] = []
        n, cursor, made = len(self.envs), self.cursor, 0
        step, reset = self.dynamics[0].step, self.dynamics[0].reset
        while made < n_steps:
            self._draw_starts()
            cursor[compiled_rollout.EPISODES] = 0
            made_now = call_compiled(self.learner.play, step, reset, self.rollout, n_steps - made)
            ended = self.rollout.episodes[: cursor[compiled_rollout.EPISODES]].tolist()
            infos += [self._record(int(env), *episode) for env, *episode in ended]
            if made_now < 0:  # an error; the step is counted for all environments
                made += int(cursor[compiled_rollout.FAILED_AFTER])
                self.model.num_timesteps += -(-made // n) * n
            env = cursor[compiled_rollout.ENV]
            reward = self.rollout.played[env, compiled_rollout.REWARD]
            self.learner.finish_call(made_now, self.rollout.observation[env], float(reward))
            made += made_now
        for monitor in filter(None, self.monitors):
            monitor.total_steps += n_steps // n
        return infos

    @property
    def rewards(self) -> NDArray[np.float32]:
        """The last reward of each environment, of shape (n_envs,)."""
        return self.rollout.played[:, compiled_rollout.REWARD].astype(np.float32)

    @property
    def learner(self) -> Any:
        """The model's present learner; a callback may have replaced it."""
        return self.model.learner

    def hand_over(self) -> None:
        """Bring the environments, their Monitors and generators to the state of this run.

        The training can continue from there with either, with the same result.
        """
        rollout = self.rollout
        for e, env in enumerate(self.envs):
            clock = rollout.clock[e]
            if clock[compiled_rollout.BEGINNING]:
                # The learner's next random draw begins the episode; nothing else has happened.
                self.learner.begin(e, rollout.observation[e])
                clock[compiled_rollout.BEGINNING] = 0
                self.cursor[compiled_rollout.ENV] = (e + 1) % len(self.envs)
            if _is_finite(rollout.state[e]):
                total = float(rollout.played[e, compiled_rollout.RETURN])
                hand_back(env, rollout.state[e], int(clock[compiled_rollout.ELAPSED]), total)
            self.starts[e].rewind_to(int(clock[compiled_rollout.STARTS_USED]))
            self.model.next_actions[e] = self.learner.next_action(e)
        self._is_handed_over = True

    def show(self) -> None:
        """Bring the states of the environments, and what their wrappers count, to those of this run.

        This takes a tenth of the time of `hand_over`, as the generators stay ahead: they have drawn the
        next `STARTS` starts of episodes.
        """
        rollout = self.rollout
        for e, env in enumerate(self.envs):
            if _is_finite(rollout.state[e]):
                self.dynamics[e].env._keep_state(rollout.state[e].copy())
                total = float(rollout.played[e, compiled_rollout.RETURN])
                restore_counters(env, int(rollout.clock[e, compiled_rollout.ELAPSED]), total)

    def take_back(self) -> None:
        """Continue from the environments as they are after `show`: a callback may have changed them."""
        rollout = self.rollout
        for e, env in enumerate(self.envs):
            inner, block, monitor = self.dynamics[e].env, self.starts[e], self.monitors[e]
            row, clock = rollout.state[e], rollout.clock[e]
            rollout.parameters[e] = inner.refresh_parameters()
            state, elapsed = inner.get_state(), get_elapsed_steps(env)
            was_stepped = elapsed != clock[compiled_rollout.ELAPSED]  # or reset
            same = not was_stepped and state.tobytes() == row.tobytes()
            if (same and inner.np_random is block.generator) or not _is_finite(row):
                continue
            row[:] = state
            if was_stepped:
                clock[compiled_rollout.ELAPSED] = elapsed
                rollout.played[e, compiled_rollout.RETURN] = sum(monitor.rewards) if monitor else 0.0
            if not (self._is_handed_over or block.is_current()):
                self.starts[e] = StartBlock(inner, STARTS)
                rollout.starts[e] = self.starts[e].rows
                clock[compiled_rollout.STARTS_USED] = 0

    def _draw_starts(self) -> None:
        """Provide episode starts; draw new ones if they are used up or the generators were rewound."""
        used = self.rollout.clock[:, compiled_rollout.STARTS_USED]
        for e, dynamics in enumerate(self.dynamics):
            if used[e] == STARTS:
                self.starts[e].rewind_to(STARTS)
            if used[e] == STARTS or self._is_handed_over:
                self.starts[e] = StartBlock(dynamics.env, STARTS)
                self.rollout.starts[e] = self.starts[e].rows
                used[e] = 0
        self._is_handed_over = False

    def _record(self, env: int, total: float, steps: float, terminated: float) -> dict[str, Any]:
        monitor = self.monitors[env]
        seconds, length = time.time() - monitor.t_start if monitor else 0.0, int(steps)
        episode = episode_record(total, length, seconds)
        if monitor:
            monitor.episode_returns.append(total)
            monitor.episode_lengths.append(length)
            monitor.episode_times.append(seconds)
            if monitor.results_writer:
                monitor.results_writer.write_row(episode)
        return {"episode": episode, "TimeLimit.truncated": not terminated}
