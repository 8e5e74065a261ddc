"""What a failed training says: at which step, and whether the environment returned no transition."""

from oda_rl.agents.observations import BadTransitionError

# Functions, and the beginnings of their modules' names, that take apart what a step returns
TAKERS = "step", "step_wait", "run_single", "run_vectorised", "_learn_components"
MODULES = "stable_baselines3.", "gymnasium.wrappers.", __name__.rpartition(".")[0] + "."


def find_bad_transition(error: Exception) -> BadTransitionError | None:
    """Find out whether an error means that `step` of an environment returned no transition.

    Checks of every step would take time, and the Monitor of Stable-Baselines3 would fail before them.

    Parameters
    ----------
    error : Exception
        What a training loop raised.

    Returns
    -------
    BadTransitionError, which says what a transition is; None if the error has another cause.
    """
    trace = error.__traceback__
    if trace is None or not isinstance(error, AttributeError | TypeError | ValueError):
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = str(trace.tb_frame.f_globals.get("__name__"))
    if trace.tb_frame.f_code.co_name not in TAKERS or not module.startswith(MODULES):
        return None
    return BadTransitionError(
        f"the environment returned no transition ({error}); its step must return (observation, "
        "reward, terminated, truncated, info), with a number as the reward and a dict as the info."
    )


def add_step(error: BaseException, step: int) -> None:
    """Add to the message of an error that it happened at this step of the training."""
    where = (
        f"This happened at step {step} of the training; what was learned before is kept and can be "
        "saved."
    )
    if isinstance(error, BadTransitionError):
        error.args, error.__cause__ = (f"{error} {where}",), None
    else:
        error.add_note(where)  # raised by the environment or one of its wrappers
