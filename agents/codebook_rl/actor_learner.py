"""The actor-critic learner: an actor and a critic over aggregate states that an annealer refines."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import LARGEST
from oda_rl.agents import beta_policy, bounds
from oda_rl.agents.codebook_rl import actor_step
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.actor_warm_up import ActorWarmUp
from oda_rl.agents.codebook_rl.rules import actor_critic
from oda_rl.agents.codebook_rl.slow_timescale import FormerCells, carry_over, mix_periods
from oda_rl.agents.compiled_rollout import ObserveFunction
from oda_rl.agents.config import TwoTimescaleACConfig
from oda_rl.agents.observation_scale import BlendedScale, ObservationScale

OBSERVE_NUMBERS = ObserveFunction(actor_step.observe_numbers)
OBSERVE_POINTS = ObserveFunction(actor_step.observe_points)
# One of this many observations is kept for later, and counts this many times.
REMEMBERED = 4


class ActorCriticLearner(ActorWarmUp):
    """A `TwoTimescaleLearner` whose actions are drawn from the probabilities of a learned actor.

    It has two phases. *Scaling*: the scale of the observations is estimated under random actions, each
    held for a few steps; then the codebook grows by repeated passes over these observations.
    *Learning*: as with Q values, but without random actions. In place of Q values a cell has the
    preferences of the actor, in `codebook["q"]`, and a state value, in `codebook["v"]`.

    With discrete states, agents have it only for actions of several parts; otherwise they have the Q
    values of a `TwoTimescaleLearner`. With continuous actions, the preferences are those of
    `oda_rl.agents.beta_policy`, two for each coordinate.

    A policy may stay in a small part of what random actions reach, or go far beyond it. So each time the
    number of steps has doubled, the scale is estimated again from observations of the last half of all
    steps. If it has changed, the codebook grows again, from these observations and its previous cells,
    and takes over what the previous cells had learned. With discrete actions, samples of observations
    from the warm-up and from all later periods are kept, and count as much as recent ones, because a
    policy may have to return there. The scale then also stays fixed after eight times the steps of the
    warm-up, as a policy that hardly changes visits ever less.
    """

    config_class: ClassVar[Any] = TwoTimescaleACConfig
    rule: ClassVar[Any] = actor_critic
    table_rule: ClassVar[Any] = actor_critic
    scale_class: ClassVar[type[ObservationScale]] = BlendedScale
    _former: FormerCells | None = None  # the previous codebook, while a new one grows
    _remembered: NDArray[np.float64] = np.empty((0, 0))

    def probabilities(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The actor's probabilities of discrete actions.

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
            If an observation is not finite, or actions are continuous.
        """
        if self.actions.is_continuous:
            raise ValueError("continuous actions have no probabilities; use distributions() instead.")
        preferences = self.action_values(observations)
        parts = np.exp(preferences - preferences.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = parts / parts.sum(axis=1, keepdims=True)
        return found

    def distributions(self, observations: NDArray[Any]) -> tuple[NDArray[np.float64], ...]:
        """Greedy actions and standard deviations of the actor's continuous actions.

        Parameters
        ----------
        observations : ndarray of shape (n, n_observed)
            In the environment's own units.

        Returns
        -------
        middles, deviations : ndarray of shape (n, n_coordinates)
            The greedy actions, between mean and mode, and the standard deviation of each coordinate, in
            the environment's own units.

        Raises
        ------
        ValueError
            If an observation is not finite, or actions are discrete.
        """
        if not self.actions.is_continuous:
            raise ValueError(
                "discrete actions have no standard deviations; use probabilities() instead."
            )
        return self.describe(self.action_values(observations))

    def state_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The critic's values of observations of shape (n, n_observed), of shape (n,).

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        return self._evaluate(observations)[1][:, -1]

    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The actor's preferences h(x, a), of shape (n, n_actions); probabilities are their softmax.

        With continuous actions they are of shape (n, 2 n_coordinates), as `beta_policy` uses them.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        return super().action_values(observations)

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The most probable discrete actions, or the `middles` of `distributions`."""
        if self.actions.is_continuous:
            return self.distributions(observations)[0]
        return self.action_values(observations).argmax(axis=1)

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The greedy actions if `deterministic`, else actions drawn from the current policy."""
        if deterministic:
            return self.greedy(observations)
        if self.actions.is_continuous:
            drawn = self._acting_rng.beta(*beta_policy.shapes(self.action_values(observations)))
            return beta_policy.scale_points(drawn, self.actions.centre, self.actions.scale)
        bounds = self.probabilities(observations).cumsum(axis=1)
        drawn = self._acting_rng.random((len(observations), 1)) * bounds[:, -1:]
        return (drawn >= bounds[:, :-1]).sum(axis=1)

    def figures(self) -> dict[str, float]:
        """As `Learner.figures`, with the share of recent episodes that were blank."""
        share = float(self.numbers.figures[names.BLANK_SHARE])
        return {**super().figures(), "rollout/blank_episodes": share}

    def describe(self, preferences: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Convert preferences (n, 2 m) to greedy actions and deviations, in the environment's units."""
        middles = beta_policy.middles(preferences)
        found = beta_policy.scale_points(middles, self.actions.centre, self.actions.scale)
        return found, 2.0 * self.actions.scale * beta_policy.deviations(preferences)

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """As `Learner.get_state`; with recently visited observations if episodes are `under_way`."""
        state = super().get_state(under_way)
        if under_way and self.is_scaled and self._scale_may_change:
            kept = [self._remembered] if len(self._remembered) else []
            state["warm_up"]["seen"] = np.concatenate([self.scale.visited, *kept])
        return state

    @property
    def _scale_may_change(self) -> bool:
        """Whether the scale may still change."""
        is_point = self.actions.is_continuous
        often = actor_step.POINTS_FOLLOWED if is_point else actor_step.NUMBERS_FOLLOWED
        return int(self.numbers.counters[names.LEARNING_STEPS]) < often * len(self.scale.visited)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        super().set_state(state)
        n, seen = len(self.scale.visited), state["warm_up"]["seen"]
        is_whole = self.is_scaled and len(seen) >= n
        self.scale.visited[:] = seen[:n] if is_whole else np.inf
        if self.is_scaled and n:
            self._keep_points(self.codebook.codevectors)  # fallback if the file does not have them
            if len(seen) == n + len(self._remembered):
                self._remembered = seen[n:].copy()
        self._set_warm_up_hold()

    def _start_learning(self) -> None:
        if self._former is None:
            figures, informative = self.numbers.figures, self.numbers.counters[names.INFORMATIVE] > 0
            figures[[names.BLANK_SHARE, names.INFORMATIVE_RETURN]] = float(not informative), np.inf
            figures[names.TERMINATED_RETURN] = -np.inf
            super()._start_learning()
            return
        carry_over(self._former, self.slow.codebook, self.scale.centre, self.scale.scale, self.sizes)
        self.numbers.counters[names.PHASE] = names.LEARNING
        self.slow.go_on()

    def _finish_level(self) -> None:
        counters = self.numbers.counters
        if counters[names.LEVEL_DONE] == names.VISITED:
            counters[names.LEVEL_DONE] = 0
            self._rescale()
        else:
            super()._finish_level()

    def _rescale(self) -> None:
        """Estimate the scale again; if it has changed, grow the codebook again in the new units.

        Nothing is done while the actor is lost in an environment (`actor_step`): what it visits then
        does not show what a policy needs.
        """
        assert self._storage is not None
        assert self.annealer is not None
        scale, book, numbers, memory = self.scale, self.slow.codebook, self.numbers, self.memory
        centre, width, reach = scale.centre, scale.scale, scale.reach
        visited = scale.visited[np.abs(scale.visited).max(axis=1) <= LARGEST]
        if len(visited) < len(scale.visited) // 2 or memory.lost.any():
            return
        visited = bounds.cut_odd(visited)
        remembered = np.repeat(self._remembered, REMEMBERED, axis=0)
        if len(remembered):
            era = int(numbers.counters[names.LEARNING_STEPS]) // len(scale.visited) + 1
            mix_periods(self._remembered, visited, era.bit_length(), self.rng)
        if not scale.follow(visited, remembered):
            return
        self._storage.unload(book)
        cells = book.codevectors * width + centre
        temperature = self.config.softness * self.annealer.temperature
        monitor, payload = self._monitor, book.payload[:, : len(book)].copy()
        self._former = FormerCells(book.codevectors.copy(), payload, temperature, centre, width, reach)
        self._monitor = None  # it follows the whole change at the end
        memory.z[:] = (memory.z * width + centre - scale.centre) / scale.scale
        memory.trace_scale[:] = 1.0
        steps = int(numbers.counters[names.STEPS])
        numbers.counters[[names.STEPS, names.PHASE]] = 0, names.GROWING
        points = scale.scaled(np.concatenate([visited, remembered, cells]))
        self.slow.begin(points, n_before=len(cells))
        self._begin_level()
        self._grow(points)
        numbers.counters[names.STEPS] = numbers.figures[names.NEXT_SLOW] = steps
        self._former, self._monitor = None, monitor
        if monitor:
            monitor.follow(scale.scaled(cells), book.codevectors)

    def _grow(self, points: NDArray[np.float64]) -> None:
        """Let the codebook grow by passes over the `points`, in a new random order each time."""
        if self._former is None:
            self._keep_points(points)
        counters, order = self.numbers.counters, np.empty(0, dtype=np.int64)
        points = np.ascontiguousarray(points)
        while counters[names.PHASE] == names.GROWING:
            order = order if len(order) else self.rng.permutation(len(points))
            order = order[actor_step.replay(self._table.learning, points, order) :]
            if counters[names.LEVEL_DONE]:
                self._finish_level()

    def _keep_points(self, points: NDArray[np.float64]) -> None:
        """Keep some of the `points` (n, n_observed), in scaled units; none for continuous actions."""
        n = 0 if self.actions.is_continuous else len(self.scale.visited) // REMEMBERED
        self._remembered = self.scale.restore(points)[np.arange(n) * len(points) // max(n, 1)]

    @property
    def _observe(self) -> ObserveFunction:
        return OBSERVE_POINTS if self.actions.is_continuous else OBSERVE_NUMBERS
