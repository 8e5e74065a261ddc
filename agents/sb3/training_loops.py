"""The loops of training: one environment stepped directly, several as a VecEnv, and a compiled one.

The first two call the callbacks as SB3's own algorithms do, after every step of the environment; the
first leaves out steps at which no callback does anything, and counts them. The third has environment,
Q-learning and annealing in one compiled piece: it makes the same steps as the first, draw by draw, and
calls the callbacks between chunks.
"""

import time
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from oda_rl.agents import compiled_rollout
from oda_rl.agents.learner import BadTransitionError, DivergenceError
from oda_rl.agents.sb3.callback_schedule import ALWAYS, NEVER, calls_until_due, count_calls
from oda_rl.agents.sb3.gymnasium_vector import BEGINS, WAITS
from oda_rl.envs.dynamics import (
    CompiledDynamics,
    StartBlock,
    find_dynamics,
    find_monitor,
    get_elapsed_steps,
    hand_back,
)

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Starts of episodes drawn at once
STARTS = 256
# Steps between two returns to Python, at most, if no callback is due; and if a log is written
UNWATCHED, LOGGED = 50_000, 20_000
NO_LIMIT = np.iinfo(np.int64).max


def train(
    model: "OnlineAlgorithm",
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
    callback_every: int,
) -> None:
    """Step the model's environment until `total_timesteps` are made, by the quickest loop for it.

    What the learner raises then begins with the number of the step; the learner is as it was before.
    """
    try:
        _train(model, total_timesteps, callback, log_interval, callback_every)
    except (BadTransitionError, DivergenceError) as error:
        raise type(error)(f"step {model.num_timesteps:,}: {error}") from error


def _train(
    model: "OnlineAlgorithm",
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
    callback_every: int,
) -> None:
    env: Any = model.env
    if type(env) is not DummyVecEnv or env.num_envs > 1:  # what wraps them must step them as a whole
        run_vectorised(model, env, total_timesteps, callback, log_interval)
        return
    single, dynamics = env.envs[0], None
    if model.learner.has_loop and callback_every > 1:
        dynamics = find_dynamics(single)
        if dynamics is not None and not model.observations.fits(dynamics.observation_size):
            dynamics = None
    scaling = dynamics is not None
    go_on = run_single(model, single, total_timesteps, callback, log_interval, scaling)
    if dynamics is not None and go_on:
        run = CompiledRun(model, single, dynamics)
        run_compiled(model, run, total_timesteps, callback, log_interval, callback_every)


def run_single(
    model: "OnlineAlgorithm",
    env: gym.Env,
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
    only_scaling: bool = False,
) -> bool:
    """Step one environment directly: the vectorised one around it costs as much as all the rest.

    With `only_scaling` it ends with the learner's warm-up. Returns whether the callbacks let it go on.
    """
    action = model.next_actions[0]
    encode, batch = model.observations.encode, model.observations.batch
    callback.on_rollout_start()
    missed, due = 0, calls_until_due(callback, model.num_timesteps)
    go_on = True
    while go_on and not model.stopping and model.num_timesteps < total_timesteps:
        if only_scaling and model.learner.is_scaled:
            break
        taken = model.decode(0, action)
        observation, reward, terminated, truncated, info = env.step(taken)
        ended = terminated or truncated
        model.num_timesteps += 1
        action = model.learner.step(0, encode(observation), float(reward), terminated, ended)
        if ended:
            info["TimeLimit.truncated"] = truncated and not terminated
            info["terminal_observation"] = observation
            observation, _ = env.reset()
            action = model.learner.begin(0, encode(observation))
        model.next_actions[0] = action
        model._last_obs = batch(observation)
        if missed + 1 < due and not (ended or model.stopping) and model.num_timesteps < total_timesteps:
            missed += 1
            continue
        count_calls(callback, missed)
        step = {
            "actions": np.array([taken]),
            "new_obs": model._last_obs,
            "rewards": np.array([reward], dtype=np.float32),
            "dones": np.array([ended]),
            "infos": [info],
        }
        go_on = call_back(model, callback, log_interval, step)
        missed, due = 0, due and calls_until_due(callback, model.num_timesteps)
    count_calls(callback, missed)  # the warm-up may end between two calls
    return go_on


