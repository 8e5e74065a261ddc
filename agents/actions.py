"""Conversion of chosen actions to those of an environment, and of spaces to and from plain data."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from oda_rl.agents.observation_parts import values_of
from oda_rl.envs.names import action_names

# Most discrete actions: with more, each is visited too rarely. There may be more combinations if the
# parts of an action are learned separately.
MOST_ACTIONS, MOST_COMBINATIONS = 1024, 65_536


class ActionCodec:
    """The actions of an environment as a learner represents them: integers from 0, or continuous.

    The combinations of a MultiDiscrete or MultiBinary space are numbered. `n_actions` is their number,
    and 1 for a Box, which must be bounded. `commands` (n_actions, size) has each action as
    `CompiledEnv.encode_action` returns it; (0, size) for a Box. `centre` and `scale` (n_joint,) are the
    middle and half the range of a Box. `options` has the number of values of each part of an action, ()
    for a Box. Raises a ValueError if the space is not supported or has more than `most` actions.

    >>> codec = ActionCodec(spaces.MultiDiscrete([2, 3]))
    >>> codec.n_actions
    6
    >>> codec.decode(4)
    array([1, 1])
    """

    def __init__(self, space: spaces.Space, most: int = MOST_ACTIONS) -> None:
        self.space = space
        self.centre = self.scale = np.empty(0)
        self.options: tuple[int, ...] = ()
        if isinstance(space, spaces.Box):
            _check_bounded(space)
            low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
            self.centre, self.scale = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
            self.commands = np.empty((0, len(low)))
            self._table: Any = None
        elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            counts, start = values_of(space)
            self.options = tuple(counts.tolist())
            _check_counts(space, self.options, most)
            self.commands = np.array(list(np.ndindex(*self.options)), dtype=np.float64)
            table = self.commands.astype(np.int64) + start
            self._table = table.reshape((-1, *(space.shape or ()))).astype(space.dtype)
        else:
            raise ValueError(
                f"Action space {space} is not supported; Discrete, MultiDiscrete, MultiBinary and a "
                "bounded Box are accepted. Wrap the environment in gymnasium.wrappers.TransformAction."
            )
        self.n_actions = max(1, len(self.commands))
        self._start = int(space.start) if isinstance(space, spaces.Discrete) else 0

    @property
    def has_parts(self) -> bool:
        """Whether a discrete action has several parts, which an actor draws one by one."""
        return len(self.options) > 1

    @property
    def is_continuous(self) -> bool:
        """Whether actions are continuous."""
        return self._table is None

    @property
    def ends(self) -> NDArray[np.float64]:
        """Lower and upper bounds of a continuous action, as rows of shape (2, n_joint)."""
        return np.array([self.centre - self.scale, self.centre + self.scale])

    def names(self, env_id: str | None) -> list[str]:
        """Names of the discrete actions, or of the coordinates of a continuous action.

        If `envs.names` has no names for the environment, a discrete action is named after the value that
        the environment takes for it.

        >>> ActionCodec(spaces.MultiDiscrete([1, 2])).names(None)
        ['action (0, 0)', 'action (0, 1)']
        """
        if self.is_continuous:
            n = len(self.centre)
            return action_names(env_id, n, [f"action[{j}]" for j in range(n)])
        rows = self._table.reshape(self.n_actions, -1).tolist()
        taken = [f"action {row[0] if len(row) == 1 else tuple(row)}" for row in rows]
        return action_names(env_id, self.n_actions, taken)

    def add_parts(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the values of the parts of each discrete action.

        Parameters
        ----------
        values : ndarray of shape (n, sum(options))
            Values of the options of the first part, then of the second, and so on.

        Returns
        -------
        ndarray of shape (n, n_actions)
        """
        found: NDArray[np.float64] = values[:, self._columns].sum(axis=2)
        return found

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        # (n_actions, n_parts): index of each chosen option among the options of all parts
        firsts = np.cumsum((0, *self.options[:-1]))
        return self.commands.astype(np.int64) + firsts

    def decode(self, chosen: Any) -> Any:
        """The environment's action for an index, or for a continuous action in its own units."""
        if isinstance(self.space, spaces.Discrete):
            return chosen + self._start
        if self._table is not None:
            return self._table[chosen].copy()
        return self._fit(chosen).reshape(self.space.shape)

    def decode_many(self, chosen: NDArray[Any]) -> NDArray[Any]:
        """The environment's actions for several choices, stacked; see `decode`."""
        if self._table is not None:
            found: NDArray[Any] = self._table[chosen]
            return found
        box: Any = self.space
        return self._fit(chosen).reshape((len(chosen), *box.shape))

    def _fit(self, points: ArrayLike) -> NDArray[Any]:
        # rounding may put centre + scale just outside of the Box
        box: Any = self.space
        points = np.asarray(points).reshape(-1, len(self.centre))
        return np.clip(points.astype(box.dtype), box.low.ravel(), box.high.ravel())


