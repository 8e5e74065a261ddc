"""Wrappers that replace the observations of an environment by cells of a partition."""

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from oda_rl.codebook.identities import Birth
from oda_rl.envs.aggregator import Aggregator, Encoding, Partition, StateEncoder
from oda_rl.estimators.partition import ODAPartition


class _Aggregation(RecordConstructorArgs):
    """What both wrappers share; derive from it and from a wrapper class of Gymnasium, in this order."""

    def __init__(
        self,
        env: Any,
        partition: Partition = None,
        learn: bool = True,
        max_states: int | None = None,
        warmup_steps: int = 1000,
        encoding: Encoding = "number",
        softness: float | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            partition=partition,
            learn=learn,
            max_states=max_states,
            warmup_steps=warmup_steps,
            encoding=encoding,
            softness=softness,
        )
        super(RecordConstructorArgs, self).__init__(env)  # type: ignore[call-arg]  # Gymnasium's wrapper
        is_vector = isinstance(env, gym.vector.VectorEnv)
        space = env.single_observation_space if is_vector else env.observation_space
        n_envs = env.num_envs if is_vector else 1
        self._aggregator = Aggregator(space, partition, learn, max_states, warmup_steps, n_envs)
        self._encoder = StateEncoder(self._aggregator, encoding, softness)
        self.observation_space: Any = self._encoder.space
        if is_vector:
            self.single_observation_space: Any = self._encoder.space
            self.observation_space = batch_space(self._encoder.space, n_envs)

    @property
    def partition(self) -> ODAPartition:
        """The partition with what has been learned."""
        return self._aggregator.partition

    @property
    def n_states(self) -> int:
        """Cells at present."""
        return self._aggregator.n_states

    @property
    def births(self) -> list[Birth]:
        """States that have split off from others, in order of time."""
        return self._aggregator.births

    @property
    def learn(self) -> bool:
        """Whether the partition continues to learn."""
        return self._aggregator.learn

    @learn.setter
    def learn(self, learn: bool) -> None:
        self._aggregator.set_learn(learn)


class StateAggregation(_Aggregation, gym.ObservationWrapper):
    """Replace Box observations by the numbers of their cells, in a `Discrete(max_states)` space.

    The cells are those of an `ODAPartition`, which either continues to learn from the observations or
    stays fixed. Observations may be unbounded. A cell keeps its number while the codebook grows: when it
    splits, one child keeps the number and the other gets a new one.

    Parameters
    ----------
    env : gymnasium.Env
        With Box observations of any shape.
    partition : ODAPartition, path or None, default=None
        A fitted partition; an unfitted one to start from; the path of a model file; or None for
        `ODAPartition(max_states, samples_per_cell=25, rehearse=False, random_state=0)`. A given
        partition is copied, and never changed.
    learn : bool, default=True
        Whether to continue learning. False needs a fitted partition. It is also an attribute, which can
        be changed at any time after the warm-up.
    max_states : int, optional
        The largest number of cells at a time; the numbers of states are below it. By default the
        maximum of the partition, which is 100 for a new one.
    warmup_steps : int, default=1000
        Observations that are collected before a new codebook starts; until then there is one state, 0.
        The scale of coordinates without finite bounds is estimated from them; that of others is half
        their range. A partition with a `scale` of its own keeps it.
    encoding : {"number", "one_hot", "codevector", "association", "features"}, default="number"
        How a state is represented: as its number; as a one-hot vector of `max_states` entries; as the
        codevector of its cell, in the units of the observations; as the association probabilities
        (eq. 6) of all cells, indexed by their numbers; or as `features` for a network, which are these
        probabilities normalised to a vector of length 1.
    softness : float, optional
        The association probabilities are computed at this multiple of the temperature of the partition;
        0 gives all to the nearest cell. By default 4, for `features` 16.

    Attributes
    ----------
    partition : ODAPartition
        What has been learned, except from the latest observations (they are processed 64 at a time). In
        the warm-up it is not fitted yet. `partition.save(path)` saves it with the numbers of its cells.
    n_states : int
        Cells at present.
    births : list of Birth
        A record `(cell, parent)` for every state that has split off from another since the wrapper was
        made. A table of values can be extended by copying: `for cell, parent in env.births[seen:]`.
    learn : bool
        As the parameter.

    Raises
    ------
    TypeError
        If `partition` is something else.
    ValueError
        If the observation space is not a Box, or does not fit the partition; if `max_states` is too
        small, or another parameter is not accepted or takes too much memory; when an observation is not
        finite, or outside the domain of the partition's divergence.

    See Also
    --------
    VectorStateAggregation : The wrapper for vector environments, with one partition for all of them.
    gymnasium.wrappers.DiscretizeObservation : A uniform grid, for bounded observations.

    Notes
    -----
    If the environments of a vector environment are wrapped one by one, each learns its own partition,
    and a number means a different cell in each. Give them a fitted partition with `learn=False`, or wrap
    them all in `VectorStateAggregation`.

    Values are learned best when the cells do not change: let the codebook grow under random actions
    first, and then set `learn = False`.

    When all numbers are in use, those of cells that have merged with others are used again, the longest
    unused first. This is rare if `max_states` is larger than the number of codevectors.

    Examples
    --------
    >>> import gymnasium as gym
    >>> from oda_rl.envs import StateAggregation
    >>> env = StateAggregation(gym.make("CartPole-v1"), max_states=50)
    >>> env.observation_space
    Discrete(50)
    >>> _ = env.reset(seed=0)
    >>> _ = env.action_space.seed(0)
    >>> for _ in range(5_000):
    ...     state, reward, terminated, truncated, info = env.step(env.action_space.sample())
    ...     if terminated or truncated:
    ...         state, info = env.reset()
    >>> env.n_states > 10
    True
    >>> env.revert_observation(state).shape
    (4,)
    """

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment; return the state in place of the observation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._encoder.encode(observation), reward, terminated, truncated, info

    def observation(self, observation: NDArray[Any]) -> Any:
        """The state of an observation; learn from the observation if `learn`."""
        return self._encoder.encode(observation)

    def revert_observation(self, state: int) -> NDArray[Any]:
        """The codevector of a state.

        Parameters
        ----------
        state : int
            The number of a present cell.

        Returns
        -------
        ndarray of the shape of an observation
            In the units of the observations.

        Raises
        ------
        ValueError
            If no cell has this number.
        """
        return self._aggregator.revert(state)


