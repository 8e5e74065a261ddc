"""An SB3 callback that logs how the codebook develops."""

import time
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback

from oda_rl._validation import check_at_least

if TYPE_CHECKING:
    from oda_rl.agents.sb3.tensorboard import Board

# Recorded with every set of numbers; while it is in the logger, they have not been written yet
MARK = "time/total_timesteps"
# Seconds assumed for the first drawing of each kind; pictures import matplotlib
FIRST_GUESS = {"pictures": 0.6, "histograms": 0.01}


class CodebookCallback(BaseCallback):
    """Log how the codebook grows and what its cells have learned, in addition to SB3's own tags.

    Numbers, for every logger: `oda/temperature` (squared scaled units), `oda/n_codevectors`,
    `oda/distortion` (running mean of the squared distance to the nearest codevector, squared scaled
    units), `oda/n_splits` and `oda/n_merges` (totals so far).

    For TensorBoard only, and drawn at least once, at the end of the training:

    - `codebook/greedy_actions`, `codebook/value` (Images): the greedy actions, with the codevectors of
      the cells shown, and the value, over two dimensions; the others are at the mean of the codevectors;
    - `codebook/cells_against_temperature` (Images): K at the end of every temperature;
    - `cells/q`, `cells/log10_visits`, `cells/td_error` (Histograms, Distributions): the values of all
      actions at the codevectors, the visits of the cells, running means of their absolute TD errors;
    - HParams: the hyperparameters with the last `rollout/ep_rew_mean`, `time/fps`, `oda/n_codevectors`
      and, with an `EvalCallback` in the same list, `eval/mean_reward`;
    - Projector: the codebook in scaled units, with action, visits, value and level of every cell. The
      level is the index of the first temperature with enough cells to include this one; on a tree the
      branch takes its place.

    What an agent does not have is not logged: the baselines have no temperature, and only two-timescale
    learning has TD errors of cells. During the training, pictures and histograms are drawn only if their
    total cost stays a small part of the training time (`max_cost`). Which of them are drawn depends on
    the machine; what is learned does not.

    Parameters
    ----------
    log_freq : int, default=20_000
        Environment steps between two records of the numbers. They are written with the algorithm's next
        log, and at the end.
    verbose : int, default=0
        1 prints every finished temperature.
    dimensions : (int, int), optional
        Dimensions of the horizontal and vertical axes of the pictures. By default the two dimensions of
        an observation that are most informative about the greedy action at the first drawing.
    figure_freq : int, default=50_000
        Environment steps between two sets of pictures; 0 for none. Needs matplotlib.
    histogram_freq : int, default=20_000
        Environment steps between two sets of histograms; 0 for none.
    embedding : bool, default=True
        Whether to write the codebook for the Projector tab at the end.
    hparams : bool, default=True
        Whether to write the hyperparameters at the beginning.
    max_cost : float, default=0.01
        Largest share of the training time that pictures and histograms may take during the training.

    Attributes
    ----------
    seconds : dict of str to float
        Time spent on `"training"` (everything from its start to its end), on `"pictures"` (and
        histograms) during it, and on what is written `"at_end"`.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> from oda_rl.agents.sb3.callbacks import CodebookCallback
    >>> model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, tensorboard_log=None)
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
            raise ValueError(f"max_cost must be a number in [0, 1], got {max_cost}.")
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
        """Return the number of steps at which the callback is due next."""
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
        model: Any = self.model
        self._levels = len(model.history_)
        if writer is None:
            return
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
        # The training may have been interrupted before the first call.
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
        """The number of drawings of a kind that should have been made so far."""
        return self.model.num_timesteps // self._every[kind] if self._every[kind] else 0

    def _draw_if_cheap(self) -> None:
        """Draw what is due, if all drawings together take at most `max_cost` of the training time."""
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
        # shows later whether the numbers recorded here have been written
        self.logger.record(MARK, self.num_timesteps, exclude="tensorboard")
        learner: Any = self.model.learner  # type: ignore[attr-defined]
        annealer = getattr(learner, "annealer", None)
        if annealer is None:  # during the warm-up, and for the baselines
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
