"""When a callback is due: calls in which it would do nothing are counted, but not made.

SB3 calls every callback at every step, which takes as long as a step of a fast environment. A callback
class can opt out in two ways. With a property `due_every`, it needs only the calls whose number is a
multiple of that. With a method `due_at(num_timesteps)`, it needs no call before the environments have
made the number of steps that the method returns. At the end of an episode, and of the training, all are
called.
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

# Returned by `calls_until_due` for a callback that is due at every call, and for one that never is
ALWAYS, NEVER = 0, 10**18
# SB3's own callbacks with a fixed interval, and the attribute that holds it, in calls
EVERY_CALLS: dict[type, str] = {CheckpointCallback: "save_freq", EvalCallback: "eval_freq"}
# SB3's own callbacks that do not use the environments of the training
APART = (CheckpointCallback, LogEveryNTimesteps, ProgressBarCallback)
# Times per second that a progress bar is drawn; once costs as much as hundreds of steps
BAR_RATE = 1
# Times per second that its count is passed on to rich, which estimates the speed from it
COUNT_RATE = 10


class ProgressBar(ProgressBarCallback):
    """SB3's progress bar, drawn less often; `options` go to rich, such as a console to draw on."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {"refresh_per_second": BAR_RATE, **options}

    def _on_training_start(self) -> None:
        from tqdm.rich import tqdm

        left = self.locals["total_timesteps"] - self.model.num_timesteps
        self.pbar = tqdm(total=left, options=self.options)
        self._next = 0.0

    def count(self, steps: int) -> None:
        """Advance the bar by some steps."""
        self.pbar.n += steps
        now = time.monotonic()
        if now >= self._next:
            self.pbar.display()
            self._next = now + 1.0 / COUNT_RATE

    def _on_step(self) -> bool:
        self.count(self.model.n_envs)
        return True


def make_callback(callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
    """Make one callback of a callback, a function or a list of these, perhaps with a progress bar.

    Raises
    ------
    TypeError
        If `callback` is something else.
    """
    own: list[Any] = callback if isinstance(callback, list) else [callback] * (callback is not None)
    for one in own:
        if isinstance(one, type) or not (callable(one) or isinstance(one, BaseCallback)):
            raise TypeError(
                f"callback must be a function, a BaseCallback, or a list of these, got {one!r}."
            )
    made = [one if isinstance(one, BaseCallback) else ConvertCallback(one) for one in own]
    made += [ProgressBar()] if progress_bar else []
    return made[0] if len(made) == 1 else CallbackList(made)


def calls_until_due(
    callback: BaseCallback, num_timesteps: int, n_envs: int = 1, always: int = ALWAYS
) -> int:
    """Calls until a callback, or one of a list, may do something: at least 1, or `always`, or `NEVER`.

    Callbacks of unknown classes are always due. All `n_envs` environments make a step between two calls.
    """
    one: Any = callback
    if type(one) is CallbackList:
        dues = [calls_until_due(child, num_timesteps, n_envs, always) for child in one.callbacks]
        return min(dues, default=NEVER)
    if type(one) is ConvertCallback and one.callback is None:  # SB3's placeholder for no callback
        return NEVER
    if _defines(one, "due_every"):
        return int(one.due_every - one.n_calls % one.due_every)
    if type(one) in EVERY_CALLS:
        every = getattr(one, EVERY_CALLS[type(one)])
        return int(every - one.n_calls % every) if every > 0 else NEVER
    if type(one) in (EveryNTimesteps, LogEveryNTimesteps):
        steps = one.last_time_trigger + one.n_steps - num_timesteps
    elif isinstance(one, ProgressBarCallback):
        steps = int(one.pbar.n / max(time.time() - one.pbar.start_t, 1e-3) / BAR_RATE)
    elif _defines(one, "due_at"):
        steps = one.due_at(num_timesteps) - num_timesteps
    else:
        return always
    return max(1, -(-steps // n_envs))


def may_use_envs(callback: BaseCallback) -> bool:
    """Whether a callback, or one that it calls, may read or change the environments of the training."""
    one: Any = callback
    if type(one) is CallbackList:
        return any(map(may_use_envs, one.callbacks))
    if type(one) is ConvertCallback:
        return one.callback is not None
    if type(one) in APART:
        return False
    called = [getattr(one, name, None) for name in ("callback", "callback_on_new_best")]
    own = type(one).__module__.startswith("oda_rl.")
    return not own or any(may_use_envs(other) for other in called if isinstance(other, BaseCallback))


def count_calls(callback: BaseCallback, n: int, n_envs: int = 1) -> None:
    """Count `n` calls that were not made, in a callback and the children of a list."""
    callback.n_calls += n
    if isinstance(callback, ProgressBar):
        callback.count(n * n_envs)
    elif isinstance(callback, ProgressBarCallback):
        callback.pbar.update(n * n_envs)
    if isinstance(callback, CallbackList):
        for child in callback.callbacks:
            count_calls(child, n, n_envs)


def _defines(callback: BaseCallback, name: str) -> bool:
    """Whether a class of the callback defines `name`, and no subclass of it overrides `_on_step`."""
    kind: Any = type(callback)
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    return owner is not None and kind._on_step is owner._on_step
