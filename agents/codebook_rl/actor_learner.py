"""The learner with an actor: actor-critic over aggregate states that an annealer makes finer."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import LARGEST
from oda_rl.agents import beta_policy, bounds
from oda_rl.agents.codebook_rl import actor_step
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.codebook_update import replay
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.codebook_rl.renewal import Known, carry_over, remember
from oda_rl.agents.codebook_rl.rules import actor_critic
from oda_rl.agents.compiled_rollout import ObserveFunction
from oda_rl.agents.config import TwoTimescaleACConfig
from oda_rl.agents.observation_scale import BlendedScale, ObservationScale

OBSERVE_NUMBERS = ObserveFunction(actor_step.observe_numbers)
OBSERVE_POINTS = ObserveFunction(actor_step.observe_points)
# Times that a warm-up goes on in which nothing happened
MOST_EXTENSIONS = 3
# One of so many observations is remembered, and counts as often.
REMEMBERED = 4


class ActorCriticLearner(TwoTimescaleLearner):
    """A `TwoTimescaleLearner` whose actions are drawn from the probabilities that an actor learned.

    It lives through two phases. *Scaling*: random actions, held for a few steps, tell the scale of the
    observations. The codebook then grows by these observations, seen again and again. *Learning*: as
    with Q values, but without random actions. In place of its Q values a cell has the preferences of
    the actor, in `codebook["q"]`, and a value, in `codebook["v"]`.

    Where all rewards of the first phase were the same, and no episode came to its end, there is nothing
    to learn from: random actions are then held twice as long, until another half of the observations is
    replaced, and so on, up to `MOST_EXTENSIONS` times. So a car in a valley gets out of it.

    Where actions are points of a Box, the preferences are those of `oda_rl.agents.beta_policy`, two for
    each coordinate. Rewards that differ tell little there, as actions have their costs: the warm-up goes
    on where no episode came to its end.

    A policy may keep to a small part of what random actions reach, or go far beyond. So whenever the
    steps have doubled, the observations of the last half tell the scale anew; where it is another one,
    the codebook grows once more, by these and by its cells of before, which hand on what they have
    learned. Where actions are numbered, some observations of the warm-up and of all times since are
    remembered, and count as much as those of late: a policy may have to go back there. And the scale
    stays after eight warm-ups: what a policy visits that hardly changes gets ever less.
    """

    config_class: ClassVar[Any] = TwoTimescaleACConfig
    rule: ClassVar[Any] = actor_critic
    table_rule: ClassVar[Any] = actor_critic
    scale_class: ClassVar[type[ObservationScale]] = BlendedScale
    _known: Known | None = None  # while the codebook grows anew
    _remembered: NDArray[np.float64] = np.empty((0, 0))

    def probabilities(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The actor's probabilities of numbered actions.

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
            If an observation is not finite, or actions are points.
        """
        if self.actions.is_continuous:
            raise ValueError("points of a Box have no probabilities; ask for distributions().")
        preferences = self.action_values(observations)
        parts = np.exp(preferences - preferences.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = parts / parts.sum(axis=1, keepdims=True)
        return found

    def distributions(self, observations: NDArray[Any]) -> tuple[NDArray[np.float64], ...]:
        """Where the actor's points of a Box lie, and how far they scatter.

        Parameters
        ----------
        observations : ndarray of shape (n, n_observed)
            In the environment's own units.

        Returns
        -------
        middles, deviations : ndarray of shape (n, n_coordinates)
            The greedy points, between mean and mode, and the standard deviations of each coordinate, in
            the environment's own units.

        Raises
        ------
        ValueError
            If an observation is not finite, or actions are numbered.
        """
        if not self.actions.is_continuous:
            raise ValueError("numbered actions have no deviations; ask for probabilities().")
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

        Where actions are points, of shape (n, 2 n_coordinates).

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        return super().action_values(observations)

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The most probable numbers, or the middles of `distributions`."""
        if self.actions.is_continuous:
            return self.distributions(observations)[0]
        return self.action_values(observations).argmax(axis=1)

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The greedy actions, or actions drawn from the actor of the present."""
        if deterministic:
            return self.greedy(observations)
        if self.actions.is_continuous:
            drawn = self._acting_rng.beta(*beta_policy.shapes(self.action_values(observations)))
            return beta_policy.scale_points(drawn, self.actions.centre, self.actions.scale)
        bounds = self.probabilities(observations).cumsum(axis=1)
        drawn = self._acting_rng.random((len(observations), 1)) * bounds[:, -1:]
        return (drawn >= bounds[:, :-1]).sum(axis=1)

    def figures(self) -> dict[str, float]:
        """As `Learner.figures`, with the share of episodes of late that told nothing."""
        share = float(self.numbers.figures[names.BLANK_SHARE])
        return {**super().figures(), "rollout/blank_episodes": share}

    def describe(self, preferences: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Greedy points and standard deviations, in the environment's units, of preferences (n, 2 m)."""
        middles = beta_policy.middles(preferences)
        found = beta_policy.scale_points(middles, self.actions.centre, self.actions.scale)
        return found, 2.0 * self.actions.scale * beta_policy.deviations(preferences)

    def _largest_value(self) -> float:
        """What values begin at: what all rewards had in common for ever, or an end that was seen.

        Where every reward of the warm-up was a gain, and no episode came to its end, there is no state
        that is worth less; where every one was a loss, none that is worth more. As long as values rise
        or fall to that, what was visited often seems better, or worse, than the rest, and all errors are
        alike.

        What an episode may end with tells that there is something to look for. It is of no use where a
        reward is for going on, and there is little of it at the end; numbered actions do without.
        """
        if self.config.criterion == "average":
            return 0.0
        ending = float(self.numbers.figures[names.BEST_ENDING]) if self.actions.is_continuous else 0.0
        return float(self.numbers.figures[names.COMMON_VALUE]) or min(ending, LARGEST)

    def _common_value(self) -> float:
        """What all rewards of the warm-up had in common, a gain or a loss, for ever; else 0."""
        if self.config.criterion != "discounted":
            return 0.0
        common = float(self.numbers.figures[names.LOWEST_REWARD])
        if self.actions.is_continuous and self.numbers.counters[names.TOLD]:
            common = 0.0  # an episode ended, be it later than the record goes
        elif not 0.0 < common < np.inf:
            sign = self.numbers.settings[names.SIGN]
            common = self.record.find_common_loss(sign, self.actions)
        return float(np.clip(common / (1.0 - self.config.gamma), -LARGEST, LARGEST))

    def _end_warm_up(self) -> None:
        self.numbers.figures[names.COMMON_VALUE] = self._common_value()
        super()._end_warm_up()

    def _note_reward(self, reward: float, terminated: bool) -> None:
        size, is_gain = self.rewards[0], self.numbers.settings[names.SIGN] * reward > 0.0
        varied = size > 0.0 and (abs(reward) != size or is_gain != (self.rewards[2] > 0.0))
        told = terminated or (varied and not self.actions.is_continuous)
        self.numbers.counters[names.TOLD] |= told
        figures = self.numbers.figures
        figures[names.USUAL_REWARD] = reward
        gain = 0.0 if terminated else self.numbers.settings[names.SIGN] * reward
        figures[names.LOWEST_REWARD] = min(figures[names.LOWEST_REWARD], gain)
        super()._note_reward(reward, terminated)

    def _look_further(self) -> bool:
        counters = self.numbers.counters
        if counters[names.TOLD] or counters[names.EXTENSIONS] == MOST_EXTENSIONS:
            return False
        counters[names.EXTENSIONS] += 1
        self.scale.thin_out()
        self._follow_extensions()
        return True

    def _follow_extensions(self) -> None:
        """Hold random actions of the warm-up for as long as it takes by now."""
        self.warm_up_hold = self.config.growth_hold << int(self.numbers.counters[names.EXTENSIONS])

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """As `Learner.get_state`; what was visited of late belongs to the episodes `under_way`."""
        state = super().get_state(under_way)
        if under_way and self.is_scaled and self._follows:
            kept = [self._visited, self._remembered] if len(self._remembered) else [self._visited]
            state["warm_up"]["seen"] = np.concatenate(kept)
        return state

    @property
    def _follows(self) -> bool:
        """Whether the scale may yet change."""
        is_point = self.actions.is_continuous
        often = actor_step.POINTS_FOLLOWED if is_point else actor_step.NUMBERS_FOLLOWED
        return int(self.numbers.counters[names.LEARNING_STEPS]) < often * len(self._visited)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        super().set_state(state)
        n, seen = len(self._visited), state["warm_up"]["seen"]
        is_whole = self.is_scaled and len(seen) >= n
        self._visited[:] = seen[:n] if is_whole else np.inf
        if self.is_scaled and n:
            self._remember(self.codebook.codevectors)  # all there is where the file has no more
            if len(seen) == n + len(self._remembered):
                self._remembered = seen[n:].copy()
        self._follow_extensions()

    def _start_learning(self) -> None:
        if self._known is None:
            figures, told = self.numbers.figures, self.numbers.counters[names.TOLD] > 0
            figures[[names.BLANK_SHARE, names.TOLD_RETURN]] = float(not told), np.inf
            super()._start_learning()
            return
        carry_over(self._known, self.slow.codebook, self.scale.centre, self.scale.scale, self.sizes)
        self.numbers.counters[names.PHASE] = names.LEARNING
        self.slow.go_on()

    def _finish_level(self) -> None:
        counters = self.numbers.counters
        if counters[names.LEVEL_DONE] == names.VISITED:
            counters[names.LEVEL_DONE] = 0
            self._renew()
        else:
            super()._finish_level()

    def _renew(self) -> None:
        """Where observations have another scale by now, take it, and let the codebook grow anew.

        What an actor has visited that has lost its way tells nothing of what a policy needs.
        """
        assert self._storage is not None
        assert self.annealer is not None
        visited = self._visited[np.abs(self._visited).max(axis=1) <= LARGEST]
        scale, book, numbers, memory = self.scale, self.slow.codebook, self.numbers, self.memory
        centre, width, reach = scale.centre, scale.scale, scale.reach
        if len(visited) < len(self._visited) // 2 or memory.lost.any():
            return
        visited = bounds.cut_odd(visited)
        remembered = np.repeat(self._remembered, REMEMBERED, axis=0)
        if len(remembered):
            era = (int(numbers.counters[names.LEARNING_STEPS]) // len(self._visited) + 1).bit_length()
            remember(self._remembered, visited, era, self.rng)
        if not scale.follow(visited, remembered):
            return
        self._storage.unload(book)
        cells = book.codevectors * width + centre
        temperature = self.config.softness * self.annealer.temperature
        monitor, payload = self._monitor, book.payload[:, : len(book)].copy()
        self._known = Known(book.codevectors.copy(), payload, temperature, centre, width, reach)
        self._monitor = None  # it follows all at once
        memory.z[:] = (memory.z * width + centre - scale.centre) / scale.scale
        memory.trace_scale[:] = 1.0
        steps = int(numbers.counters[names.STEPS])
        numbers.counters[[names.STEPS, names.PHASE]] = 0, names.GROWING
        points = scale.scaled(np.concatenate([visited, remembered, cells]))
        self.slow.begin(points, len(cells))
        self._begin_level()
        self._grow(points)
        numbers.counters[names.STEPS] = numbers.figures[names.NEXT_SLOW] = steps
        self._known, self._monitor = None, monitor
        if monitor:
            monitor.follow(scale.scaled(cells), book.codevectors)

    def _grow(self, points: NDArray[np.float64]) -> None:
        """Let the codebook grow by the observations of the warm-up, in another order each time."""
        if self._known is None:
            self._remember(points)
        counters, order = self.numbers.counters, np.empty(0, dtype=np.int64)
        points = np.ascontiguousarray(points)
        while counters[names.PHASE] == names.GROWING:
            order = order if len(order) else self.rng.permutation(len(points))
            order = order[replay(self._table.learning, points, order) :]
            if counters[names.LEVEL_DONE]:
                self._finish_level()

    def _remember(self, points: NDArray[np.float64]) -> None:
        """Remember some of the `points` (n, n_observed), in scaled units, where the scale follows."""
        n = 0 if self.actions.is_continuous else len(self._visited) // REMEMBERED
        self._remembered = self.scale.restore(points)[np.arange(n) * len(points) // max(n, 1)]

    @property
    def _observe(self) -> ObserveFunction:
        return OBSERVE_POINTS if self.actions.is_continuous else OBSERVE_NUMBERS
