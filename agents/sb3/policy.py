"""The policy object of the codebook agents."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.observations import ObservationCodec

# SB3's policy names, accepted so that scripts can pass the same name to every agent
SB3_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")

# What `predict` accepts: numbers or arrays of them; for Dict and Tuple spaces one entry for each part
Observation = ArrayLike | Mapping[str, ArrayLike] | Sequence[ArrayLike]


class CodebookPolicy:
    """The greedy policy of a learner, or its behaviour policy."""

    def __init__(self, learner: Any, observations: ObservationCodec, actions: ActionCodec) -> None:
        self.learner = learner
        self.observations = observations
        self.observation_space = observations.space
        self.actions = actions
        self.action_space = actions.space

    def __repr__(self) -> str:
        kind, learner = type(self).__name__, self.learner
        spaces = " ".join(
            f"{self.observation_space} -> {self.action_space}".split()
        )  # the repr of bounds has line breaks
        return (
            f"{kind}({type(learner).__name__}, n_cells={learner.n_cells}, "
            f"n_parameters={learner.n_parameters}, {spaces})"
        )

    def predict(
        self,
        observation: "Observation",
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose an action for an observation, or one for each of several.

        Parameters
        ----------
        observation : array-like, int, dict or tuple
            One observation as the environment returns it, or several as a VecEnv does: of shape
            (n, *shape), or a dict or tuple of such arrays.
        state, episode_start : optional
            Accepted for compatibility with SB3; the policy has no memory.
        deterministic : bool, default=False
            Take the greedy action instead of an epsilon-greedy one with the present exploration rate;
            for an actor the most probable action instead of one drawn from its probabilities.

        Returns
        -------
        actions : ndarray of shape action_space.shape or (n_observations, *action_space.shape)
        state : as given

        Raises
        ------
        ValueError
            If the observation is not in the observation space, or not finite.
        """
        points, single = self.observations.read(observation)
        # after the warm-up the learners check this themselves
        if not self.learner.is_scaled and not np.isfinite(points).all():
            raise ValueError("observation must be finite, but contains NaN or infinity.")
        actions = self.actions.decode_many(self.learner.act(points, deterministic))
        return (actions[0] if single else actions), state
