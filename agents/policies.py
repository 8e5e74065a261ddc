"""What acts: the policy object of the codebook agents."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class CodebookPolicy:
    """The greedy policy of a learner, or its epsilon-greedy one.

    Parameters
    ----------
    learner : Learner
        Tells the greedy actions and the exploration rate.
    observation_space : gymnasium.spaces.Box
        Of shape (n_features,).
    action_space : gymnasium.spaces.Discrete
        The actions.
    """

    def __init__(
        self, learner: Any, observation_space: spaces.Box, action_space: spaces.Discrete
    ) -> None:
        self.learner = learner
        self.observation_space = observation_space
        self.action_space = action_space
        self._shape = observation_space.shape
        self._start = int(action_space.start)

    def predict(
        self,
        observation: NDArray[Any],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...] | None]:
        """Choose an action for an observation, or one for each of several.

        Parameters
        ----------
        observation : ndarray of shape (n_features,) or (n_observations, n_features)
            In the environment's own units.
        state, episode_start : optional
            For the interface's sake; the policy has no memory.
        deterministic : bool, default=False
            Greedy, instead of epsilon-greedy with the present exploration rate.

        Returns
        -------
        actions : ndarray of shape () or (n_observations,)
        state : as given

        Raises
        ------
        ValueError
            If the observation has another shape, or is not finite.
        """
        points = np.asarray(observation)
        single = points.shape == self._shape
        if single:
            points = points[None]
        elif points.ndim != 2 or points.shape[1:] != self._shape:
            raise ValueError(
                f"observation has shape {points.shape}; {self._shape} or (n, {self._shape[0]}) "
                "is expected."
            )
        actions = self.learner.greedy(points)
        if not deterministic:
            actions = self.learner.explore(actions)
        if self._start:
            actions += self._start
        return (actions[0] if single else actions), state
