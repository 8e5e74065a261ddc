"""A policy as the numbers that determine it, independent of the agent that learned them."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl.agents import beta_policy
from oda_rl.agents.codebook_rl.association import REACH
from oda_rl.inspect.table import counted


@dataclass(frozen=True)
class PolicyProgram:
    """Cells with action values that are linear in each cell; the action of the largest value is taken.

    An observation x is first clipped to `low` and `high`. With d_i = sum_j ((x_j - mu_ij) / scale_j)^2,
    the shares of the cells are p_i ~ exp(-d_i / temperature) for all within `reach` temperatures of the
    nearest one (equation 6 without weights), or 1 for the nearest cell alone at temperature 0. The value
    of action a is sum_i p_i (value_ia + sum_j slope_iaj (x_j - mu_ij)).

    An actor with continuous actions has two such numbers, h and g, for each coordinate of an action in
    place of values. With p = f(h), q = f(g) and k = min(1, p, q), the coordinate lies at
    (p + k) / (p + q + 2 k) of the way between its bounds, between the mean and the mode of a Beta
    distribution; see `beta_policy` for f. A distilled policy has one number for each coordinate: the
    coordinate itself, which is clipped to the bounds.

    Parameters
    ----------
    name : str
        The agent that learned the policy, its environment, and the number of steps.
    features, action_names : list of str
        Names of the d coordinates of an observation, and of the actions or their coordinates.
    actions : ndarray of shape (n_actions,) or (n_actions, size), int64, or None
        The environment's discrete actions; None if actions are continuous.
    bounds : ndarray of shape (2, size)
        The lowest and highest continuous action; of shape (2, 0) for discrete ones.
    codevectors : ndarray of shape (K, d)
        Locations mu of the cells, in the environment's units.
    scale, values, slopes : ndarray
        See above, in the environment's units: of shape (d,), (K, n_actions) and (K, n_actions, d), or
        (K, n_actions, 0) for constant cells. An infinite scale excludes a coordinate from distances.
    low, high : ndarray of shape (d,)
        See above; may be infinite.
    temperature : float
        In squared scaled units.
    reach : float, default=8.0
        See above.
    """

    name: str
    features: list[str]
    action_names: list[str]
    actions: NDArray[np.int64] | None
    bounds: Array
    low: Array
    high: Array
    codevectors: Array
    scale: Array
    values: Array
    slopes: Array
    temperature: float
    reach: float = REACH

    @property
    def n_numbers(self) -> int:
        """Count of the numbers that determine the policy: cells, scale, bounds, and temperature.

        Numbers that are 0 or infinite are not counted, as they have no effect. An agent's `n_parameters`
        counts the numbers of its own form instead, zeros, too: a codebook has centres of observations in
        place of `low` and `high`, and a grid no locations of cells.
        """
        arrays = (self.codevectors, self.values, self.slopes, self.scale, self.low, self.high)
        count = sum(int(np.count_nonzero(np.isfinite(array) & (array != 0.0))) for array in arrays)
        return count + self.bounds.size + (self.temperature > 0.0)

    @property
    def counts(self) -> str:
        """The counts of cells and of numbers, as text."""
        return f"{counted(len(self.values), 'cell')}, {counted(self.n_numbers, 'number')}"

    @property
    def draws_points(self) -> bool:
        """Whether values are an actor's two preferences for each coordinate of a continuous action."""
        return self.actions is None and self.values.shape[1] == 2 * self.bounds.shape[1]

    def action_values(self, observations: ArrayLike) -> Array:
        """The values of the actions, (n, n_actions), at observations (n, d)."""
        x = np.clip(np.asarray(observations, dtype=np.float64), self.low, self.high)
        share = self.shares(x)
        if not self.slopes.size:
            return np.asarray(share @ self.values)
        k, n_values, d = self.slopes.shape
        at_zero = self.values - np.einsum("kaj,kj->ka", self.slopes, self.codevectors)
        change = x @ self.slopes.reshape(-1, d).T
        return np.asarray(np.einsum("nk,nka->na", share, at_zero + change.reshape(len(x), k, n_values)))

    def shares(self, observations: Array) -> Array:
        """The shares of the cells, (n, K), at observations (n, d) between `low` and `high`."""
        return shares_of(observations, self.codevectors, self.scale, self.temperature, self.reach)

    def rates(self, observation: Array) -> Array:
        """The values of the actions according to each cell, (K, n_actions), at one observation."""
        if not self.slopes.size:
            return self.values
        change = np.einsum("kaj,kj->ka", self.slopes, observation - self.codevectors)
        return np.asarray(self.values + change)

    def decide(self, observations: ArrayLike) -> NDArray[Any]:
        """The environment's actions at observations (n, d), of shape (n,) or (n, size).

        Raises a ValueError if the observations have another shape, or NaN or infinity.
        """
        rows, d = np.asarray(observations, dtype=np.float64), len(self.scale)
        if rows.ndim != 2 or rows.shape[1] != d:
            raise ValueError(f"observations must have shape (n, {d}), got {rows.shape}.")
        if not np.isfinite(rows).all():
            raise ValueError("observations must be finite, but contain NaN or infinity.")
        found = self.action_values(rows)
        if self.actions is not None:
            return np.asarray(self.actions[found.argmax(axis=1)])
        low, high = self.bounds
        if not self.draws_points:
            return np.clip(found, low, high)
        return np.asarray(low + (high - low) * beta_policy.middles(found))

    def rounded(self, digits: int) -> Self:
        """Return a copy with numbers rounded to this many significant digits."""

        def short(numbers: Array) -> Array:
            return np.array([float(f"{number:.{digits}g}") for number in numbers.ravel()]).reshape(
                numbers.shape
            )

        arrays: dict[str, Any] = {
            name: short(getattr(self, name)) for name in ("codevectors", "values", "slopes")
        }
        temperature = float(f"{self.temperature:.{digits}g}")
        return replace(self, **arrays, scale=short(self.scale), temperature=temperature)


