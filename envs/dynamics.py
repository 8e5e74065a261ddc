"""What a compiled environment hands to a compiled loop.

Every environment's dynamics are two functions with the same two signatures, so that a loop which takes
them as arguments is compiled once, for all environments, and found on disk by the next process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numba
import numba.experimental.function_type  # teaches numba the type of a CompiledFunction
import numpy as np
from numba import types
from numpy.typing import NDArray

if TYPE_CHECKING:
    from oda_rl.envs.compiled import CompiledEnv

_VECTOR = types.float64[::1]
STEP_SIGNATURE = types.Tuple((types.float64, types.boolean))(_VECTOR, _VECTOR, _VECTOR, _VECTOR)
RESET_SIGNATURE = types.void(_VECTOR, _VECTOR, _VECTOR, _VECTOR)


class CompiledFunction(types.WrapperAddressProtocol):
    """A function of one of the two signatures, compiled when it is first used and kept on disk.

    Compiled code receives it as a first-class function: by its signature and address, not by its
    identity. A plain `njit` function would be part of the caller's type, and the caller's cache useless.
    Each one handed to compiled code from Python costs some 20 microseconds a call, so hand it to loops;
    `compiled` is what to call from Python.

    Parameters
    ----------
    function : callable
        Python code that numba can compile. It works in place on contiguous float64 arrays and must not
        raise: there is nobody to catch it.
    kind : {"step", "reset"}
        Which signature: `step(parameters, state, action, observation) -> (reward, terminated)` or
        `reset(parameters, state, start, observation)`.
    """

    def __init__(self, function: Callable[..., Any], kind: Literal["step", "reset"]) -> None:
        if kind not in ("step", "reset"):
            raise ValueError(f"kind must be 'step' or 'reset', not {kind!r}")
        self.function = function
        self.kind = kind
        self._compiled: Any = None

    @property
    def compiled(self) -> Callable[..., Any]:
        """The numba function. The first look compiles it, or loads it from the cache on disk."""
        if self._compiled is None:
            try:
                self._compiled = self._compile(cache=True)
            except RuntimeError as error:
                if "cannot cache" not in str(error):
                    raise
                # Typed at a prompt, or installed where nothing can be written.
                self._compiled = self._compile(cache=False)
        return self._compiled

    def _compile(self, cache: bool) -> Callable[..., Any]:
        decorate = numba.njit(self.signature(), cache=cache, nogil=True, error_model="numpy")
        return decorate(self.function)

    def __call__(self, *arrays: NDArray[np.float64]) -> Any:
        """Call the compiled function."""
        return self.compiled(*arrays)

    def signature(self) -> Any:
        """The signature, as numba asks for it."""
        return STEP_SIGNATURE if self.kind == "step" else RESET_SIGNATURE

    def __wrapper_address__(self) -> int:
        overload = self.compiled.overloads[self.signature().args]  # type: ignore[attr-defined]
        name = overload.fndesc.llvm_cfunc_wrapper_name
        return int(overload.library.get_pointer_to_function(name))

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, (self.function, self.kind)


@dataclass(frozen=True, eq=False)
class CompiledDynamics:
    """An environment as a compiled loop sees it. `find_dynamics` makes one.

    Attributes
    ----------
    step : CompiledFunction
        `step(parameters, state, action, observation) -> (reward, terminated)`: replaces `state` and
        `observation` by the next ones. Draws no random numbers.
    reset : CompiledFunction
        `reset(parameters, state, start, observation)`: fills `state` and `observation` for a new
        episode from `start`, one row of `StartBlock.rows`.
    parameters : ndarray of shape (n_parameters,)
        Masses, lengths and the like, as they were when this object was made.
    state_size, start_size, action_size, observation_size : int
        Lengths of the arrays. All are float64 and contiguous. An observation is rounded to the precision
        of the observation space; an action holds what `CompiledEnv.encode_action` returns.
    time_limit : int or None
        Steps after which an episode is truncated, if it is wrapped in a TimeLimit.
    env : CompiledEnv
        The environment without its wrappers: `get_state`, `set_state`, `draw_starts`, `np_random`.
    """

    step: CompiledFunction
    reset: CompiledFunction
    parameters: NDArray[np.float64]
    state_size: int
    start_size: int
    action_size: int
    observation_size: int
    time_limit: int | None
    env: "CompiledEnv"


class StartBlock:
    """Starts of episodes, drawn ahead from the environment's generator.

    A compiled loop cannot call a Generator cheaply, so it is given a block of rows. The i-th row is what
    the i-th `env.reset()` from here on would have drawn. `settle` takes back those that were not used:
    the generator is then where the same number of resets would have left it, and environment and loop
    can hand over to each other at any episode.

    Parameters
    ----------
    env : CompiledEnv
        The environment, seeded by an earlier `reset(seed=...)` if that matters.
    size : int
        Rows to draw.

    Attributes
    ----------
    rows : ndarray of shape (size, start_size)
        One start each.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> env = gym.make("oda_rl/CartPole-v1")
    >>> _ = env.reset(seed=0)
    >>> block = StartBlock(env.unwrapped, 64)
    >>> block.settle(used=1)  # as if reset() had been called once
    """

    def __init__(self, env: "CompiledEnv", size: int) -> None:
        if size < 1:
            raise ValueError(f"size must be 1 or more, not {size}")
        self._env = env
        self._generator = env.np_random
        self._before = self._generator.bit_generator.state
        self.rows = np.ascontiguousarray(env.draw_starts(self._generator, size), dtype=np.float64)

    def settle(self, used: int) -> None:
        """Leave the generator where `used` resets would have left it.

        Parameters
        ----------
        used : int
            Rows that began an episode, from 0 to `len(rows)`.
        """
        if not 0 <= used <= len(self.rows):
            raise ValueError(f"used must be from 0 to {len(self.rows)}, not {used}")
        self._generator.bit_generator.state = self._before
        self._env.draw_starts(self._generator, used)
