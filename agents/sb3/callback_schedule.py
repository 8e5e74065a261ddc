"""When a callback is due: calls at which it would do nothing are counted, but not made.

SB3's callbacks are called at every step, which costs as much as a step of a quick environment. A class
of callbacks with a property `due_every` promises to need no calls but those at multiples of it, one with
a method `due_at(num_timesteps)` none before the environments have made so many steps. At the end of an
episode, and of the training, all are called.
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
# SB3's own, and where they say how many calls there are between two that matter
EVERY_CALLS: dict[type, str] = {CheckpointCallback: "save_freq", EvalCallback: "eval_freq"}
# How often a progress bar is drawn, in a second: that costs as much as hundreds of steps
BAR_RATE = 1
# How often it is told how far the training is: rich finds the speed from that
TOLD_RATE = 10


class ProgressBar(ProgressBarCallback):
    """SB3's progress bar, drawn less often; on a console of rich's if one is given."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {"refresh_per_second": BAR_RATE, **options}

    def _on_training_start(self) -> None:
        from tqdm.rich import tqdm

        left = self.locals["total_timesteps"] - self.model.num_timesteps
        self.pbar = tqdm(total=left, options=self.options)
        self._next = 0.0

    def count(self, steps: int) -> None:
        """Let the bar be further by some steps."""
        self.pbar.n += steps
        now = time.monotonic()
        if now >= self._next:
            self.pbar.display()
            self._next = now + 1.0 / TOLD_RATE

    def _on_step(self) -> bool:
        self.count(self.model.n_envs)
        return True


def make_callback(callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
    """Of a callback, a list of them or a function one callback, perhaps with a progress bar.

    Raises
    ------
    TypeError
        If it is something else.
    """
    own: list[Any] = callback if isinstance(callback, list) else [callback] * (callback is not None)
    for one in own:
        if isinstance(one, type) or not (callable(one) or isinstance(one, BaseCallback)):
            raise TypeError(f"callback must be a function, a BaseCallback or a list, got {one!r}.")
    made = [one if isinstance(one, BaseCallback) else ConvertCallback(one) for one in own]
    made += [ProgressBar()] if progress_bar else []
    return made[0] if len(made) == 1 else CallbackList(made)


def calls_until_due(
    callback: BaseCallback, num_timesteps: int, n_envs: int = 1, always: int = ALWAYS
) -> int:
    """Calls, from 1, until a callback, or one of a list, may do something; or `always`, or `NEVER`.

    What is not known here is always due. All `n_envs` environments make a step between two calls.
    """
    one: Any = callback
    if type(one) is CallbackList:
        dues = [calls_until_due(child, num_timesteps, n_envs, always) for child in one.callbacks]
        return min(dues, default=NEVER)
    if type(one) is ConvertCallback and one.callback is None:  # SB3's own for None
        return NEVER
    if _keeps(one, "due_every"):
        return int(one.due_every - one.n_calls % one.due_every)
    if type(one) in EVERY_CALLS:
        every = getattr(one, EVERY_CALLS[type(one)])
        return int(every - one.n_calls % every) if every > 0 else NEVER
    if type(one) in (EveryNTimesteps, LogEveryNTimesteps):
        steps = one.last_time_trigger + one.n_steps - num_timesteps
    elif isinstance(one, ProgressBarCallback):
        steps = int(one.pbar.n / max(time.time() - one.pbar.start_t, 1e-3) / BAR_RATE)
    elif _keeps(one, "due_at"):
        steps = one.due_at(num_timesteps) - num_timesteps
    else:
        return always
    return max(1, -(-steps // n_envs))


def count_calls(callback: BaseCallback, n: int, n_envs: int = 1) -> None:
    """Let a callback, and the children of a list, count `n` calls that were not made."""
    callback.n_calls += n
    if isinstance(callback, ProgressBar):
        callback.count(n * n_envs)
    elif isinstance(callback, ProgressBarCallback):
        callback.pbar.update(n * n_envs)
    if isinstance(callback, CallbackList):
        for child in callback.callbacks:
            count_calls(child, n, n_envs)


def _keeps(callback: BaseCallback, promise: str) -> bool:
    """Whether its class promises this, and no subclass does something of its own at every step."""
    kind: Any = type(callback)
    promising = next((base for base in kind.__mro__ if promise in vars(base)), None)
    return promising is not None and kind._on_step is promising._on_step
