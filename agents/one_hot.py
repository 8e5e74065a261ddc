"""Boxes whose observations are one-hot, read as the indices of states for a table."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl.agents.observations import ObservationCodec

# Limits on the entries of such a Box: fewer may have a single 1 by chance, more are too many states.
FEWEST, MOST = 8, 5000


class NotOneHotError(Exception):
    """An observation is not one-hot, though all before it were."""


class OneHotCodec(ObservationCodec):
    """Codec of one-hot observations in a Box, as `FlattenObservation` makes them from Discrete.

    The index of the 1 is the state. An observation of zeros alone is a further state, the last.

    Parameters
    ----------
    space : gymnasium.spaces.Box
        The space of the observations.

    Examples
    --------
    >>> codec = OneHotCodec(spaces.Box(0, 1, (9,), np.int64))
    >>> codec.encode(np.eye(9, dtype=np.int64)[3]), codec.counts
    (array([3.]), array([10]))
    """

    def __init__(self, space: spaces.Space) -> None:
        super().__init__(space)
        n = self.n_features
        self.is_table, self.n_features = True, 1
        self.low, self.high, self.counts = np.zeros(1), np.full(1, float(n)), np.array([n + 1])
        self._is_flat, self.whole = False, np.ones(1, dtype=bool)

    @classmethod
    def suits(cls, space: spaces.Space, observations: Any) -> bool:
        """Whether a space may have only one-hot observations, and all of these from a VecEnv are."""
        if not isinstance(space, spaces.Box) or not FEWEST <= np.prod(space.shape) <= MOST:
            return False
        if (space.low != 0).any() or (space.high != 1).any():
            return False
        try:
            rows = cls(space).encode_many(observations, len(observations))
        except NotOneHotError:
            return False
        return bool((rows < np.prod(space.shape)).all())

    def names(self, env_id: str | None) -> list[str]:
        """The single name: that of the state."""
        return ["state"]

    def read(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """The rows of one observation or of several, as `ObservationCodec.read`."""
        try:
            return super().read(observation)
        except NotOneHotError as error:
            raise ValueError(f"observation {error}") from None

    def _rows(self, values: list[Any], outer: tuple[int, ...]) -> NDArray[np.float64]:
        entries = super()._rows(values, outer)
        ones = entries == 1.0
        if (ones != (entries != 0.0)).any() or (ones.sum(axis=-1) > 1).any():
            raise NotOneHotError("is not one-hot, as all were that this was learned from.")
        found = np.where(ones.any(axis=-1), ones.argmax(axis=-1), entries.shape[-1])
        return found[..., None].astype(np.float64)
