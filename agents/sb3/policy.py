"""What acts: the policy object of the codebook agents."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.observations import ObservationCodec

# What SB3's agents call theirs: scripts that hand one of these to every agent may hand it to ours
SB3_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


class CodebookPolicy:
    """The greedy policy of a learner, or its epsilon-greedy one."""

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
        )  # bounds have lines
        return (
            f"{kind}({type(learner).__name__}, n_cells={learner.n_cells}, "
            f"n_parameters={learner.n_parameters}, {spaces})"
        )

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose an action for an observation, or one for each of several.

        Parameters
        ----------
        observation : ndarray, int, dict or tuple
            As the environment returns it; or several, as a VecEnv does: of shape (n, *shape), or a dict
            or tuple of such arrays.
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
            If the observation is not one of the space's, or not finite.
        """
        points, single = self.observations.read(observation)
        # learners look at them once they know their scale
        if not self.learner.is_scaled and not np.isfinite(points).all():
            raise ValueError("observation contains NaN or infinity.")
        actions = self.actions.decode_many(self.learner.act(points, deterministic))
        return (actions[0] if single else actions), state