def shares_of(
    states: Array, codevectors: Array, scale: Array, temperature: float, reach: float = REACH
) -> Array:
    """The shares of K cells in states (n, d), of shape (n, K); see `PolicyProgram`."""
    inverse = 1.0 / scale
    centre = codevectors.mean(axis=0)
    x, mu = (states - centre) * inverse, (codevectors - centre) * inverse
    distance = (mu**2).sum(axis=1) - 2.0 * (x @ mu.T)  # without |x|^2, which is equal for all cells
    return shares_by_distance(distance, temperature, reach)


def shares_by_distance(distance: Array, temperature: float, reach: float = REACH) -> Array:
    """The shares of K cells, (n, K), by their squared distances (n, K); see `PolicyProgram`."""
    above = distance - distance.min(axis=1, keepdims=True)
    if temperature > 0.0:
        share = np.exp(-above / temperature) * (above <= reach * temperature)
    else:
        share = (np.arange(distance.shape[1]) == above.argmin(axis=1)[:, None]).astype(float)
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def blank_program(
    name: str, features: list[str], action_names: list[str], actions: Any, bounds: Array
) -> PolicyProgram:
    """Make an untrained program, of a single cell with values of 0, for a policy to be distilled.

    `actions` are the environment's discrete actions, None for continuous ones in `bounds` (2, size).
    """
    d, n = len(features), len(action_names)
    return PolicyProgram(
        name=name,
        features=features,
        action_names=action_names,
        actions=actions,
        bounds=bounds,
        low=np.full(d, -np.inf),
        high=np.full(d, np.inf),
        codevectors=np.zeros((1, d)),
        scale=np.full(d, np.inf),
        values=np.zeros((1, n)),
        slopes=np.empty((1, n, 0)),
        temperature=0.0,
    )