class VectorStateAggregation(_Aggregation, gym.vector.VectorWrapper):
    """`StateAggregation` for a vector environment: one partition learns from all environments.

    Works with all of Gymnasium's autoreset modes. Each observation is used for learning once: at a reset
    with `options={"reset_mask": ...}` only those of the environments that were reset are used. If an
    environment is reset in the step that ends its episode (SAME_STEP), `info["final_obs"]` has the final
    state, and the final observation is used for learning, too.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
        With Box observations of any shape.
    partition, learn, max_states, warmup_steps, encoding, softness
        As for `StateAggregation`.

    Attributes
    ----------
    partition, n_states, births, learn
        As for `StateAggregation`.

    Raises
    ------
    TypeError, ValueError
        As for `StateAggregation`.

    Examples
    --------
    >>> import gymnasium as gym
    >>> from oda_rl.envs import VectorStateAggregation
    >>> envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    >>> envs = VectorStateAggregation(envs, max_states=50)
    >>> envs.single_observation_space, envs.observation_space
    (Discrete(50), MultiDiscrete([50 50 50]))
    >>> states, info = envs.reset(seed=0)
    >>> states
    array([0, 0, 0])
    """

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Reset all environments, or those selected by `options["reset_mask"]`."""
        mask = None if options is None else options.get("reset_mask")
        observations, info = self.env.reset(seed=seed, options=options)
        return self._encoder.encode_many(observations, mask), info

    def step(self, actions: Any) -> tuple[NDArray[Any], Any, Any, Any, dict[str, Any]]:
        """Step the environments; return states in place of observations."""
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        if "final_obs" in info:
            info = {**info, "final_obs": self._final_states(info["final_obs"])}
        states = self._encoder.encode_many(observations)
        return states, rewards, terminations, truncations, info

    def revert_observation(self, states: ArrayLike) -> NDArray[Any]:
        """The codevectors of some states.

        Parameters
        ----------
        states : array-like of int, of shape (n,)
            The numbers of present cells.

        Returns
        -------
        ndarray of shape (n, *shape of an observation)
            In the units of the observations.

        Raises
        ------
        ValueError
            If one of the numbers belongs to no cell.
        """
        return self._aggregator.revert(states)

    def _final_states(self, observations: NDArray[Any]) -> NDArray[Any]:
        states = np.full(len(observations), None, dtype=object)
        for e, observation in enumerate(observations):
            if observation is not None:
                states[e] = self._encoder.encode(observation)
        return states