def _check_counts(space: spaces.Space, counts: tuple[int, ...], most: int) -> None:
    total, most = prod(counts), MOST_ACTIONS if isinstance(space, spaces.Discrete) else most
    if total > most:
        raise ValueError(f"Action space {space} has {total} actions; at most {most} are accepted.")
    if max(counts) > MOST_ACTIONS:
        raise ValueError(
            f"Action space {space} has {max(counts)} values in one part; at most {MOST_ACTIONS} are "
            "accepted."
        )


def _check_bounded(space: spaces.Box) -> None:
    if not np.issubdtype(space.dtype, np.floating) or space.low.size == 0:
        raise ValueError(
            f"Action space {space} is not supported; a Box of actions must have a floating-point "
            "dtype and at least one number."
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(
            f"Action space {space} is not supported; a Box of actions must be bounded. Wrap the "
            "environment in gymnasium.wrappers.TransformAction with a bounded Box, and leave out "
            "ClipAction, which removes the bounds."
        )
    if not (space.low < space.high).all():
        raise ValueError(
            f"Action space {space} is not supported; low must be below high in every coordinate."
        )


def describe_space(space: spaces.Space) -> dict[str, Any]:
    """Describe a space by plain values and arrays; the inverse of `restore_space`."""
    kind = type(space).__name__
    if isinstance(space, spaces.Dict):
        return {"kind": kind, "parts": {key: describe_space(part) for key, part in space.items()}}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space)
        return {"kind": kind, "parts": {str(key): describe_space(part) for key, part in parts}}
    # Gymnasium 1.1 has discrete spaces of one dtype only, int64: store any other
    dtype = {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"kind": kind, "n": int(space.n), "start": int(space.start), **dtype}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": kind, "nvec": space.nvec.tolist(), "start": space.start.tolist(), **dtype}
    if isinstance(space, spaces.MultiBinary):
        n = space.shape[0] if len(space.shape) == 1 else list(space.shape)
        return {"kind": kind, "n": n}
    assert isinstance(space, spaces.Box)
    return {
        "kind": kind,
        "low": space.low,
        "high": space.high,
        "dtype": str(space.dtype),
    }


def restore_space(description: dict[str, Any]) -> spaces.Space:
    """Rebuild a space from the result of `describe_space`."""
    fields = dict(description)
    kind = fields.pop("kind", "Box")
    if kind in ("Dict", "Tuple"):
        return join_parts(kind, {key: restore_space(part) for key, part in fields["parts"].items()})
    if kind == "Box":
        dtype = np.dtype(fields["dtype"])
        return spaces.Box(
            np.array(fields["low"], dtype), np.array(fields["high"], dtype), dtype=dtype.type
        )
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(**fields)
    if kind == "MultiBinary":
        return spaces.MultiBinary(fields["n"])
    return spaces.Discrete(**fields)


def join_parts(kind: str, parts: dict[str, spaces.Space]) -> spaces.Space:
    """Make a Dict or a Tuple, by its name `kind`, of parts in their order."""
    # Gymnasium sorts the keys of a dictionary, but not those of a list of pairs
    return spaces.Dict([*parts.items()]) if kind == "Dict" else spaces.Tuple([*parts.values()])
