"""The third loop of training: environment, Q-learning and annealing in one compiled piece.

It makes the same steps as the loop of `stepping`, draw by draw, and calls the callbacks between chunks.
"""

import time
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

from oda_rl.agents import compiled_rollout as playing
from oda_rl.agents.sb3.callback_schedule import ALWAYS, NEVER, calls_until_look, count_calls
from oda_rl.agents.sb3.training_loops import finish_episodes
from oda_rl.envs.dynamics import CompiledDynamics, StartBlock, get_elapsed_steps, hand_back

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Starts of episodes drawn at once
STARTS = 256
# Steps between two returns to Python, at most, if nobody looks; and if there is a log to be written
UNWATCHED, LOGGED = 50_000, 20_000
NO_LIMIT = np.iinfo(np.int64).max


class CompiledRun:
    """A learner on a compiled environment, from where the environment and the learner stand.

    Parameters
    ----------
    model : OnlineAlgorithm
        Its learner must be past its warm-up.
    env : gymnasium.Env
        The environment, in which `reset` has been called.
    dynamics : CompiledDynamics
        What `find_dynamics` found in it.
    """

    def __init__(self, model: "OnlineAlgorithm", env: gym.Env, dynamics: CompiledDynamics) -> None:
        self.learner: Any = model.learner
        self.env = env
        self.dynamics = dynamics
        self.monitor = _find_monitor(env)
        begun = sum(self.monitor.rewards) if self.monitor else 0.0
        self.starts = StartBlock(dynamics.env, STARTS)
        self.rollout = playing.Rollout(
            parameters=dynamics.parameters,
            starts=self.starts.rows,
            clock=np.zeros(playing.N_CLOCK, dtype=np.int64),
            played=np.array([0.0, begun]),
            state=dynamics.env.get_state(),
            observation=np.array(model._last_obs[0], dtype=np.float64),  # type: ignore[index]
            returns=np.zeros(STARTS),
            lengths=np.zeros(STARTS, dtype=np.int64),
        )
        self.rollout.clock[playing.ELAPSED] = get_elapsed_steps(env)

    def advance(self, n_steps: int) -> list[dict[str, Any]]:
        """Make `n_steps`; returns an info for each episode that ended, as the Monitor gives it."""
        infos: list[dict[str, Any]] = []
        dynamics, made = self.dynamics, 0
        limit = NO_LIMIT if dynamics.time_limit is None else dynamics.time_limit
        while made < n_steps:
            clock = self.rollout.clock
            if clock[playing.STARTS_USED] == STARTS:
                self.starts.rewind_to(STARTS)
                self.starts = StartBlock(dynamics.env, STARTS)
                self.rollout = self.rollout._replace(starts=self.starts.rows)
                clock[playing.STARTS_USED] = 0
            clock[playing.EPISODES] = 0
            made_now = self.learner.play(
                dynamics.step, dynamics.reset, self.rollout, limit, n_steps - made
            )
            infos += [self._record(i) for i in range(clock[playing.EPISODES])]
            self.learner.finish_call(made_now, self.rollout.observation, self.reward)
            made += made_now
        if self.monitor:
            self.monitor.total_steps += n_steps
        return infos

    @property
    def reward(self) -> float:
        """The last one."""
        return float(self.rollout.played[playing.REWARD])

    def hand_over(self) -> None:
        """Let the environment, its Monitor and its generator go on from here, step by step."""
        rollout = self.rollout
        if rollout.clock[playing.BEGINNING]:
            # The draw that begins the episode is the learner's next; nothing else has happened.
            self.learner.begin(0, rollout.observation)
            rollout.clock[playing.BEGINNING] = 0
        self.starts.rewind_to(int(rollout.clock[playing.STARTS_USED]))
        elapsed = int(rollout.clock[playing.ELAPSED])
        hand_back(self.env, rollout.state, elapsed)
        if self.monitor:
            # Only their sum and their number matter to it.
            self.monitor.rewards = (
                [float(rollout.played[playing.RETURN])] + [0.0] * (elapsed - 1) if elapsed else []
            )
            self.monitor.needs_reset = False

    def _record(self, i: int) -> dict[str, Any]:
        total, length = float(self.rollout.returns[i]), int(self.rollout.lengths[i])
        seconds = time.time() - self.monitor.t_start if self.monitor else 0.0
        episode = {"r": round(total, 6), "l": length, "t": round(seconds, 6)}
        if self.monitor:
            self.monitor.episode_returns.append(total)
            self.monitor.episode_lengths.append(length)
            self.monitor.episode_times.append(seconds)
            if self.monitor.results_writer:
                self.monitor.results_writer.write_row(episode)
        return {"episode": episode}


def run_compiled(
    model: "OnlineAlgorithm",
    env: gym.Env,
    dynamics: CompiledDynamics,
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
    callback_every: int,
) -> None:
    """Train in chunks of `callback_every` steps, with a call of the callbacks after each.

    The callbacks count every step: one that acts every so many calls acts at the right step if that is a
    multiple of `callback_every`. If all of them tell when they will look next, they are called then.
    `dones` and `infos` have an entry for each episode of the chunk.
    """
    run = CompiledRun(model, env, dynamics)
    first = model.num_timesteps - callback.n_calls
    # Each return to Python costs as much as a hundred steps: none is made if nobody looks or reads.
    longest = max(callback_every, LOGGED if model.logger.output_formats else UNWATCHED)
    go_on = True
    try:
        while go_on and model.num_timesteps < total_timesteps:
            chunk = _chunk(model, callback, first, callback_every, longest)
            chunk = min(chunk, total_timesteps - model.num_timesteps)
            infos = run.advance(chunk)
            model.num_timesteps += chunk
            model.next_actions[0] = model.learner.next_action(0)
            dtype: Any = model.observation_space.dtype
            model._last_obs = run.rollout.observation.astype(dtype)[None]
            step = {
                "actions": np.array([model.decode(0, model.next_actions[0])]),
                "new_obs": model._last_obs,
                "rewards": np.array([run.reward], dtype=np.float32),
                "dones": np.ones(len(infos), dtype=bool) if infos else np.zeros(1, dtype=bool),
                "infos": infos or [{}],
            }
            count_calls(callback, chunk - 1)
            callback.update_locals(step)
            go_on = callback.on_step()
            if infos:
                finish_episodes(model, callback, log_interval, step)
    finally:
        run.hand_over()
        model.next_actions[0] = model.learner.next_action(0)


def _chunk(
    model: "OnlineAlgorithm", callback: BaseCallback, first: int, callback_every: int, longest: int
) -> int:
    """Steps until the callbacks are to be called: when they look, or every so often."""
    until_look = calls_until_look(callback, model.num_timesteps)
    if until_look == ALWAYS:
        return callback_every - (model.num_timesteps - first) % callback_every
    if until_look == NEVER:
        return longest - (model.num_timesteps - first) % longest
    return min(until_look, longest)


def _find_monitor(env: gym.Env) -> Monitor | None:
    while isinstance(env, gym.Wrapper):
        if isinstance(env, Monitor):
            return env
        env = env.env
    return None
