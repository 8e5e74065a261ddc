"""What acts: the policy object of the codebook agents."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl.agents.actions import ActionCodec


class CodebookPolicy:
    """The greedy policy of a learner, or its epsilon-greedy one."""

    def __init__(self, learner: Any, observation_space: spaces.Box, actions: ActionCodec) -> None:
        self.learner = learner
        self.observation_space = observation_space
        self.actions = actions
        self.action_space = actions.space
        self._shape = observation_space.shape

    def __repr__(self) -> str:
        kind, learner = type(self).__name__, self.learner
        return (
            f"{kind}({type(learner).__name__}, n_cells={learner.n_cells}, "
            f"n_parameters={learner.n_parameters}, {self.observation_space} -> {self.action_space})"
        )

    def predict(
        self,
        observation: NDArray[Any],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose an action for an observation, or one for each of several.

        Parameters
        ----------
        observation : ndarray of shape (n_features,) or (n_observations, n_features)
            In the environment's own units.
        state, episode_start : optional
            For the interface's sake; the policy has no memory.
        deterministic : bool, default=False
            Greedy, instead of epsilon-greedy with the present exploration rate; of an actor the most
            probable action, instead of one drawn from its probabilities.

        Returns
        -------
        actions : ndarray of shape action_space.shape or (n_observations, *action_space.shape)
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
        actions = self.actions.decode_many(self.learner.act(points, deterministic))
        return (actions[0] if single else actions), state
