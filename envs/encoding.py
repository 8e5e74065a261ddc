"""Representations of a state in the wrappers of `oda_rl.envs.aggregation`: a number, or a vector."""

from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl.envs.aggregator import Aggregator

# Default multiples of the temperature at which associations are computed. Those at a higher temperature
# are nearly linear in the observation, from which a network learns better if it can tell them apart.
SOFTNESS = {"association": 4.0, "features": 16.0}
Encoding = Literal["number", "one_hot", "codevector", "association", "features"]


def find_softness(encoding: Encoding, given: float | None) -> float:
    """The softness of an encoding, by default its own; 0 if it does not use associations."""
    usual = SOFTNESS.get(encoding, 0.0)
    return usual if given is None or not usual else given


class StateEncoder:
    """Converts observations to states in an `encoding`; parameters are as for `StateAggregation`.

    `space` is the space of one state.
    """

    def __init__(self, aggregator: Aggregator, encoding: Encoding, softness: float | None) -> None:
        if encoding not in get_args(Encoding):
            raise ValueError(f"encoding must be one of {get_args(Encoding)}, got {encoding!r}.")
        if softness is not None and not 0.0 <= softness < np.inf:
            raise ValueError(f"softness must be a number in [0, inf), got {softness!r}.")
        self._aggregator = aggregator
        self._encoding = encoding
        self._softness = find_softness(encoding, softness)
        self.space: spaces.Space = spaces.Discrete(aggregator.max_states)
        if encoding == "codevector":
            self.space = spaces.Box(-np.inf, np.inf, aggregator.space.shape, np.float32)
        elif encoding != "number":
            self.space = spaces.Box(0.0, 1.0, (aggregator.max_states,), np.float32)

    def encode(self, observation: Any) -> Any:
        """The state of one observation; learn from the observation if learning is on."""
        if self._encoding == "number":
            return self._aggregator.find(observation)
        return self.encode_many(np.asarray(observation)[None])[0]

    def encode_many(self, observations: Any, new: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The states of several observations; learn from those that are `new`, by default all."""
        states = self._aggregator.find_many(observations, new)
        if self._encoding == "number":
            return states
        ids, points = self._aggregator.cells()  # after learning, in which cells may have merged
        shares = self._aggregator.shares(observations, self._softness)
        found = np.zeros((len(states), *self.space.shape), dtype=np.float32)  # type: ignore[misc]
        if self._encoding == "codevector":
            found[:] = points[shares.argmax(axis=1)].reshape(found.shape)
        else:
            np.add.at(found.T, ids, shares.T)
        if self._encoding == "features":  # a network cannot tell small shares apart
            found = np.minimum(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32(1.0))
        return found
