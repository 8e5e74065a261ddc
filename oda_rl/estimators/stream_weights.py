"""Weights of the samples of a stream, relative to the mean of those before, as in a fit."""

from typing import Any, NamedTuple

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.targets import Data

# Largest relative weight, for a stream that begins with weights of almost zero
HEAVIEST = 1e6
# Schema of a stored `SeenWeights`.
SEEN_WEIGHTS = ("count", "float in [0, inf)", "count", "bool")


class SeenWeights(NamedTuple):
    """The weights of the samples so far: of `n` of them the sum `mass`, all ones if they are `plain`.

    `at` is how many samples had been presented then. Samples presented since had a weight of one, so
    that there is nothing to count in a stream without weights.
    """

    n: int = 0
    mass: float = 0.0
    at: int = 0
    plain: bool = True

    @classmethod
    def of(cls, weight: Array) -> "SeenWeights":
        """Those of some samples (n,)."""
        return cls(len(weight), float(weight.sum()), 0, bool((weight == 1.0).all()))

    def relative(self, weight: Array, presented: int) -> "tuple[Array, SeenWeights]":
        """Positive weights (n,) of the next samples, each divided by the mean of all weights before it.

        A mean over n - 1 samples, followed to the next by a step of r / (n - 1 + r) with this relative
        weight r, is the weighted mean of all n. The first weight ever is 1, and none is above HEAVIEST.
        `presented` is the number of samples presented before them. Also returns the new state. If all
        weights so far are one, both are unchanged.
        """
        if self.plain and (weight == 1.0).all():
            return weight, self
        since = presented - self.at
        count = self.n + since + np.arange(len(weight) + 1)
        # One sum from left to right, which is the same to the last bit however a stream is cut.
        mass = np.cumsum(np.concatenate([[self.mass + since], weight]))
        found = SeenWeights(int(count[-1]), float(mass[-1]), presented + len(weight), False)
        if count[0] == 0:
            count[0], mass[0] = 1, weight[0]
        return np.minimum(weight * (count[:-1] / mass[:-1]), HEAVIEST), found

    @property
    def mean(self) -> float:
        """The mean weight of the samples counted."""
        return 1.0 if self.plain else self.mass / self.n


def weights_of_classes(data: Data, counts: Array) -> list[SeenWeights]:
    """The weights of the samples of each class, of which `counts` (n_classes,) have been presented."""
    own = [SeenWeights.of(data.weight[data.targets == c]) for c in range(len(counts))]
    return [seen._replace(at=int(n)) for seen, n in zip(own, counts, strict=True)]


def within_classes(seen: list[SeenWeights], data: Data, counts: Array) -> Array:
    """Weights (n_samples,) of the next samples, relative to the mean of those before in their class.

    Codebooks of classes learn with these, as in a fit: with weights that are all large, a rare class
    would forget all but its latest samples. `counts` (n_classes,) are the samples presented, these
    included; `seen` is changed in place.
    """
    if (data.weight == 1.0).all() and all(own.plain for own in seen):
        return data.weight
    weight = data.weight.copy()
    for c in set(data.targets.tolist()):
        rows = np.flatnonzero(data.targets == c)
        before = int(counts[c]) - len(rows)
        weight[rows], seen[c] = seen[c].relative(weight[rows], before)
    return weight


class WeightsMixin:
    """An estimator that knows the weights of the samples it has learned from."""

    n_samples_seen_: int
    _weights_seen = SeenWeights()  # also of models that were stored when it was not counted

    def _begin_weights(self, weight: Array) -> Array:
        """Weights (n,) of all samples to learn from, divided by their mean; others are forgotten."""
        self._weights_seen = SeenWeights.of(weight)
        return np.asarray(weight / weight.mean())

    def _count_weights(self) -> None:
        """Let samples of a stream follow those of `_begin_weights`, when these have been learned."""
        self._weights_seen = self._weights_seen._replace(at=self.n_samples_seen_)

    def _relative(self, weight: Array) -> Array:
        """Weights (n,) of the next samples of a stream, relative to the mean of those before."""
        own: Any = self.__dict__
        presented = own.get("n_samples_seen_", 0)
        found, self._weights_seen = self._weights_seen.relative(weight, presented)
        return found
