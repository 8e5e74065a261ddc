"""SB3 callbacks that keep what has been learned: at regular intervals, or when it is best."""

import io
import math
import warnings
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from oda_rl._validation import check_at_least
from oda_rl.agents.sb3.callback_schedule import NEVER
from oda_rl.storage import written_whole

if TYPE_CHECKING:
    from oda_rl.inspect.model import View


class SnapshotCallback(BaseCallback):
    """Keep snapshots of what an agent has learned, to draw or animate them after the training.

    There are none of the warm-up, in which there is no codebook yet.

    Parameters
    ----------
    every : int, default=2000
        Environment steps between two snapshots, also on an environment with compiled dynamics.
    stretch : float, default=1.0
        Factor in [1, 2) by which the interval grows after each snapshot. With 1.05, for example, there
        are more snapshots of the beginning, in which the codebook grows.
    verbose : int, default=0
        Not used.

    Attributes
    ----------
    snapshots : list of (int, dict)
        Environment steps, and the state of the learner at that time.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> from oda_rl.agents.callbacks import SnapshotCallback
    >>> snapshots = SnapshotCallback(every=1000)
    >>> model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0).learn(4_000, callback=snapshots)
    >>> [steps for steps, _ in snapshots.snapshots]
    [2000, 3000, 4000]
    """

    def __init__(self, every: int = 2000, stretch: float = 1.0, verbose: int = 0) -> None:
        check_at_least(1, every=every)
        if not 1.0 <= stretch < 2.0:
            raise ValueError(f"stretch must be in [1, 2), got {stretch}.")
        super().__init__(verbose)
        self.every, self.stretch = every, stretch
        self.snapshots: list[tuple[int, Any]] = []
        self._interval = float(every)
        self._next = every

    def due_at(self, num_timesteps: int) -> int:
        """Return the number of steps at which the next snapshot is due."""
        return self._next

    def _on_training_start(self) -> None:
        if self.num_timesteps == 0:
            self.snapshots.clear()
            self._interval = float(self.every)
        self._next = self.num_timesteps + math.ceil(self._interval)

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._interval *= self.stretch
            self._next = self.num_timesteps + math.ceil(self._interval)
            self._keep()
        return True

    def _on_training_end(self) -> None:
        self.num_timesteps = self.model.num_timesteps
        if not self.snapshots or self.snapshots[-1][0] != self.num_timesteps:
            self._keep()

    def _keep(self) -> None:
        learner: Any = self.model.learner  # type: ignore[attr-defined]
        if learner.is_scaled:
            self.snapshots.append((self.num_timesteps, learner.get_state(under_way=False)))

    def views(self) -> "list[View]":
        """The view of the agent at each snapshot, for `oda_rl.plotting.animate_codebook`."""
        from oda_rl.agents.explain.agent_view import restore, view_of_agent

        if not self.snapshots:  # there may be no model yet
            return []
        model: Any = self.model
        return [view_of_agent(model, restore(model, state), steps) for steps, state in self.snapshots]


class KeepBestCallback(EvalCallback):
    """An `EvalCallback` of SB3 that restores the model's best greedy policy at the end of the training.

    Of equally good policies the latest is kept. The steps of the evaluation are not counted as steps of
    the training. Everything that had been learned at that time is restored, and learning can continue
    from there. Used again for the same model, the callback compares with all evaluations before; for
    another model it starts anew.

    If evaluations cannot be written to `log_path`, as on a full disk, there is one warning, and the
    training continues. The next evaluation writes them, too.

    Parameters
    ----------
    eval_env : gymnasium.Env or VecEnv
        Another environment than the one used for the training.
    n_eval_episodes : int, default=20
        Episodes of each evaluation.
    eval_freq : int, default=10_000
        Calls of the callback (steps of every environment) between evaluations.
    restore : bool, default=True
        Whether to restore the best policy at the end; if False, call `give_back` to restore it.
    **options
        As for `EvalCallback`.

    Attributes
    ----------
    best_timesteps : int
        Steps of the training at which the kept policy was evaluated.
    best : dict or None
        The state of the learner at that time.
    """

    def __init__(
        self,
        eval_env: gym.Env | VecEnv,
        n_eval_episodes: int = 20,
        eval_freq: int = 10_000,
        restore: bool = True,
        **options: Any,
    ) -> None:
        options.setdefault("verbose", 0)
        super().__init__(eval_env, n_eval_episodes=n_eval_episodes, eval_freq=eval_freq, **options)
        self.restore = restore
        self.best_timesteps = 0
        self.best: dict[str, Any] | None = None
        self._evaluated: tuple[Any, bool] | None = None  # the model, and whether it reads states
        self._is_warned = False

    def _init_callback(self) -> None:
        self._follow_model()
        with warnings.catch_warnings():  # the evaluation may use another kind of VecEnv
            warnings.filterwarnings("ignore", "Training and eval env are not of the same type")
            super()._init_callback()

    def _follow_model(self) -> None:
        """Forget all evaluations if the model is another, or if its observations are no states any more.

        The learner of a table then gave way to another kind, which cannot take over its state.
        """
        model: Any = self.model
        found, before = (model, model.observations.is_table), self._evaluated
        self._evaluated = found
        if before is None or (before[0] is model and before[1] <= found[1]):
            return
        self.best, self.best_timesteps = None, 0
        self.best_mean_reward = self.last_mean_reward = -np.inf
        self.evaluations_timesteps, self.evaluations_results = [], []
        self.evaluations_length, self.evaluations_successes = [], []

    @property
    def due_every(self) -> int:
        """Calls from one evaluation to the next."""
        return self.eval_freq if self.eval_freq > 0 else NEVER

    def _on_step(self) -> bool:
        self._follow_model()
        place, file = self.log_path, io.BytesIO()
        self.log_path = file if place else None  # type: ignore[assignment]
        try:
            go_on = super()._on_step()
        finally:
            self.log_path = place
        if file.tell():
            self._write(f"{place}.npz", file.getvalue())
        evaluated = self.eval_freq > 0 and self.n_calls % self.eval_freq == 0
        if evaluated and self.last_mean_reward >= self.best_mean_reward > -np.inf:
            self.best = self.model.learner.get_state(under_way=False)  # type: ignore[attr-defined]
            self.best_timesteps = self.num_timesteps
        return go_on

    def _write(self, place: str, content: bytes) -> None:
        """Write all evaluations; SB3 itself would leave an incomplete file when it is killed."""
        try:
            with written_whole(place) as path:
                path.write_bytes(content)
        except OSError as error:
            if not self._is_warned:
                message = f"evaluations are not written to {place}: {error.strerror or error}."
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            self._is_warned = True

    def _on_training_end(self) -> None:
        super()._on_training_end()
        if self.restore:
            self.give_back()

    def give_back(self) -> None:
        """Restore the model's best policy so far, if there is one."""
        if self.best is not None:
            self._follow_model()
        if self.best is not None:
            self.model.learner.set_state(self.best)  # type: ignore[attr-defined]
            self.model._last_obs = None  # the current episode was not played by this policy