def run_vectorised(
    model: "OnlineAlgorithm",
    env: VecEnv,
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
) -> None:
    """Step several environments, which take turns at the learner."""
    encode, encode_many = model.observations.encode, model.observations.encode_many
    callback.on_rollout_start()
    go_on = True
    while go_on and not model.stopping and model.num_timesteps < total_timesteps:
        taken = np.array([model.decode(e, action) for e, action in enumerate(model.next_actions)])
        observations: Any
        observations, rewards, dones, infos = env.step(taken)
        rows = encode_many(observations, model.n_envs)
        model.num_timesteps += model.n_envs
        for e in range(model.n_envs):
            if infos[e].get(BEGINS):
                model.next_actions[e] = model.learner.begin(e, rows[e])
                continue
            ended, waits = bool(dones[e]), infos[e].get(WAITS, False)
            terminated = ended and not infos[e].get("TimeLimit.truncated", False)
            seen = encode(infos[e]["terminal_observation"]) if ended else rows[e]
            action = model.learner.step(e, seen, float(rewards[e]), terminated, ended)
            model.next_actions[e] = model.learner.begin(e, rows[e]) if ended and not waits else action
        model._last_obs = observations
        step = {
            "actions": taken,
            "new_obs": observations,
            "rewards": rewards,
            "dones": dones,
            "infos": infos,
        }
        go_on = call_back(model, callback, log_interval, step)


def call_back(
    model: "OnlineAlgorithm", callback: BaseCallback, log_interval: int | None, step: dict[str, Any]
) -> bool:
    """Call the callbacks after a step, count the episodes that ended in it, and log when it is time.

    The episodes are counted first, so that a model that a callback saves is whole. Returns whether the
    callbacks let the training go on.
    """
    before, n_ended = model._episode_num, int(step["dones"].sum())
    if n_ended:
        model._update_info_buffer(step["infos"], step["dones"])
        model._episode_num += n_ended
    callback.update_locals(step)
    go_on = callback.on_step()
    if n_ended:
        callback.on_rollout_end()
        if log_interval and before // log_interval < model._episode_num // log_interval:
            model.dump_logs()
        callback.on_rollout_start()
    return go_on


