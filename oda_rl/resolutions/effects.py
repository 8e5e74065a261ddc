"""Features with the effects of single features on the outputs appended, for regression."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._effects import Effects
from oda_rl.resolutions.base import AddingMap, Array


class EffectMap(AddingMap):
    """Features, with effects appended: nonlinear functions of one feature each.

    `fit` finds all effects together as a sum that is nearest to the outputs y. They are linear between
    the values of a feature with few values, else between its quantiles. A feature that merely numbers
    categories thus gets a feature that shows their effect. Without y, or if the sum is no better than a
    linear model on samples left out, nothing is appended.

    Attributes
    ----------
    feature_ : ndarray of shape (n_effects,)
        Index of the feature of each effect.
    knots_, values_ : ndarray of shape (n_knots, n_effects)
        Knots of the effects, and their values there, in standard deviations of the outputs.
    n_features_in_ : int
        Number of features of the data.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(0, 4, (400, 1))
    >>> y = np.array([1.0, -2.0, 3.0, -2.0])[codes[:, 0]]
    >>> found = EffectMap().fit(codes, y).transform([[0], [1], [2], [3]])[:, 1]
    >>> found.argsort(kind="stable").tolist()[2:]
    [0, 2]
    """

    _fitted = "values_"

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        found = None
        if y is not None:
            outputs = np.asarray(y, dtype=np.float64).reshape(len(samples), -1)
            found = Effects.of(samples, outputs, weight)
        none = Effects(np.zeros(0, dtype=np.int64), np.zeros((0, 0)), np.zeros((0, 0)))
        self.feature_, self.knots_, self.values_ = none if found is None else found[0]

    @property
    def _effects(self) -> Effects:
        return Effects(self.feature_, self.knots_, self.values_)

    def check_fitted(self) -> None:
        """As for other maps, but any number of effects is valid."""
        n, k, knots = getattr(self, "n_features_in_", None), len(self.feature_), self.knots_
        own = {"feature_", "knots_", "values_", "n_features_in_", "feature_names_in_"}
        sound = type(n) is int and vars(self).keys() <= own and self.feature_.dtype == np.int64
        sound = sound and knots.shape == self.values_.shape == (len(knots), k)
        sound = sound and (k == 0 or (len(knots) > 0 and self.feature_.min() >= 0))
        sound = sound and bool(np.all(self.feature_ < self.n_features_in_))
        sound = sound and bool(np.all(np.diff(knots, axis=0) >= 0.0))
        if not sound:
            raise ValueError("an EffectMap has learned effects of features, with knots in their order.")

    def _transform(self, samples: Array) -> Array:
        return self._effects(samples)

    def _n_added(self) -> int:
        return len(self.feature_)

    def _added_names(self, names: Sequence[str]) -> Sequence[str]:
        own = self.feature_.tolist()
        nth = [own[: i + 1].count(j) for i, j in enumerate(own)]  # one for each of several outputs
        parts = [f"effect {n}" if n > 1 else "effect" for n in nth]
        return [f"{part} of {names[j]}" for part, j in zip(parts, own, strict=True)]
