"""The learner with an actor: actor-critic over aggregate states that an annealer makes finer."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.codebook_rl import actor_step
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.codebook_rl.rules import actor_critic
from oda_rl.agents.compiled_rollout import ObserveFunction
from oda_rl.agents.config import TwoTimescaleACConfig
from oda_rl.agents.observation_scale import BlendedScale, ObservationScale

OBSERVE_ACTOR = ObserveFunction(actor_step.observe_actor)


class ActorCriticLearner(TwoTimescaleLearner):
    """A `TwoTimescaleLearner` whose actions are drawn from the probabilities that an actor learned.

    It lives through the same phases: scaling, growing, learning. In place of its Q values a cell has
    the preferences of the actor, in `codebook["q"]`, and a value, in `codebook["v"]`.
    """

    config_class: ClassVar[Any] = TwoTimescaleACConfig
    rule: ClassVar[Any] = actor_critic
    scale_class: ClassVar[type[ObservationScale]] = BlendedScale

    def probabilities(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The actor's probabilities of the actions.

        Parameters
        ----------
        observations : ndarray of shape (n, n_observed)
            In the environment's own units.

        Returns
        -------
        ndarray of shape (n, n_actions)

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        preferences = self.action_values(observations)
        parts = np.exp(preferences - preferences.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = parts / parts.sum(axis=1, keepdims=True)
        return found

    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The actor's preferences h(x, a), of shape (n, n_actions); probabilities are their softmax.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        return super().action_values(observations)

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The most probable actions, or actions drawn from the probabilities of the present."""
        if deterministic:
            return self.greedy(observations)
        bounds = self.probabilities(observations).cumsum(axis=1)
        drawn = self._acting_rng.random((len(observations), 1)) * bounds[:, -1:]
        return (drawn >= bounds[:, :-1]).sum(axis=1)

    @property
    def _observe(self) -> ObserveFunction:
        return OBSERVE_ACTOR
