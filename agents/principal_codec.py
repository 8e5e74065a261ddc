"""Boxes of very many numbers, such as images, reduced to principal components for a learner."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl.agents.observation_parts import Part, leaves_of
from oda_rl.agents.observations import Array, BadTransitionError, ObservationCodec

# A Box with more numbers is reduced to components.
LARGE = 512
# Most components of a Box, and the least fraction of its variance that each explains.
COMPONENTS, LEAST_PART = 32, 1e-3
# Components are learned from this many observations under random actions, or from this fraction of the
# training steps, whichever is less.
LOOKED_AT, PART = 1000, 0.1


class Components(NamedTuple):
    """Principal components: directions `axes` (n_components, n_numbers) about a `mean` (n_numbers,)."""

    mean: Array
    axes: Array

    @classmethod
    def none(cls, n_numbers: int) -> "Components":
        """Placeholder before components are learned: a single one that is always 0."""
        return cls(np.zeros(n_numbers), np.zeros((1, n_numbers)))

    @classmethod
    def of(cls, rows: NDArray[Any]) -> "Components":
        """Those of observations (n, n_numbers) that explain at least `LEAST_PART` of the variance."""
        # imports scikit-learn, which only large observations need
        from oda_rl.resolutions.projection import principal

        varied = rows.std(axis=0) > 0.0
        if len(rows) < 2 or not varied.any():
            return cls.none(rows.shape[1])
        found = principal(min(COMPONENTS, len(rows), int(varied.sum()))).fit(rows[:, varied])
        told = found.explained_variance_ratio_ >= LEAST_PART
        axes = np.zeros((int(told.sum()), rows.shape[1]))
        axes[:, varied] = found.components_[told]
        return cls(rows.mean(axis=0), axes)


class PrincipalCodec(ObservationCodec):
    """Codec of observations with Boxes too large for a codebook, which are reduced to components.

    Parameters
    ----------
    space : gymnasium.spaces.Space
        The space of the observations, for which `suits` is True.
    components : dict of str to Components, optional
        Components by the index of each large part, as a string; not given before they are learned.

    Attributes
    ----------
    components : dict of str to Components
        As above.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> space = spaces.Box(0, 255, (24, 24), np.uint8)
    >>> images = rng.integers(0, 2, (50, 1, 1)) * rng.integers(0, 255, (24, 24))
    >>> codec = PrincipalCodec(space, PrincipalCodec(space).learned(images, 50))
    >>> codec.n_features, codec.names(None)
    (1, ['observation, component 0'])
    """

    def __init__(self, space: spaces.Space, components: dict[str, Components] | None = None) -> None:
        self.components = dict(components or {})
        super().__init__(space, table=False)
        self._is_flat = False

    @classmethod
    def suits(cls, space: spaces.Space) -> bool:
        """Whether any part of a space is too large for a codebook."""
        leaves = [leaf for _, leaf in leaves_of(space, space, "")]
        return any(isinstance(leaf, spaces.Box) and np.prod(leaf.shape) > LARGE for leaf in leaves)

    @classmethod
    def refuse(cls, codec: ObservationCodec, what: str) -> None:
        """Raise a ValueError that begins with `what` if the codec reduces observations to components."""
        if isinstance(codec, cls):
            raise ValueError(
                f"{what} of observations in {codec.space}, which are read as principal components; "
                f"Boxes of up to {LARGE} numbers are accepted. Wrap the environment in "
                "gymnasium.wrappers.ResizeObservation or TransformObservation."
            )

    @property
    def is_learned(self) -> bool:
        """Whether components have been learned."""
        return any(found.axes.any() for found in self.components.values())

    def learned(self, observations: Any, n: int) -> dict[str, Components]:
        """Learn the components from `n` stacked observations as a VecEnv returns them.

        Raises a BadTransitionError if an observation is not finite.
        """
        found = {}
        for part, values in zip(self.parts, self._split(observations), strict=True):
            if self._components_of(part) is not None:
                rows = np.asarray(values, dtype=np.float64).reshape(n, -1)
                if not np.isfinite(rows).all():
                    raise BadTransitionError("the environment returned NaN or infinity.")
                found[str(part.place)] = Components.of(rows)
        return found

    def nearest(self, points: Array) -> Array:
        """The points (n, n_features) themselves, as components may be any numbers."""
        return np.ascontiguousarray(points, dtype=np.float64)

    def fits(self, size: int) -> bool:
        """Whether an observation, as compiled dynamics write it, is a row already: never."""
        return False

    def _components_of(self, part: Part) -> Components | None:
        return self.components.get(str(part.place))

    def _width_of(self, place: int, n_numbers: int, is_box: bool) -> int:
        if not is_box or n_numbers <= LARGE:
            return n_numbers
        own = self.components.setdefault(str(place), Components.none(n_numbers))
        return len(own.axes)

    def _in_row(self, part: Part, numbers: Array) -> Array:
        own = self._components_of(part)
        return numbers if own is None else (numbers - own.mean) @ own.axes.T

    def _ends(self, part: Part) -> tuple[Array, Array]:
        own = self._components_of(part)
        if own is None:
            return super()._ends(part)
        return np.full(len(own.axes), -np.inf), np.full(len(own.axes), np.inf)

    def _names_in_row(self, part: Part, entries: Iterable[str]) -> list[str]:
        own = self._components_of(part)
        if own is None:
            return list(entries)
        return [f"{part.name or 'observation'}, component {j}" for j in range(len(own.axes))]
