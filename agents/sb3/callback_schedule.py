"""When a callback looks: calls at which it would do nothing are counted, but not made.

SB3's callbacks are called at every step, which costs as much as a step of a quick environment. A class
of callbacks with a property `looks_every` promises to need no calls but those at multiples of it. At the
end of an episode, and of the training, everybody is called.
"""

from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    ConvertCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
)

# What is told of a callback that looks at every call, and of one that never looks
ALWAYS, NEVER = 0, 10**18


def calls_until_look(callback: BaseCallback, num_timesteps: int) -> int:
    """Calls until the next one at which a callback, or one of a list, may do something.

    Parameters
    ----------
    callback : BaseCallback
        What is not known here looks always.
    num_timesteps : int
        Steps made; of a single environment, so that every call is one step.

    Returns
    -------
    int
        From 1; or `ALWAYS`, or `NEVER`.
    """
    if type(callback) is CallbackList:
        return min((calls_until_look(c, num_timesteps) for c in callback.callbacks), default=NEVER)
    if type(callback) is ConvertCallback and callback.callback is None:  # SB3's own for None
        return NEVER
    if type(callback) in (EveryNTimesteps, LogEveryNTimesteps):
        return max(1, callback.last_time_trigger + callback.n_steps - num_timesteps)  # type: ignore[attr-defined]
    every = _looks_every(callback)
    return every - callback.n_calls % every if every else ALWAYS


def count_calls(callback: BaseCallback, n: int) -> None:
    """Let a callback, and the children of a list, believe that they were called `n` times more."""
    callback.n_calls += n
    if isinstance(callback, CallbackList):
        for child in callback.callbacks:
            count_calls(child, n)


def _looks_every(callback: BaseCallback) -> int:
    """What its class promises; nothing if a subclass does something of its own at every step."""
    kind = type(callback)
    promising = next((base for base in kind.__mro__ if "looks_every" in vars(base)), None)
    if promising is None or kind._on_step is not promising._on_step:  # type: ignore[attr-defined]
        return ALWAYS
    return int(callback.looks_every)  # type: ignore[attr-defined]
