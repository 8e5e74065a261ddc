"""The base class of environments with compiled dynamics."""

from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from oda_rl.envs.dynamics import CompiledDynamics, CompiledFunction


class CompiledEnv(gym.Env):
    """An environment whose dynamics are two compiled functions.

    In Python it is an ordinary Gymnasium environment. An agent runs such an environment inside its own
    compiled loop instead, thousands of steps at a time.

    To make one, derive from this class and define two static methods that numba can compile, and the
    sizes of the arrays:

    - `step_kernel(parameters, state, action, observation)` replaces `state` and `observation` by the
      next ones and returns `(reward, terminated)`, a float and a bool;
    - `reset_kernel(parameters, state, start, observation)` fills both for a new episode.

    All arguments are contiguous float64 arrays. A discrete action is passed as `action[0]`, counted from
    0; a discrete observation is written to `observation[0]`, with the value that Python receives. The
    kernels must not raise errors or draw random numbers. Random numbers for the start of an episode are
    passed in `start`: uniform between `start_low` and `start_high` unless `draw_starts` is overridden. A
    stochastic step needs its own generator, stored in `state`. Observations must be representable in the
    dtype of the observation space: round them with `np.float32(...)`. Functions that a kernel calls must
    be compiled by numba, too, and be in the same file; otherwise the cache on disk does not notice when
    they change.

    A subclass that overrides `step` or `reset` but not the kernels is stepped from Python, because its
    kernels no longer describe it completely.

    Attributes
    ----------
    step_kernel, reset_kernel : callable
        The dynamics.
    state_size : int
        Length of `state`.
    start_low, start_high : sequence of float
        Bounds of the numbers in `start`, which has the same length.

    Examples
    --------
    A walk along a line, to the right end:

    >>> import gymnasium as gym
    >>> import numpy as np
    >>> from oda_rl.envs import CompiledEnv
    >>> class Walk(CompiledEnv):
    ...     state_size = 1
    ...     start_low, start_high = (-0.5,), (0.5,)
    ...
    ...     def __init__(self, stride=0.25):
    ...         self.stride = stride
    ...         self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    ...         self.action_space = gym.spaces.Discrete(2)
    ...
    ...     def get_parameters(self):
    ...         return [self.stride]
    ...
    ...     @staticmethod
    ...     def reset_kernel(parameters, state, start, observation):
    ...         state[0] = start[0]
    ...         observation[0] = np.float32(state[0])
    ...
    ...     @staticmethod
    ...     def step_kernel(parameters, state, action, observation):
    ...         direction = 1.0 if action[0] == 1.0 else -1.0
    ...         state[0] = min(max(state[0] + direction * parameters[0], -1.0), 1.0)
    ...         observation[0] = np.float32(state[0])
    ...         return -1.0, state[0] >= 1.0
    >>> env = gym.wrappers.TimeLimit(Walk(), 100)
    >>> observation, info = env.reset(seed=0)
    >>> env.step(1)[1:]
    (-1.0, False, False, {})
    """

    state_size: ClassVar[int]
    start_low: ClassVar[ArrayLike]
    start_high: ClassVar[ArrayLike]
    step_kernel: ClassVar[Any]
    reset_kernel: ClassVar[Any]

    _compiled_step: ClassVar[CompiledFunction]
    _compiled_reset: ClassVar[CompiledFunction]
    _state: NDArray[np.float64] | None = None
    _parameters: NDArray[np.float64] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step_kernel" in cls.__dict__:
            cls._compiled_step = CompiledFunction(cls.step_kernel, "step")
        if "reset_kernel" in cls.__dict__:
            cls._compiled_reset = CompiledFunction(cls.reset_kernel, "reset")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Raise a TypeError that names the attributes that the class must define, but does not."""
        needed = ["step_kernel", "reset_kernel", "state_size"]
        if cls.draw_starts is CompiledEnv.draw_starts:
            needed += ["start_low", "start_high"]
        missing = [name for name in needed if not hasattr(cls, name)]
        if missing:
            raise TypeError(f"{cls.__name__} must define {', '.join(missing)}; see CompiledEnv")
        return super().__new__(cls)

    # -- Gymnasium's interface -------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int, optional
            Seeds the generator `np_random`.
        options : dict, optional
            Not used here.

        Returns
        -------
        observation : ndarray
            The first one.
        info : dict
            Empty.
        """
        super().reset(seed=seed)
        parameters = self.refresh_parameters()
        state = np.zeros(self.state_size)
        space: Any = self.observation_space
        observation = np.zeros(space.shape)
        start = np.ascontiguousarray(self.draw_starts(self.np_random, 1)[0], dtype=np.float64)
        self._compiled_reset.compiled(parameters, state, start, observation.reshape(-1))
        self._keep_state(state)
        if self.render_mode == "human":
            self.render()
        return observation.astype(space.dtype)[()], {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take an action.

        Parameters
        ----------
        action : int or ndarray
            An element of the action space. Box actions are converted to the space's dtype; the dynamics
            must handle actions beyond the bounds.

        Returns
        -------
        observation, reward, terminated, truncated, info
            As in Gymnasium. `truncated` is False, because time limits belong to the TimeLimit wrapper.

        Raises
        ------
        gymnasium.error.ResetNeeded
            Before the first `reset`.
        gymnasium.error.InvalidAction
            If the action is not in a discrete space, or does not have the shape of a Box space.
        """
        if self._parameters is None:
            raise gym.error.ResetNeeded("Call reset() before step().")
        state = self.get_state()
        space: Any = self.observation_space
        observation = np.empty(space.shape)
        reward, terminated = self._compiled_step.compiled(
            self._parameters, state, self.encode_action(action), observation.reshape(-1)
        )
        self._keep_state(state)
        if self.render_mode == "human":
            self.render()
        return observation.astype(space.dtype)[()], reward, terminated, False, {}

    # -- for compiled loops ----------------------------------------------------------------------

    @property
    def dynamics(self) -> CompiledDynamics:
        """The environment in the form for a compiled loop: present parameters, and no time limit."""
        return CompiledDynamics(
            step=self._compiled_step,
            reset=self._compiled_reset,
            parameters=self.refresh_parameters(),
            state_size=self.state_size,
            start_size=self.draw_starts(np.random.default_rng(0), 1).shape[1],
            action_size=_action_size(self.action_space),
            observation_size=int(np.prod(self.observation_space.shape or ())),
            time_limit=None,
            env=self,
        )

    def get_parameters(self) -> ArrayLike:
        """The array that the kernels receive as `parameters`; empty by default.

        It is read at every reset from Python and at every access to `dynamics`. An agent that learns
        from the environment reads it again whenever it has called its callbacks; between these calls
        the parameters do not change.
        """
        return ()

    def refresh_parameters(self) -> NDArray[np.float64]:
        """Read the parameters again, for instance after an attribute was set between two steps."""
        parameters = np.array(self.get_parameters(), dtype=np.float64).reshape(-1)
        self._parameters = parameters
        return parameters

    def draw_starts(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw the random numbers for the resets of the next `n` episodes.

        Parameters
        ----------
        generator : numpy.random.Generator
            The environment's `np_random`, or another one if only the shape is needed.
        n : int
            Episodes.

        Returns
        -------
        ndarray of shape (n, start_size)
            Drawn row by row: `n` rows at once equal `n` draws of one row.
        """
        low, high = np.atleast_1d(self.start_low), np.atleast_1d(self.start_high)
        return generator.uniform(low, high, (n, len(low)))

    @property
    def is_under_way(self) -> bool:
        """Whether `reset` has been called."""
        return self._parameters is not None

    def get_state(self) -> NDArray[np.float64]:
        """A copy of the state in the form for the kernels, of shape (state_size,)."""
        if self._state is None:
            raise gym.error.ResetNeeded("Call reset() before get_state().")
        return self._state.copy()

    def set_state(self, state: ArrayLike) -> None:
        """Continue from another state.

        Parameters
        ----------
        state : array-like of shape (state_size,)
            In the form for the kernels. It may come from a file, so a class whose kernels use its
            numbers as indices must override this method to reject those out of range.

        Raises
        ------
        ValueError
            If it has another shape, or an entry is not finite.
        """
        array = np.array(state, dtype=np.float64)
        if array.shape != (self.state_size,):
            raise ValueError(f"state must have shape ({self.state_size},), not {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"state must be finite, not {array}")
        self._keep_state(array)

    def _keep_state(self, state: NDArray[np.float64]) -> None:
        """Store a state without copying it; the caller must not write to it any more."""
        self._state = state

    def encode_action(self, action: Any) -> NDArray[np.float64]:
        """Convert an action for the kernels.

        Parameters
        ----------
        action : int or ndarray
            An element of the action space.

        Returns
        -------
        ndarray of shape (action_size,)
            A discrete action counted from 0; the numbers of a Box, rounded to its dtype.
        """
        space: Any = self.action_space
        # `contains` takes longer than the dynamics, so the usual case avoids it.
        if isinstance(space, spaces.Discrete) and isinstance(action, int | np.integer):
            index = int(action) - int(space.start)
            if 0 <= index < int(space.n):
                return np.array([float(index)])
        if isinstance(space, spaces.Box):
            array = np.asarray(action, dtype=space.dtype)
            if array.shape != space.shape:
                raise gym.error.InvalidAction(f"action must have shape {space.shape}, not {array.shape}")
            return array.astype(np.float64).reshape(-1)
        if not space.contains(action):
            raise gym.error.InvalidAction(f"action {action!r} is not in {space}")
        return np.asarray(action - getattr(space, "start", 0), dtype=np.float64).reshape(-1)


def _action_size(space: spaces.Space[Any]) -> int:
    """The length of an encoded action."""
    if isinstance(space, spaces.Discrete):
        return 1
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return int(np.prod(space.shape))
    raise ValueError(
        f"action space {space} is not supported; Discrete, MultiDiscrete, MultiBinary and Box are "
        "accepted"
    )
