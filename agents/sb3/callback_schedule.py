"""When a callback is due: calls at which it would do nothing are counted, but not made.

SB3's callbacks are called at every step, which costs as much as a step of a quick environment. A class
of callbacks with a property `due_every` promises to need no calls but those at multiples of it. At the
end of an episode, and of the training, all are called.
"""

import time
from typing import Any

from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    ConvertCallback,
    EvalCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
    ProgressBarCallback,
)
from stable_baselines3.common.type_aliases import MaybeCallback

# What is told of a callback that is due at every call, and of one that never is
ALWAYS, NEVER = 0, 10**18
# How often a progress bar is drawn, in a second: that costs as much as hundreds of steps
BAR_RATE = 1


class ProgressBar(ProgressBarCallback):
    """SB3's progress bar, drawn less often; on a console of rich's if one is given."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {"refresh_per_second": BAR_RATE, **options}

    def _on_training_start(self) -> None:
        from tqdm.rich import tqdm

        left = self.locals["total_timesteps"] - self.model.num_timesteps
        self.pbar = tqdm(total=left, options=self.options)


def with_progress_bar(callback: MaybeCallback) -> CallbackList:
    """A callback, a list of them or a function, and a progress bar."""
    own = CallbackList(callback) if isinstance(callback, list) else callback
    if not isinstance(own, BaseCallback):
        own = ConvertCallback(own)
    return CallbackList([own, ProgressBar()])


def calls_until_due(callback: BaseCallback, num_timesteps: int, always: int = ALWAYS) -> int:
    """Calls, from 1, until a callback, or one of a list, may do something; or `always`, or `NEVER`.

    What is not known here is always due. There is a single environment, so that a call is one step.
    """
    if type(callback) is CallbackList:
        return min(
            (calls_until_due(c, num_timesteps, always) for c in callback.callbacks), default=NEVER
        )
    if type(callback) is ConvertCallback and callback.callback is None:  # SB3's own for None
        return NEVER
    if type(callback) in (EveryNTimesteps, LogEveryNTimesteps):
        return max(1, callback.last_time_trigger + callback.n_steps - num_timesteps)  # type: ignore[attr-defined]
    if isinstance(callback, ProgressBarCallback):
        return _until_moved(callback)
    every = _due_every(callback)
    return every - callback.n_calls % every if every else always


def count_calls(callback: BaseCallback, n: int) -> None:
    """Let a callback, and the children of a list, count `n` calls that were not made."""
    callback.n_calls += n
    if isinstance(callback, ProgressBarCallback):
        callback.pbar.update(n)
    if isinstance(callback, CallbackList):
        for child in callback.callbacks:
            count_calls(child, n)


def _until_moved(callback: ProgressBarCallback) -> int:
    """Calls until a progress bar has something new to show, by the speed so far."""
    bar = callback.pbar
    speed = bar.n / max(time.time() - bar.start_t, 1e-3)
    return max(1, int(speed / BAR_RATE))


def _due_every(callback: BaseCallback) -> int:
    """What its class promises; nothing if a subclass does something of its own at every step."""
    kind = type(callback)
    if kind in (CheckpointCallback, EvalCallback):  # SB3's own
        every = callback.save_freq if kind is CheckpointCallback else callback.eval_freq  # type: ignore[attr-defined]
        return every if every > 0 else NEVER
    promising = next((base for base in kind.__mro__ if "due_every" in vars(base)), None)
    if promising is None or kind._on_step is not promising._on_step:  # type: ignore[attr-defined]
        return ALWAYS
    return int(callback.due_every)  # type: ignore[attr-defined]
