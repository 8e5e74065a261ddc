"""What is done before an agent begins to learn: compile its code, and analyse its observations."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize, unwrap_vec_wrapper

from oda_rl._types import Array
from oda_rl.agents.codecs import LOOKED_AT, OneHotCodec, PrincipalCodec, SeenStatesCodec
from oda_rl.agents.encoding import Encoding
from oda_rl.agents.observations import BadTransitionError, ObservationCodec

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


@cache
def load_kernels(learner_class: Any, joint: bool = False, table: bool = False) -> None:
    """Compile or load the kernels of a learner, with continuous actions if `joint`, or with a `table`.

    The first call of a kernel compiles it, or reads it from the cache. An interrupt at that moment
    leaves numba half loaded, so this is done before anything has been learned.
    """
    learner = learner_class.smallest(joint=joint, table=table)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (64, 1))
    points = np.round(points) if table else points
    learner.begin(0, points[0])
    for t, point in enumerate(points):
        learner.step(0, point, 0.0, False, t % 8 == 7)
    learner.greedy(points)


def find_bounds(env: Any, observations: ObservationCodec) -> tuple[Array, Array]:
    """The bounds of the numbers of a row, correct also for stacked frames, and for normalised ones.

    SB3's VecFrameStack puts frames one after the other, but its space repeats each bound `n_stack` times
    before the next: the angle in one frame then has the bounds of the position in another. The parts of
    a Dict are stacked separately. The space of VecNormalize has the bounds of the environment's numbers;
    normalised ones have none, and differences of goals neither.

    Parameters
    ----------
    env : VecEnv or None
        Where the observations come from.
    observations : ObservationCodec
        The codec for the observation space of `env`.

    Returns
    -------
    low, high : ndarray of shape (n_features,)

    Examples
    --------
    >>> from stable_baselines3.common.vec_env import DummyVecEnv
    >>> import gymnasium as gym
    >>> env = VecFrameStack(DummyVecEnv([lambda: gym.make("MountainCar-v0")]), 2)
    >>> bounds = find_bounds(env, ObservationCodec(env.observation_space))
    >>> env.observation_space.high, bounds[1].round(2)
    (array([0.6 , 0.6 , 0.07, 0.07], dtype=float32), array([0.6 , 0.07, 0.6 , 0.07]))
    """
    low, high = observations.low.copy(), observations.high.copy()
    _stack_bounds(env, observations, low, high)
    normal: Any = unwrap_vec_wrapper(env, VecNormalize)
    if normal and normal.norm_obs and observations.normalization is None:
        for part in observations.parts:
            if part.name in (normal.norm_obs_keys or [""]):
                low[part.columns], high[part.columns] = -np.inf, np.inf
    return low, high


def _stack_bounds(env: Any, observations: ObservationCodec, low: Array, high: Array) -> None:
    """Put the bounds of stacked frames in the order of the numbers of a row."""
    stack: Any = unwrap_vec_wrapper(env, VecFrameStack)
    if not stack or observations.is_table or stack.observation_space != observations.space:
        return
    stacked = getattr(stack.stacked_obs, "sub_stacked_observations", {"": stack.stacked_obs})
    for part in observations.parts:
        frame = stacked[part.name].observation_space
        own: Any = part.space
        bounds = np.stack([own.low.ravel(), own.high.ravel()])
        if not np.array_equal(bounds, np.stack([low[part.columns], high[part.columns]])):
            continue  # components, or differences of goals, which have no bounds
        by_axis = np.ones(len(frame.shape), dtype=np.int64)
        by_axis[stacked[part.name].repeat_axis] = stacked[part.name].n_stack
        low[part.columns] = np.tile(frame.low, by_axis).ravel()
        high[part.columns] = np.tile(frame.high, by_axis).ravel()


def detect_one_hot(model: "OnlineAlgorithm") -> None:
    """Use observations as state indices, if the first ones are one-hot."""
    possible = model._can_keep_a_table and not model.encoding.one_hot
    possible = possible and model.num_timesteps == 0 and model.learner.n_learned == 0
    if possible and OneHotCodec.suits(model.observation_space, model._last_obs):
        model.encoding = Encoding(one_hot=True)
        model._build()


def prepare(model: "OnlineAlgorithm", total_timesteps: int, fresh: bool, may_recur: bool = True) -> None:
    """Begin the episodes, after it has been found out how to read large observations.

    Parameters
    ----------
    model : OnlineAlgorithm
        The agent, at the start of a call of `learn`.
    total_timesteps : int
        Value of `num_timesteps` at which that call ends.
    fresh : bool
        Whether new episodes begin. If not, they do so only after this has been found out.
    may_recur : bool, default=True
        Whether large observations become states if they recur; else they are reduced to components.

    Raises
    ------
    BadTransitionError
        If an observation from which components are to be learned is not finite.
    """
    if _lacks_components(model):
        _study_observations(model, total_timesteps, may_recur)
        if _lacks_components(model):
            return
        fresh = True
    if fresh:
        model._begin()


def _lacks_components(model: "OnlineAlgorithm") -> bool:
    return isinstance(model.observations, PrincipalCodec) and not model.encoding.components


def _study_observations(model: "OnlineAlgorithm", total_timesteps: int, may_recur: bool) -> None:
    """Act at random to find out whether large observations recur, or their components; steps count.

    If the training ends before there are enough observations, the model keeps those it has, and the next
    call of `learn` continues. The transitions are not used for learning, and callbacks are not called.
    """
    env, seen, n = model.env, model._first_observations, model.n_envs
    codec: Any = model.observations
    assert env is not None
    steps = LOOKED_AT // n
    if not seen:
        seen.append(_checked(codec, model._last_obs, n))
    while len(seen) <= steps and model.num_timesteps < total_timesteps and not model.stopping:
        actions = [model.action_space.sample() for _ in range(n)]
        model._step_begun = model.num_timesteps + n
        observations = env.step(np.array(actions))[0]
        model.num_timesteps += n
        seen.append(_checked(codec, observations, n))
        model._last_obs = observations  # type: ignore[assignment]
    if len(seen) <= steps:
        return
    model.encoding = _find_encoding(model, _joined(seen), len(seen) * n, may_recur)
    model._first_observations = []
    model._build()
    model.learner.set_horizon(model._total_timesteps)
    model._last_obs = env.reset()  # type: ignore[assignment]


def _find_encoding(model: "OnlineAlgorithm", observations: Any, n: int, may_recur: bool) -> Encoding:
    """Number `n` stacked observations as states if they recur, else learn their components."""
    codec: Any = model.observations
    possible = may_recur and model._can_keep_a_table and codec.normalization is None
    if possible and SeenStatesCodec.recur(codec.space, observations, n):
        return Encoding(states={})
    return Encoding(components=codec.learned(observations, n))


def _checked(codec: PrincipalCodec, observations: Any, n: int) -> Any:
    """The observations of a step; raises a BadTransitionError if they are not finite."""
    if not np.isfinite(codec.encode_many(observations, n)).all():
        raise BadTransitionError(
            "the environment returned an observation with NaN or infinity; it must be finite."
        )
    return observations


def _joined(seen: list[Any]) -> Any:
    """Concatenate the observations of several steps, each as a VecEnv returns it."""
    if isinstance(seen[0], dict):
        return {key: np.concatenate([one[key] for one in seen]) for key in seen[0]}
    if isinstance(seen[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*seen, strict=True))
    return np.concatenate(seen)
