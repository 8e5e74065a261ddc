"""The dynamics of an environment for a compiled loop, and how they are found behind wrappers.

The dynamics of every environment are two functions with fixed signatures. A loop that takes them as
arguments is therefore compiled once for all environments, and loaded from disk by the next process.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import numba.experimental.function_type  # noqa: F401  (teaches numba the type of a CompiledFunction)
import numpy as np
from gymnasium.wrappers import TimeLimit
from numba import types
from numba.extending import typeof_impl
from numpy.typing import ArrayLike, NDArray

from oda_rl._jit import DISABLED, kernel
from oda_rl.envs.names import find_env_spec
from oda_rl.envs.wrapper_chain import (
    find_time_limit,
    has_passive_wrappers_only,
    restore_counters,
    wrappers_of,
)

if TYPE_CHECKING:
    from oda_rl.envs.compiled import CompiledEnv

_VECTOR = types.float64[::1]
SIGNATURES: dict[str, Any] = {
    "step": types.Tuple((types.float64, types.boolean))(_VECTOR, _VECTOR, _VECTOR, _VECTOR),
    "reset": types.void(_VECTOR, _VECTOR, _VECTOR, _VECTOR),
}
_TYPES = {kind: types.FunctionType(signature) for kind, signature in SIGNATURES.items()}


class CompiledFunction(types.WrapperAddressProtocol):
    """A function of one of the two signatures, compiled at its first use and cached on disk.

    Compiled code receives it as a first-class function, by its signature and address. A plain `njit`
    function would instead become part of the type of its caller, which could then not be cached. Passing
    one from Python to compiled code takes some 20 microseconds a call, so pass it to whole loops; from
    Python call `compiled` instead.

    Parameters
    ----------
    function : callable
        Python code that numba can compile. It works in place on contiguous float64 arrays. It must not
        raise an error, because nothing would catch it.
    kind : {"step", "reset"}
        Which signature: `step(parameters, state, action, observation) -> (reward, terminated)` or
        `reset(parameters, state, start, observation)`.
    """

    def __init__(self, function: Callable[..., Any], kind: Literal["step", "reset"]) -> None:
        if kind not in SIGNATURES:
            raise ValueError(f"kind must be 'step' or 'reset', not {kind!r}")
        self.function = function
        self.kind = kind
        self._compiled: Any = None
        self._address: int | None = None

    @property
    def compiled(self) -> Callable[..., Any]:
        """The numba function; the first access compiles it or loads it from the cache on disk."""
        if self._compiled is None:
            made: Any = kernel(self.function)
            if not DISABLED:
                made.compile(self.signature())
                made.disable_compile()
            self._compiled = made
        return self._compiled

    def __call__(self, *arrays: NDArray[np.float64]) -> Any:
        """Call the compiled function."""
        return self.compiled(*arrays)

    def signature(self) -> Any:
        """The signature, a method that numba requires."""
        return SIGNATURES[self.kind]

    def __wrapper_address__(self) -> int:
        if self._address is None:
            overload = self.compiled.overloads[self.signature().args]  # type: ignore[attr-defined]
            name = overload.fndesc.llvm_cfunc_wrapper_name
            self._address = int(overload.library.get_pointer_to_function(name))
        return self._address

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, (self.function, self.kind)


@typeof_impl.register(CompiledFunction)
def _type_of(function: CompiledFunction, _: Any) -> Any:
    """The numba type, prepared in advance; numba itself would construct it again at every call."""
    return _TYPES[function.kind]


@dataclass(frozen=True, eq=False)
class CompiledDynamics:
    """An environment in the form for a compiled loop, as returned by `find_dynamics`.

    Attributes
    ----------
    step : CompiledFunction
        `step(parameters, state, action, observation) -> (reward, terminated)`: replaces `state` and
        `observation` by the next ones. Draws no random numbers.
    reset : CompiledFunction
        `reset(parameters, state, start, observation)`: fills `state` and `observation` for a new
        episode from `start`, one row of `StartBlock.rows`.
    parameters : ndarray of shape (n_parameters,)
        Masses, lengths and other constants, as they were when this object was made.
    state_size, start_size, action_size, observation_size : int
        Lengths of the arrays. All are float64 and contiguous. An observation is rounded to the precision
        of the observation space; an action is in the form that `CompiledEnv.encode_action` returns.
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
    the i-th `env.reset()` from now on would have drawn. `rewind_to` returns the unused rows: it leaves
    the generator in the state after the same number of resets. The environment and a loop can therefore
    take over from each other at any episode.

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
    generator : numpy.random.Generator
        The environment's generator that has drawn them.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> env = gym.make("oda_rl/CartPole-v1")
    >>> _ = env.reset(seed=0)
    >>> block = StartBlock(env.unwrapped, 64)
    >>> block.rewind_to(used=1)  # as if reset() had been called once
    """

    def __init__(self, env: "CompiledEnv", size: int) -> None:
        if size < 1:
            raise ValueError(f"size must be 1 or more, not {size}")
        self._env = env
        self.generator = env.np_random
        self._before = self.generator.bit_generator.state
        self.rows = np.ascontiguousarray(env.draw_starts(self.generator, size), dtype=np.float64)
        self._after = self.generator.bit_generator.state

    def is_current(self) -> bool:
        """Whether the generator was neither used nor replaced since the rows were drawn."""
        generator = self._env.np_random
        return generator is self.generator and generator.bit_generator.state == self._after

    def rewind_to(self, used: int) -> None:
        """Set the generator to the state after `used` resets.

        Parameters
        ----------
        used : int
            Number of rows that began an episode, from 0 to `len(rows)`.
        """
        if not 0 <= used <= len(self.rows):
            raise ValueError(f"used must be from 0 to {len(self.rows)}, not {used}")
        self.generator.bit_generator.state = self._before
        self._env.draw_starts(self.generator, used)


# -- behind wrappers -----------------------------------------------------------------------------


def find_dynamics(env: gym.Env) -> CompiledDynamics | None:
    """Find the compiled dynamics of an environment, if it has them and they describe it completely.

    Passive wrappers are skipped: Gymnasium's TimeLimit, OrderEnforcing and PassiveEnvChecker, and
    Stable-Baselines3's Monitor. Any other could change observations or rewards.

    Parameters
    ----------
    env : gymnasium.Env
        An environment, wrapped or not.

    Returns
    -------
    CompiledDynamics or None
        None for environments without compiled dynamics, with other wrappers or subclasses of the passive
        ones, whose class overrides `step` or `reset` but not the kernels, or that are shown on the
        screen (`render_mode="human"`).

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> find_dynamics(gym.make("oda_rl/CartPole-v1")).time_limit
    500
    >>> find_dynamics(gym.make("CartPole-v1")) is None
    True
    """
    if not has_passive_wrappers_only(env):
        return None
    inner = _compiled(env)
    if inner is None or inner.render_mode == "human" or not kernels_describe(inner):
        return None
    return replace(inner.dynamics, time_limit=find_time_limit(env))


def find_twin(env_id: str) -> str | None:
    """Find the id of an environment with compiled dynamics that is numerically identical to another.

    Parameters
    ----------
    env_id : str
        Id of an environment.

    Returns
    -------
    str or None
        The id of the compiled twin for one of Gymnasium's classic control tasks; `env_id` itself if its
        environment has compiled dynamics; otherwise None.

    Examples
    --------
    >>> import oda_rl.envs
    >>> find_twin("CartPole-v1"), find_twin("CartPole-v0")
    ('oda_rl/CartPole-v1', None)
    """
    spec, twin = find_env_spec(env_id), gym.registry.get(f"oda_rl/{env_id}")
    # The id may have been registered again, for another task.
    original = str(spec.entry_point).startswith("gymnasium.envs.classic_control.") and not (
        spec.additional_wrappers
    )
    if twin is not None and original and spec.max_episode_steps == twin.max_episode_steps:
        return twin.id
    env = gym.make(env_id)
    found = find_dynamics(env)
    env.close()
    return None if found is None else env_id


def get_elapsed_steps(env: gym.Env) -> int:
    """Steps of the current episode, as the TimeLimit wrapper counts them; 0 without such a wrapper.

    Parameters
    ----------
    env : gymnasium.Env
        An environment in which `reset` has been called.
    """
    counts = [w._elapsed_steps or 0 for w in wrappers_of(env) if isinstance(w, TimeLimit)]
    return max(counts, default=0)


def hand_back(env: gym.Env, state: ArrayLike, elapsed_steps: int, total: float = 0.0) -> None:
    """Set an environment to the state in which a compiled loop has stopped.

    Parameters
    ----------
    env : gymnasium.Env
        The environment that `find_dynamics` was given, in which `reset` has been called.
    state : array-like of shape (state_size,)
        The state that the loop has reached.
    elapsed_steps : int
        Steps of the current episode so far; the TimeLimit wrapper continues counting from there.
    total : float, default=0
        Return of the current episode so far; the Monitor of Stable-Baselines3 continues adding to it.

    Raises
    ------
    ValueError
        If the environment has no compiled dynamics, or the state is not finite or of another shape.
    """
    inner = _compiled(env)
    if inner is None:
        raise ValueError(f"env must have compiled dynamics, but {env.unwrapped} has none")
    inner.set_state(state)
    restore_counters(env, elapsed_steps, total)


def _compiled(env: gym.Env) -> "CompiledEnv | None":
    from oda_rl.envs.compiled import CompiledEnv  # which imports this module

    inner = env.unwrapped
    return inner if isinstance(inner, CompiledEnv) else None


def kernels_describe(env: "CompiledEnv") -> bool:
    """Whether `step` and `reset` are those that the kernels were written for, not overridden later."""
    if {"step", "reset"} & vars(env).keys():
        return False
    mro = type(env).__mro__

    def depth(name: str) -> int:
        return next(i for i, kind in enumerate(mro) if name in vars(kind))

    return depth("step") >= depth("step_kernel") and depth("reset") >= depth("reset_kernel")
