"""Callbacks in SB3's style: watch the codebook, keep the best policy."""

import io
import math
import time
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
    from oda_rl.agents.sb3.tensorboard import Board
    from oda_rl.inspect.model import View

# Recorded with every set of numbers, so that it can be told whether they have been written
MARK = "time/total_timesteps"
# Seconds that the first of a kind are thought to take: pictures import matplotlib.
FIRST_GUESS = {"pictures": 0.6, "histograms": 0.01}


class CodebookCallback(BaseCallback):
    """Logs how the codebook grows and what it knows, next to SB3's own tags.

    Numbers, for every logger: `oda/temperature` (squared scaled units), `oda/n_codevectors`,
    `oda/distortion` (running mean of the squared distance to the nearest codevector, squared scaled
    units), `oda/n_splits` and `oda/n_merges` (totals so far).

    For TensorBoard alone, and drawn at least once, at the end of the training:

    - `codebook/greedy_actions`, `codebook/value` (Images): over two dimensions, the others at the mean
      of the codevectors, the greedy actions with the codevectors whose cells are there, and the value;
    - `codebook/cells_against_temperature` (Images): K at the end of every temperature;
    - `cells/q`, `cells/log10_visits`, `cells/td_error` (Histograms, Distributions): the values of all
      actions at the codevectors, the visits of the cells, running means of the size of their TD error;
    - HParams: the hyperparameters with the last `rollout/ep_rew_mean`, `time/fps`, `oda/n_codevectors`
      and, with an `EvalCallback` in the same list, `eval/mean_reward`;
    - Projector: the codebook in scaled units, with action, visits, value and level of every cell: the
      number of the temperature since which there have been so many cells, or the branch of a tree.

    What an agent does not have is not logged: the baselines have no temperature, and TD errors of cells
    are those of two-timescale learning. Pictures and histograms wait until their cost is a small part of
    the time spent on the training (`max_cost`): which of them are drawn depends on the machine, what is
    learned does not.

    Parameters
    ----------
    log_freq : int, default=20_000
        Environment steps between two records of the numbers. They are written with the algorithm's next
        log, and at the end.
    verbose : int, default=0
        1 prints every finished temperature.
    dimensions : (int, int), optional
        What the pictures show, horizontally and vertically; by default the two dimensions of an
        observation that tell most about the greedy action when it is first drawn.
    figure_freq : int, default=50_000
        Environment steps between two sets of pictures; 0 for none. Needs matplotlib.
    histogram_freq : int, default=20_000
        Environment steps between two sets of histograms; 0 for none.
    embedding : bool, default=True
        Whether to write the codebook for the Projector tab at the end.
    hparams : bool, default=True
        Whether to write the hyperparameters at the beginning.
    max_cost : float, default=0.01
        Pictures and histograms during the training take no more than this part of its time.

    Attributes
    ----------
    seconds : dict of str to float
        Time spent on `"training"` (all between the first call and the last), on `"pictures"` (and
        histograms) during it, and on what is written `"at_end"`.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> from oda_rl.agents.sb3.callbacks import CodebookCallback
    >>> model = TwoTimescaleQ(env="CartPole-v1", seed=0, tensorboard_log=None)
    >>> _ = model.learn(5_000, callback=CodebookCallback())
    """

    def __init__(
        self,
        log_freq: int = 20_000,
        verbose: int = 0,
        dimensions: tuple[int, int] | None = None,
        figure_freq: int = 50_000,
        histogram_freq: int = 20_000,
        embedding: bool = True,
        hparams: bool = True,
        max_cost: float = 0.01,
    ) -> None:
        check_at_least(1, log_freq=log_freq)
        check_at_least(0, figure_freq=figure_freq, histogram_freq=histogram_freq)
        if not 0.0 <= max_cost <= 1.0:
            raise ValueError(f"max_cost must be in [0, 1], got {max_cost}.")
        super().__init__(verbose)
        self.log_freq = log_freq
        self.dimensions = dimensions
        self.embedding, self.hparams, self.max_cost = embedding, hparams, max_cost
        self.seconds = {"training": 0.0, "pictures": 0.0, "at_end": 0.0}
        self._every = {"pictures": figure_freq, "histograms": histogram_freq}
        self._board: Board | None = None
        self._recorded = self._recorded_at = -1
        self._levels = 0

    def due_at(self, num_timesteps: int) -> int:
        """Steps at which something may happen next."""
        return (num_timesteps // self.log_freq + 1) * self.log_freq

    def _on_training_start(self) -> None:
        from oda_rl.agents.sb3.tensorboard import Board, find_writer

        writer = find_writer(self.logger)
        self._begun = time.perf_counter()
        self.seconds = {"training": 0.0, "pictures": 0.0, "at_end": 0.0}
        self._expected = dict(FIRST_GUESS)
        self._drawn = {kind: self._number(kind) for kind in self._every}
        steps = self.num_timesteps
        self._recorded, self._recorded_at = steps // self.log_freq if steps else -1, -1
        self._board = None
        if writer is None:
            return
        model: Any = self.model
        self._board = Board(model, writer, self.dimensions)
        if self._every["histograms"] and hasattr(model.learner, "watch_errors"):
            model.learner.watch_errors()
        if self.hparams:
            self._board.write_hyperparameters(self.locals.get("callback"))

    def _on_step(self) -> bool:
        due = self.num_timesteps // self.log_freq
        if due != self._recorded:
            self._recorded = due
            self._record()
            if self._board is not None:
                self._draw_if_cheap()
        return True

    def _on_training_end(self) -> None:
        # An interrupt can come before the first call.
        self.num_timesteps = self.model.num_timesteps
        written = self._recorded_at == self.num_timesteps and MARK not in self.logger.name_to_value
        now = time.perf_counter()
        self.seconds["training"] = now - self._begun
        self._record()
        if not written and self.logger.output_formats:
            self.model.dump_logs()
        if self._board is not None:
            for kind, every in self._every.items():
                if every:
                    self._draw(kind)
            if self.embedding:
                self._board.write_codebook()
        self.seconds["at_end"] = time.perf_counter() - now

    # -- pictures and histograms -----------------------------------------------------------------

    def _number(self, kind: str) -> int:
        """How many of a kind should have been drawn by now."""
        return self.model.num_timesteps // self._every[kind] if self._every[kind] else 0

    def _draw_if_cheap(self) -> None:
        """Draw what is due, if all that was drawn takes a small part of the time of the training."""
        for kind in self._every:
            number = self._number(kind)
            if number == self._drawn[kind]:
                continue
            spent = self.seconds["pictures"]
            trained = time.perf_counter() - self._begun - spent
            if spent + self._expected[kind] <= self.max_cost * trained:
                begun = time.perf_counter()
                self._draw(kind)
                self._drawn[kind] = number
                self._expected[kind] = time.perf_counter() - begun
                self.seconds["pictures"] += self._expected[kind]

    def _draw(self, kind: str) -> None:
        assert self._board is not None
        if kind == "pictures":
            self._board.write_pictures()
        else:
            self._board.write_histograms()

    # -- numbers ---------------------------------------------------------------------------------

    def _record(self) -> None:
        self._recorded_at = self.num_timesteps
        # tells later whether what is recorded here has been written
        self.logger.record(MARK, self.num_timesteps, exclude="tensorboard")
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


class SnapshotCallback(BaseCallback):
    """Keeps what an agent has learned every so often, to draw or animate it when the training is over.

    The warm-up, in which there is no codebook yet, is left out.

    Parameters
    ----------
    every : int, default=2000
        Environment steps between two snapshots. On an environment with compiled dynamics it is called
        when it is due.
    stretch : float, default=1.0
        The interval is multiplied by this after each: with 1.05, say, the beginning, in which the
        codebook grows, is seen in more detail.
    verbose : int, default=0
        Not used.

    Attributes
    ----------
    snapshots : list of (int, dict)
        Environment steps, and the state of the learner then.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> from oda_rl.agents.sb3.callbacks import SnapshotCallback
    >>> snapshots = SnapshotCallback(every=1000)
    >>> model = TwoTimescaleQ(env="CartPole-v1", seed=0).learn(4_000, callback=snapshots)
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
        """Steps at which something may happen next."""
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
        """What there is to be drawn at each snapshot, for `oda_rl.plotting.animate_codebook`."""
        from oda_rl.agents.explain.agent_view import restore, view_of_agent

        model: Any = self.model
        return [view_of_agent(model, restore(model, state), steps) for steps, state in self.snapshots]


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
        Whether to give the best policy back at the end; otherwise `give_back` does, when it is called.
    **options
        As for `EvalCallback`.

    Attributes
    ----------
    best_timesteps : int
        Steps of the training after which the policy that is kept had been reached.
    best : dict or None
        The state of the learner then.
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

    def _init_callback(self) -> None:
        with warnings.catch_warnings():  # several episodes at once need other environments than training
            warnings.filterwarnings("ignore", "Training and eval env are not of the same type")
            super()._init_callback()

    @property
    def due_every(self) -> int:
        """Calls between two at which something may happen."""
        return self.eval_freq if self.eval_freq > 0 else NEVER

    def _on_step(self) -> bool:
        place, file = self.log_path, io.BytesIO()
        self.log_path = file if place else None  # type: ignore[assignment]
        try:
            go_on = super()._on_step()
        finally:
            self.log_path = place
        if file.tell():  # SB3 itself would leave half a file when it is killed
            with written_whole(f"{place}.npz") as path:
                path.write_bytes(file.getvalue())
        evaluated = self.eval_freq > 0 and self.n_calls % self.eval_freq == 0
        if evaluated and self.last_mean_reward >= self.best_mean_reward > -np.inf:
            self.best = self.model.learner.get_state(under_way=False)  # type: ignore[attr-defined]
            self.best_timesteps = self.num_timesteps
        return go_on

    def _on_training_end(self) -> None:
        super()._on_training_end()
        if self.restore:
            self.give_back()

    def give_back(self) -> None:
        """Give the model its best policy so far, if there is one."""
        if self.best is not None:
            self.model.learner.set_state(self.best)  # type: ignore[attr-defined]
            self.model._last_obs = None  # the episode under way is none of this policy's
