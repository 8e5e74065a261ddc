"""Checkpoints of a training: model, callbacks, curves. Written atomically; the last two are kept."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, LogEveryNTimesteps
from stable_baselines3.common.logger import TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

from oda_rl import storage
from oda_rl._schema import anything
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.callback_schedule import NEVER
from oda_rl.agents.sb3.saving import write_model
from oda_rl.envs.wrapper_chain import EPISODES, find_monitor

KEPT = 2
# Attributes that callbacks need to continue as if the training had not stopped
ATTRIBUTES: dict[type[BaseCallback], tuple[str, ...]] = {
    KeepBestCallback: (
        *("best_mean_reward", "last_mean_reward", "best_timesteps", "best"),
        *("evaluations_timesteps", "evaluations_results", "evaluations_length"),
    ),
    CodebookCallback: (),
    LogEveryNTimesteps: ("last_time_trigger",),
}


class Checkpoints(BaseCallback):
    """Writes checkpoints at regular intervals, and restores callbacks when a training continues.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    save_freq : int
        Environment steps between two checkpoints; 0 for only one, at the end.
    others : list of BaseCallback
        The callbacks whose state is stored.
    say : callable
        Called with a message if a checkpoint cannot be written; the training continues.
    """

    def __init__(
        self, folder: Path, save_freq: int, others: list[BaseCallback], say: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.folder, self.save_freq = folder, save_freq
        self.others, self.say = others, say

    @property
    def due_every(self) -> int:
        """Calls between two checkpoints."""
        return max(1, self.save_freq // self.model.n_envs) if self.save_freq else NEVER

    def _on_step(self) -> bool:
        if self.n_calls % self.due_every == 0:
            self.write()
        return True

    def write(self) -> None:
        """Write a checkpoint, and delete all but the last two."""
        path = self.folder / "checkpoints" / f"steps-{self.model.num_timesteps}.npz"
        try:
            write_model(self.model, path, {"run": self._describe()})
        except OSError as error:
            why = error.strerror or error
            self.say(f"No checkpoint was written ({why}). {tell_last(self.folder)}")
            return
        for old in find_checkpoints(self.folder)[KEPT:]:
            old.unlink(missing_ok=True)

    def _describe(self) -> dict[str, Any]:
        found: dict[str, Any] = {"calls": self.n_calls}
        for one in self.others:
            own = {name: getattr(one, name) for name in ATTRIBUTES[type(one)]}
            found[type(one).__name__] = {"n_calls": one.n_calls, **own}
            if isinstance(one, KeepBestCallback) and one.evaluations_timesteps:
                envs = one.eval_env.unwrapped.envs
                found["generators"] = [env.unwrapped.np_random.bit_generator.state for env in envs]
        found["episodes"] = [
            np.array([one.episode_lengths, one.episode_returns])[:, -EPISODES:]
            for one in find_monitors(self.model)
        ]
        return found

    def restore(self, model: OnlineAlgorithm, run: dict[str, Any]) -> None:
        """Restore the callbacks, and the episodes recorded by a model's environments.

        Raises a ValueError if `run`, from a checkpoint, lacks any of their state.
        """
        with storage.restoring(self.folder):
            self.n_calls = run["calls"]
            for one in self.others:
                own = run[type(one).__name__]
                for name in ("n_calls", *ATTRIBUTES[type(one)]):
                    setattr(one, name, own[name])
                if isinstance(one, KeepBestCallback) and "generators" in run:
                    envs = one.eval_env.unwrapped
                    envs._reset_seeds()
                    for env, state in zip(envs.envs, run["generators"], strict=True):
                        env.unwrapped.np_random.bit_generator.state = state
            for monitor, (lengths, returns) in zip(find_monitors(model), run["episodes"], strict=True):
                monitor.episode_lengths[:] = lengths.astype(int).tolist()
                monitor.episode_returns[:] = returns.tolist()


def find_monitors(model: OnlineAlgorithm) -> list[Any]:
    """SB3's monitors of a model's environments."""
    return [find_monitor(env) for env in model.env.unwrapped.envs]  # type: ignore[union-attr]


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, the latest first; files with other names are ignored."""
    found = (folder / "checkpoints").glob("steps-*.npz")
    return sorted((path for path in found if _steps(path) >= 0), key=_steps, reverse=True)


def last_step(folder: Path) -> int:
    """The step of the last checkpoint of a run; 0 if there is none."""
    return max(map(_steps, find_checkpoints(folder)), default=0)


def tell_last(folder: Path) -> str:
    """A sentence that says which checkpoint of a run is the last."""
    if steps := last_step(folder):
        return f"The last checkpoint, of step {steps:,}, is in {folder / 'checkpoints'}."
    return "There is no checkpoint of this run."


def _steps(path: Path) -> int:
    number = path.stem.removeprefix("steps-")
    return int(number) if number.isdecimal() else -1


def load_last(
    folder: Path, kind: type[OnlineAlgorithm], env: Any
) -> tuple[OnlineAlgorithm, dict[str, Any]]:
    """Load the last readable checkpoint: the model, and the state for `Checkpoints.restore`.

    Raises a FileNotFoundError if there is none.
    """
    for path in find_checkpoints(folder):
        try:
            with storage.restoring(path):
                run = storage.load(path, kind.__name__, anything)["run"]
            return kind.load(path, env=env), run
        except ValueError:
            continue
    raise FileNotFoundError(f"there is no checkpoint in {folder / 'checkpoints'}")


class SteadyTensorBoard(TensorBoardOutputFormat):
    """SB3's TensorBoard writer, which stops writing after an OSError instead of raising it.

    Parameters
    ----------
    folder : Path
        Folder of the event files.
    begin : int or None
        TensorBoard hides what an earlier process has written from this step on.
    say : callable
        Called with a message when writing stops.
    """

    def __init__(self, folder: Path, begin: int | None, say: Callable[[str], None]) -> None:
        threading.excepthook = _print_others  # never reset: the thread may end after its error is known
        self.writer = SummaryWriter(log_dir=str(folder), purge_step=begin)
        # which callbacks call directly: SB3's logger has nothing of the kind
        self.writer.add_embedding = partial(self._unless_full, self.writer.add_embedding)
        self._is_closed = False
        self._say = say

    def write(self, *arguments: Any) -> None:
        """Write what has been logged."""
        self._unless_full(super().write, *arguments)

    def close(self) -> None:
        """Write the rest, and close the file."""
        self._unless_full(super().close)

    def _unless_full(self, write: Callable[..., None], *arguments: Any, **options: Any) -> None:
        try:
            if not self._is_closed:
                write(*arguments, **options)
        except OSError as error:
            self._is_closed = True
            self._say(f"TensorBoard logging stops here: {error.strerror or error}.")


def _print_others(error: threading.ExceptHookArgs, hook: Any = threading.excepthook) -> None:
    """Print the error of a thread, unless it is TensorBoard's: the next `write` raises that again."""
    if not type(error.thread).__module__.startswith("tensorboard."):
        hook(error)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Generator[list[int], None, None]:
    """Call `stop` on Ctrl-C and SIGTERM; a second Ctrl-C also raises a KeyboardInterrupt.

    Yields the list to which the received signals are appended.
    """
    received: list[int] = []

    def handle(number: int, _: Any) -> None:
        received.append(number)
        stop()
        if received.count(signal.SIGINT) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
