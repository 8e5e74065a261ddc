"""The training loops: one environment stepped directly, several as a VecEnv, and a compiled loop.

The first two call the callbacks after every step of the environment, as SB3's own algorithms do; the
first leaves out the calls in which no callback does anything, but counts them. The third runs
environments, learning and annealing in compiled code. It makes the same steps as the others, with the
same random draws, and calls the callbacks between chunks of steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from oda_rl.agents.learner import BadTransitionError, DivergenceError
from oda_rl.agents.sb3.callback_schedule import (
    ALWAYS,
    NEVER,
    calls_until_due,
    count_calls,
    may_use_envs,
)
from oda_rl.agents.sb3.compiled_run import CompiledRun, find_dynamics_of_all
from oda_rl.agents.sb3.failures import find_bad_transition
from oda_rl.agents.sb3.gymnasium_vector import BEGINS, WAITS
from oda_rl.agents.sb3.normalization import find_original_rewards
from oda_rl.envs.compiled import CompiledEnv

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Most steps between two returns to Python if no callback is due: without logs, and with logs
UNWATCHED, LOGGED = 50_000, 20_000


def find_compiled(env: Any) -> list[CompiledEnv]:
    """The environments with compiled dynamics, without their wrappers, if they are in this process."""
    inner = [one.unwrapped for one in env.envs] if type(env) is DummyVecEnv else []
    return [one for one in inner if isinstance(one, CompiledEnv)]


@dataclass(frozen=True)
class Training:
    """A call of `learn`: steps the model's environment until `total_timesteps` are made.

    Messages of errors that the learner raises are prefixed with the number of the step; the learner is
    then as it was before that step.
    """

    model: "OnlineAlgorithm"
    total_timesteps: int
    callback: BaseCallback
    log_interval: int | None
    callback_every: int

    def run(self) -> None:
        """Train; if a callback sets another environment, continue in that."""
        model, env, go_on = self.model, None, True
        try:
            while go_on and model.env is not env:
                env = model.env
                if model._last_obs is None:
                    model._begin()
                go_on = self._run_in(env)
        except (BadTransitionError, DivergenceError) as error:
            raise type(error)(f"step {model.num_timesteps:,}: {error}") from error
        except (AttributeError, TypeError, ValueError) as error:
            found = find_bad_transition(error)
            if found is None:
                raise
            raise BadTransitionError(f"step {model._step_begun:,}: {found}") from error

    def _run_in(self, env: Any) -> bool:
        """Train in this environment, with the fastest loop for it.

        Returns whether the callbacks let the training continue, as all loops do.
        """
        model = self.model
        direct = type(env) is DummyVecEnv  # a wrapper around the VecEnv must step it as a whole
        dynamics = None
        if direct and model.learner.has_loop and self.callback_every > 1:
            dynamics = find_dynamics_of_all(env.envs)
            if dynamics is not None and not model.observations.fits(dynamics[0].observation_size):
                dynamics = None
        stepped = self.run_single if direct and env.num_envs == 1 else self.run_vectorised
        go_on = stepped(env, dynamics is not None)
        if dynamics is not None and go_on and self.is_under_way(env):
            go_on = self.run_compiled(CompiledRun(model, env.envs, dynamics))
        return go_on

    def is_under_way(self, env: Any, only_scaling: bool = False) -> bool:
        """Whether to make more steps in this environment; with `only_scaling`, only in the warm-up."""
        model = self.model
        if only_scaling and model.learner.is_scaled:
            return False
        return model.env is env and not model.stopping and model.num_timesteps < self.total_timesteps

    def run_single(self, envs: Any, only_scaling: bool) -> bool:
        """Step one environment directly: the vectorised one around it takes as long as all the rest.

        With `only_scaling` the loop ends with the learner's warm-up.
        """
        model, callback, total_timesteps = self.model, self.callback, self.total_timesteps
        env = envs.envs[0]
        encode, batch = model.observations.encode, model.observations.batch
        compiled, original = find_compiled(envs), find_original_rewards(envs)
        callback.on_rollout_start()
        missed, due = 0, calls_until_due(callback, model.num_timesteps)
        go_on = True
        while go_on and self.is_under_way(envs, only_scaling):
            taken = model.decode(0, model.next_actions[0])
            model._step_begun = model.num_timesteps + 1
            observation, reward, terminated, truncated, info = env.step(taken)
            model.num_timesteps += 1
            # environments may return arrays, numbers or None, which a VecEnv accepts, too
            terminated, ended = bool(terminated), bool(terminated or truncated)
            paid = float(reward if original is None else original(reward))
            action = model.learner.step(0, encode(observation), paid, terminated, ended)
            if ended:
                info["terminal_observation"] = observation
                observation, _ = env.reset()
                action = model.learner.begin(0, encode(observation))
            model.next_actions[0] = action
            is_last = ended or model.stopping or model.num_timesteps >= total_timesteps
            is_due = is_last or missed + 1 >= due
            # callbacks may store observations, and the environment may return the same array again
            model._last_obs = batch(observation, copy=is_due)
            if not is_due:
                missed += 1
                continue
            count_calls(callback, missed)
            info["TimeLimit.truncated"] = ended and not terminated
            rewards = np.array([reward], dtype=np.float32)
            go_on = self.call_back(np.array([taken]), rewards, np.array([ended]), [info], compiled)
            missed, due = 0, due and calls_until_due(callback, model.num_timesteps)
        count_calls(callback, missed)  # the warm-up may end between two calls
        return go_on

    def run_vectorised(self, env: VecEnv, only_scaling: bool) -> bool:
        """Step several environments, which use the learner in turn; otherwise as `run_single`."""
        model = self.model
        encode, encode_many = model.observations.encode, model.observations.encode_many
        compiled, original = find_compiled(env), find_original_rewards(env)
        self.callback.on_rollout_start()
        go_on = True
        while go_on and self.is_under_way(env, only_scaling):
            decoded = [model.decode(e, action) for e, action in enumerate(model.next_actions)]
            taken = np.array(decoded, dtype=model.action_space.dtype)  # some environments check it
            observations: Any
            model._step_begun = model.num_timesteps + model.n_envs
            observations, rewards, dones, infos = env.step(taken)
            model.num_timesteps += model.n_envs
            rows = encode_many(observations, model.n_envs)
            paid = rewards if original is None else original(rewards)
            for e in range(model.n_envs):
                if infos[e].get(BEGINS):
                    model.next_actions[e] = model.learner.begin(e, rows[e])
                    continue
                ended, waits = bool(dones[e]), infos[e].get(WAITS, False)
                terminated = ended and not infos[e].get("TimeLimit.truncated", False)
                seen = encode(infos[e]["terminal_observation"]) if ended else rows[e]
                action = model.learner.step(e, seen, float(paid[e]), terminated, ended)
                model.next_actions[e] = (
                    model.learner.begin(e, rows[e]) if ended and not waits else action
                )
            model._last_obs = observations
            go_on = self.call_back(taken, rewards, dones, infos, compiled)
        return go_on

    def call_back(
        self,
        actions: NDArray[Any],
        rewards: NDArray[Any],
        dones: NDArray[Any],
        infos: list[dict[str, Any]],
        compiled: Sequence[CompiledEnv] = (),
    ) -> bool:
        """Count the episodes that ended in a step, call the callbacks after it, and log if it is time.

        Callbacks find the arguments by these names, as with SB3's own algorithms. The episodes are
        counted first, so that a model saved by a callback is complete. Parameters that a callback
        changed in `compiled` environments hold from the next step on.
        """
        model, callback = self.model, self.callback
        before, n_ended = model._episode_num, int(dones.sum())
        if n_ended:
            model._update_info_buffer(infos, dones)
            model._episode_num += n_ended
        step = {"actions": actions, "new_obs": model._last_obs, "rewards": rewards}
        callback.update_locals(step | {"dones": dones, "infos": infos})
        go_on = callback.on_step()
        if n_ended:
            callback.on_rollout_end()
            every = self.log_interval
            if every and before // every < model._episode_num // every:
                model.dump_logs()
            callback.on_rollout_start()
        for env in compiled:
            env.refresh_parameters()
        return go_on

    def run_compiled(self, run: CompiledRun) -> bool:
        """Train in chunks of `callback_every` calls, of which only the last is made.

        The callbacks count every call. One that acts at regular intervals therefore acts at the right
        call if its interval is a multiple of `callback_every`. If it is known of all callbacks when they
        are due next, they are called then instead. `dones` and `infos` have an entry for each episode
        that ended in the chunk, or one for each environment if there is none. Callbacks find the
        environments in their present states, and may change states and parameters.
        """
        model, n = self.model, self.model.n_envs
        space: Any = model.observation_space
        env, go_on, model.run = model.env, True, run
        shown = may_use_envs(self.callback)
        try:
            while go_on and self.is_under_way(env):
                left = self.total_timesteps - model.num_timesteps
                calls = min(self._chunk(), -(-left // n))
                infos = run.advance(calls * n)
                model.num_timesteps += calls * n
                model.next_actions = [model.learner.next_action(e) for e in range(n)]
                model._last_obs = run.rollout.observation.astype(space.dtype).reshape(n, *space.shape)
                taken = np.array([model.decode(e, a) for e, a in enumerate(model.next_actions)])
                rewards, dones = run.rewards, np.full(len(infos) or n, bool(infos))
                infos = infos or [{"TimeLimit.truncated": False} for _ in range(n)]
                count_calls(self.callback, calls - 1, n)
                if shown:
                    run.show()
                go_on = self.call_back(taken, rewards, dones, infos)
                if shown:
                    run.take_back()
        finally:
            model.sync_env()
            model.run = None
        return go_on

    def _chunk(self) -> int:
        """Calls in the next chunk: until a callback is due, or until a multiple of `callback_every`."""
        model, callback = self.model, self.callback
        steps, n, made = model.num_timesteps, model.n_envs, callback.n_calls
        # Each return to Python takes as long as a hundred steps.
        longest = max(self.callback_every, (LOGGED if model.logger.output_formats else UNWATCHED) // n)
        until_due = calls_until_due(callback, steps, n)
        if until_due == ALWAYS:
            known = calls_until_due(callback, steps, n, always=NEVER)
            return min(known, self.callback_every - made % self.callback_every)
        if until_due == NEVER:
            return longest - made % longest
        return min(until_due, longest)
