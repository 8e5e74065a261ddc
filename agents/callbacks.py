"""Callbacks in SB3's style: watch the codebook, keep the best policy."""

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv


class CodebookCallback(BaseCallback):
    """Logs how the codebook grows, next to SB3's own tags.

    `oda/temperature` (squared scaled units), `oda/n_codevectors`, `oda/distortion` (running mean of the
    squared distance to the nearest codevector, squared scaled units), `oda/n_splits` and `oda/n_merges`
    (totals so far).

    Parameters
    ----------
    log_freq : int, default=1000
        Environment steps between two records. They are written with the algorithm's next log.
    verbose : int, default=0
        1 prints every finished temperature.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> from oda_rl.agents.callbacks import CodebookCallback
    >>> model = TwoTimescaleQ(env="CartPole-v1", seed=0, tensorboard_log=None)
    >>> _ = model.learn(5_000, callback=CodebookCallback())
    """

    def __init__(self, log_freq: int = 1000, verbose: int = 0) -> None:
        if log_freq < 1:
            raise ValueError(f"log_freq must be at least 1, got {log_freq}.")
        super().__init__(verbose)
        self.log_freq = log_freq
        self._recorded = -1
        self._levels = 0

    def _on_training_start(self) -> None:
        self._recorded = -1

    def _on_step(self) -> bool:
        due = self.num_timesteps // self.log_freq
        if due != self._recorded:
            self._recorded = due
            self._record()
        return True

    def _on_training_end(self) -> None:
        self._record()

    def _record(self) -> None:
        learner: Any = self.model.learner  # type: ignore[attr-defined]
        annealer = getattr(learner, "annealer", None)
        if annealer is None:  # not yet, or never: the baselines have none
            return
        self.logger.record("oda/temperature", annealer.temperature)
        self.logger.record("oda/n_codevectors", learner.n_cells)
        self.logger.record("oda/distortion", learner.distortion)
        self.logger.record("oda/n_splits", annealer.n_splits)
        self.logger.record("oda/n_merges", annealer.n_merges)
        if self.verbose:
            for level in annealer.history[self._levels :]:
                print(
                    f"T {level.temperature:.3g}: {level.n_codevectors} cells, {level.n_splits} splits, "
                    f"{level.n_merges} merges"
                )
            self._levels = len(annealer.history)


class KeepBestCallback(EvalCallback):
    """SB3's `EvalCallback` that gives the model its best greedy policy back at the end of the training.

    Of equally good policies the latest is kept. The steps of the evaluation are not counted as steps of
    the training. What is given back is all that had been learned at that time; learning can go on from
    there.

    Parameters
    ----------
    eval_env : gymnasium.Env or VecEnv
        Another environment than the one that is learned from.
    n_eval_episodes : int, default=20
        Episodes of each evaluation.
    eval_freq : int, default=10_000
        Calls of the callback (steps of every environment) between evaluations.
    restore : bool, default=True
        Whether to give the best policy back; False only evaluates.
    **options
        As for `EvalCallback`.

    Attributes
    ----------
    best_timesteps : int
        Steps of the training after which the policy that is kept had been reached.
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
        self._best: tuple[Any, Any] | None = None

    def _on_step(self) -> bool:
        go_on = super()._on_step()
        evaluated = self.eval_freq > 0 and self.n_calls % self.eval_freq == 0
        if evaluated and self.last_mean_reward >= self.best_mean_reward > -np.inf:
            self._best = self.model.learner.get_state()  # type: ignore[attr-defined]
            self.best_timesteps = self.num_timesteps
        return go_on

    def _on_training_end(self) -> None:
        super()._on_training_end()
        if self.restore and self._best is not None:
            self.model.learner.set_state(*self._best)  # type: ignore[attr-defined]
