"""The warm-up of an actor: how long it is, what it tries, and what it tells about the rewards."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import LARGEST
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.config import TwoTimescaleACConfig

# Most extensions of a warm-up in which there was nothing to learn from
MOST_EXTENSIONS = 3
# Steps in which the discount rises if rewards are dense (`rules.traces.find_discount`)
SHORT_STEPS = 30_000.0
# Transitions of the warm-up after which actions are held no longer if rewards say which states are good
FIRST_HELD = 200


class ActorWarmUp(TwoTimescaleLearner):
    """A `TwoTimescaleLearner` whose warm-up goes on until there is something to learn from.

    If all rewards of the first phase were the same and no episode terminated, there is nothing to learn
    from. Every other observation is then dropped, and as many new ones are collected with random actions
    that are held twice as long; this is repeated up to `MOST_EXTENSIONS` times. It gets the car out of
    the valley in MountainCar, for example.

    If actions have costs, and nothing else has, rewards that differ show little, too. The warm-up is
    then extended whenever no episode terminated, and state values start at the best reward that
    terminated one. Otherwise the actor would learn to do nothing before it finds what actions are for.

    Continuous actions often have costs among others, so that the same is done whatever the rewards are,
    unless these say which states are good: if actions explain little of them. Then there is no end to
    look for. Actions are held for one step instead, since held ones lead far from where such rewards are
    found, and the actor's preferences decay after every episode with a return below that of any episode
    of the warm-up: it has become worse than random actions, and may be too sure to find back by itself.
    """

    config: TwoTimescaleACConfig

    def _largest_value(self) -> float:
        """Initial state value: the common part of all rewards for ever, or else the best ending seen.

        If every reward of the warm-up was a gain, and no episode terminated, no state is worth less than
        this common value; if every reward was a loss, none is worth more. Starting elsewhere, all values
        would first have to rise or fall to it: meanwhile often visited states would seem better, or
        worse, than the rest, and all errors would be alike.

        The best reward that terminated an episode makes the agent look for such an end. This does not
        help if rewards are for going on, with little at the end. With discrete actions it is used only
        if all other rewards are costs of actions.
        """
        figures = self.numbers.figures
        return float(figures[names.COMMON_VALUE]) or min(float(figures[names.BEST_ENDING]), LARGEST)

    def _common_value(self) -> float:
        """The value of receiving for ever what all rewards of the warm-up had in common; else 0."""
        common = float(self.numbers.figures[names.LOWEST_REWARD])
        if self.actions.is_continuous and self.numbers.counters[names.INFORMATIVE]:
            common = 0.0  # an episode terminated, possibly after the end of the record
        elif not 0.0 < common < np.inf:
            sign = self.numbers.settings[names.SIGN]
            common = self.record.find_common_loss(sign, self.actions)
        return float(np.clip(common / (1.0 - self.gamma), -LARGEST, LARGEST))

    @property
    def _looks_for_ends(self) -> bool:
        """Whether the rewards of the warm-up may only be costs, for an end that has to be found."""
        return self.actions.is_continuous or self._only_actions_cost

    @property
    def _only_actions_cost(self) -> bool:
        return self.record.only_actions_cost(float(self.numbers.settings[names.SIGN]), self.actions)

    def _open_table(self) -> None:
        figures = self.numbers.figures  # there is no warm-up whose episodes could be worse or better
        figures[[names.LEAST_RETURN, names.TERMINATED_RETURN]] = -np.inf
        super()._open_table()

    def _end_warm_up(self) -> None:
        figures = self.numbers.figures
        figures[names.COMMON_VALUE] = self._common_value()
        if not self._looks_for_ends:
            figures[names.BEST_ENDING] = 0.0
        figures[names.ONLY_COSTS] = float(figures[names.BEST_ENDING] > 0.0 and self._only_actions_cost)
        figures[names.DENSE] = SHORT_STEPS if self.record.is_dense(self.actions) else 0.0
        if not self._rewards_guide() or figures[names.LEAST_RETURN] == 0.0:
            figures[names.LEAST_RETURN] = -np.inf
        self.memory.total[:] = 0.0
        super()._end_warm_up()

    def _note_reward(self, reward: float, terminated: bool) -> None:
        size, is_gain = self.rewards[0], self.numbers.settings[names.SIGN] * reward > 0.0
        varied = size > 0.0 and (abs(reward) != size or is_gain != (self.rewards[2] > 0.0))
        varied = varied and not self.actions.is_continuous
        known = names.TERMINATED if terminated else names.VARIED if varied else 0
        counters = self.numbers.counters
        counters[names.INFORMATIVE] = max(counters[names.INFORMATIVE], known)
        figures = self.numbers.figures
        gain = 0.0 if terminated else self.numbers.settings[names.SIGN] * reward
        figures[names.LOWEST_REWARD] = min(figures[names.LOWEST_REWARD], gain)
        super()._note_reward(reward, terminated)

    def _rewards_guide(self, most: int | None = None) -> bool:
        """Whether the rewards of continuous actions say which states are good.

        Known from the first `most` transitions of the warm-up, or from all. There is no end to look for
        then, and held actions would only lead away.
        """
        return self.actions.is_continuous and self.record.states_matter(self.actions, most)

    def _act_at_random(self, env: int, observation: NDArray[Any], *paid: Any) -> int:
        n, total, figures = self.record.n, self.memory.total, self.numbers.figures
        if paid:
            total[env] += self.numbers.settings[names.SIGN] * paid[0]
        else:
            figures[names.LEAST_RETURN] = min(figures[names.LEAST_RETURN], total[env])
            total[env] = 0.0
        action = super()._act_at_random(env, observation, *paid)
        if n < FIRST_HELD <= self.record.n:
            self._set_warm_up_hold()
        return action

    @property
    def _extensions_left(self) -> int:
        """How often the warm-up can still be extended; 0 if there is something to learn from."""
        counters = self.numbers.counters
        enough = names.TERMINATED if self._looks_for_ends else names.VARIED
        if counters[names.INFORMATIVE] >= enough or self._rewards_guide():
            return 0
        return MOST_EXTENSIONS - int(counters[names.EXTENSIONS])

    @property
    def warm_up_left(self) -> tuple[int, int]:
        """Observations that the warm-up still needs, and the most that it needs if it is extended."""
        left, _ = super().warm_up_left
        return left, left + self._extensions_left * (len(self._warm_up.seen) // 2)

    def _extend_warm_up(self) -> bool:
        if self._extensions_left == 0:
            return False
        self.numbers.counters[names.EXTENSIONS] += 1
        self.scale.thin_out()
        self._set_warm_up_hold()
        return True

    def _set_warm_up_hold(self) -> None:
        """Set how long random actions of the warm-up are held, by the number of extensions."""
        self.warm_up_hold = self.config.growth_hold << int(self.numbers.counters[names.EXTENSIONS])
        if self.record.n >= FIRST_HELD and self._rewards_guide(FIRST_HELD):
            self.warm_up_hold = 1
