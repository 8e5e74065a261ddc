"""What every layer of a tree may do: its own limits, on top of the parameters of the estimator."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.estimators.settings import check_temperatures


class Layer(NamedTuple):
    """The limits of one layer of a tree; whatever is None is left to the estimator.

    Parameters
    ----------
    max_codevectors : int or None, default=None
        K_max: children of one cell, at most (or one per class, where that is more).
    t_min : float, "auto" or None, default=None
        The annealing of a cell's children stops below this temperature.
    max_samples : int or None, default=None
        Samples presented to a cell's children, at most.
    min_support : int or None, default=None
        Samples that a cell must have before it is split.
    min_improvement : float or None, default=None
        Part of the error by which a temperature must lower it, once cells have split, for the annealing
        to go on; and by which the children together must lower it, for the cell to be split at all.

    Examples
    --------
    >>> from oda_rl.estimators.tree import Layer
    >>> Layer(max_codevectors=4).max_codevectors
    4
    """

    max_codevectors: int | None = None
    t_min: float | str | None = None
    max_samples: int | None = None
    min_support: int | None = None
    min_improvement: float | None = None

    @classmethod
    def of(cls, given: Any) -> "Layer":
        """A layer from one of those, or from a mapping with the same names; raises a ValueError."""
        if isinstance(given, cls):
            layer = given
        elif isinstance(given, Mapping):
            unknown = sorted(set(given) - set(cls._fields))
            if unknown:
                raise ValueError(f"layers: a layer has {list(cls._fields)}, got {unknown}.")
            layer = cls(**given)
        else:
            raise ValueError(
                f"layers must be a number of layers or a list of dicts or Layers, got {given!r} in it."
            )
        layer._check()
        return layer

    def _check(self) -> None:
        for name in ("max_codevectors", "max_samples", "min_support"):
            if getattr(self, name) is not None:
                check_at_least(1, **{name: getattr(self, name)})
        if self.t_min is not None:
            check_temperatures(t_min=self.t_min)
        if self.min_improvement is not None:
            check_non_negative(min_improvement=self.min_improvement)

    def filled(self, other: "Layer") -> "Layer":
        """This layer, with what is None taken from another."""
        own = {name: value for name, value in self._asdict().items() if value is not None}
        return other._replace(**own)


def layers_of(given: int | Sequence[Any], default: Layer) -> list[Layer]:
    """The layers that a parameter `layers` stands for, each complete."""
    if isinstance(given, int) and not isinstance(given, bool):
        check_at_least(1, layers=given)
        return [default] * given
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or len(given) == 0:
        raise ValueError(
            f"layers must be a number of layers or a list of dicts or Layers, got {given!r}."
        )
    return [Layer.of(layer).filled(default) for layer in given]