class CompiledRun:
    """A learner past its warm-up on a compiled environment, from where both stand.

    In the environment `reset` has been called; `dynamics` is what `find_dynamics` found in it.
    """

    def __init__(self, model: "OnlineAlgorithm", env: gym.Env, dynamics: CompiledDynamics) -> None:
        self.model: Any = model
        self.env = env
        self.dynamics = dynamics
        self.monitor = find_monitor(env)
        begun = sum(self.monitor.rewards) if self.monitor else 0.0
        self._stands = False  # whether the environment stands where this does, and its generator
        self.starts = StartBlock(dynamics.env, STARTS)
        self.rollout = compiled_rollout.Rollout(
            parameters=dynamics.parameters,
            starts=self.starts.rows,
            clock=np.zeros(compiled_rollout.N_CLOCK, dtype=np.int64),
            played=np.array([0.0, begun]),
            state=dynamics.env.get_state(),
            observation=np.array(model._last_obs, dtype=np.float64).reshape(-1),
            returns=np.zeros(STARTS),
            lengths=np.zeros(STARTS, dtype=np.int64),
        )
        self.rollout.clock[compiled_rollout.ELAPSED] = get_elapsed_steps(env)

    def advance(self, n_steps: int) -> list[dict[str, Any]]:
        """Make `n_steps`; returns an info for each episode that ended, as the Monitor gives it."""
        infos: list[dict[str, Any]] = []
        dynamics, made = self.dynamics, 0
        limit = NO_LIMIT if dynamics.time_limit is None else dynamics.time_limit
        while made < n_steps:
            clock = self.rollout.clock
            used_up = clock[compiled_rollout.STARTS_USED] == STARTS
            if used_up:
                self.starts.rewind_to(STARTS)
            if used_up or self._stands:
                self.starts = StartBlock(dynamics.env, STARTS)
                self.rollout = self.rollout._replace(starts=self.starts.rows)
                clock[compiled_rollout.STARTS_USED] = 0
                self._stands = False
            clock[compiled_rollout.EPISODES] = 0
            made_now = self.learner.play(
                dynamics.step, dynamics.reset, self.rollout, limit, n_steps - made
            )
            infos += [self._record(i) for i in range(clock[compiled_rollout.EPISODES])]
            if made_now < 0:
                self.model.num_timesteps += made + int(clock[compiled_rollout.FAILED_AFTER])
            self.learner.finish_call(made_now, self.rollout.observation, self.reward)
            made += made_now
        if self.monitor:
            self.monitor.total_steps += n_steps
        return infos

    @property
    def reward(self) -> float:
        """The last one."""
        return float(self.rollout.played[compiled_rollout.REWARD])

    @property
    def learner(self) -> Any:
        """What learns; a callback may have replaced it."""
        return self.model.learner

    def hand_over(self) -> None:
        """Let the environment, its Monitor and its generator stand where this stands.

        They, or this, can go on from here: it is the same.
        """
        rollout = self.rollout
        if rollout.clock[compiled_rollout.BEGINNING]:
            # The draw that begins the episode is the learner's next; nothing else has happened.
            self.learner.begin(0, rollout.observation)
            rollout.clock[compiled_rollout.BEGINNING] = 0
        elapsed = int(rollout.clock[compiled_rollout.ELAPSED])
        total = float(rollout.played[compiled_rollout.RETURN])
        hand_back(self.env, rollout.state, elapsed, total)
        self.starts.rewind_to(int(rollout.clock[compiled_rollout.STARTS_USED]))
        self.model.next_actions[0] = self.learner.next_action(0)
        self._stands = True

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
    run: CompiledRun,
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
    callback_every: int,
) -> None:
    """Train in chunks of `callback_every` steps, with a call of the callbacks after each.

    The callbacks count every step: one that acts every so many calls acts at the right step if that is a
    multiple of `callback_every`. If all of them tell when they are due next, they are called then.
    `dones` and `infos` have an entry for each episode of the chunk.
    """
    first = model.num_timesteps - callback.n_calls
    # Each return to Python costs as much as a hundred steps.
    longest = max(callback_every, LOGGED if model.logger.output_formats else UNWATCHED)
    go_on, model.run = True, run
    try:
        while go_on and not model.stopping and model.num_timesteps < total_timesteps:
            chunk = _chunk(model, callback, first, callback_every, longest)
            chunk = min(chunk, total_timesteps - model.num_timesteps)
            infos = run.advance(chunk)
            model.num_timesteps += chunk
            model.next_actions[0] = model.learner.next_action(0)
            space: Any = model.observation_space
            seen = run.rollout.observation.astype(space.dtype)
            model._last_obs = seen.reshape(1, *space.shape)
            step = {
                "actions": np.array([model.decode(0, model.next_actions[0])]),
                "new_obs": model._last_obs,
                "rewards": np.array([run.reward], dtype=np.float32),
                "dones": np.ones(len(infos), dtype=bool) if infos else np.zeros(1, dtype=bool),
                "infos": infos or [{}],
            }
            count_calls(callback, chunk - 1)
            go_on = call_back(model, callback, log_interval, step)
    finally:
        model.sync_env()
        model.run = None


def _chunk(
    model: "OnlineAlgorithm", callback: BaseCallback, first: int, callback_every: int, longest: int
) -> int:
    """Steps until the callbacks are to be called: when one is due, or every so often."""
    until_due = calls_until_due(callback, model.num_timesteps)
    if until_due == ALWAYS:
        known = calls_until_due(callback, model.num_timesteps, always=NEVER)
        return min(known, callback_every - (model.num_timesteps - first) % callback_every)
    if until_due == NEVER:
        return longest - (model.num_timesteps - first) % longest
    return min(until_due, longest)
