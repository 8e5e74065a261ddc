"""Maps made of functions of single features: their ranks, their effects, and scores of the classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from oda_rl._effects import Effects, FeatureSums, stacked
from oda_rl._replicates import means_of_replicates
from oda_rl._statistics import KNOTS, Ranks, standardised
from oda_rl._types import Array
from oda_rl.resolutions.base import BaseMap

# Largest number of samples that scores are fitted to; they have few coefficients.
MOST_SAMPLES = 20_000


class RankMap(BaseMap):
    """Maps each feature to normal scores of its ranks, clipped to [-3, 3].

    Scores are interpolated between quantiles of the data. Skewed features and outliers then have no
    more influence than others. `inverse_transform` interpolates back between the quantiles.

    Attributes
    ----------
    knots_ : ndarray of shape (200, n_features)
        Quantiles of the features.
    n_features_in_ : int
        Number of features of the data.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.exp(np.linspace(-5.0, 5.0, 1001))[:, None]
    >>> RankMap().fit(X).transform([[0.0], [1.0], [1e9]]).ravel().round(1) + 0.0
    array([-3.,  0.,  3.])
    """

    _fitted = "knots_"

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        self.knots_ = Ranks.of(samples, KNOTS, weight).knots

    def _transform(self, samples: Array) -> Array:
        return Ranks(self.knots_)(np.ascontiguousarray(samples))

    def _n_features_out(self) -> int:
        return int(self.knots_.shape[1])

    def _inverse(self, features: Array) -> Array:
        return Ranks(self.knots_).inverse(features)

    def _names(self, input_features: Any) -> Sequence[str]:
        return self._names_in(input_features)


class AddingMap(BaseMap):
    """A map that keeps all features and appends one for each entry of the last axis of `values_`."""

    _fitted = "values_"

    def _added_names(self, names: Sequence[str]) -> Sequence[str]:
        raise NotImplementedError

    def _n_features_out(self) -> int:
        return int(self.n_features_in_ + self.values_.shape[-1])

    def _inverse(self, features: Array) -> Array:
        return features[:, : self.n_features_in_].copy()

    def _names(self, input_features: Any) -> Sequence[str]:
        names = self._names_in(input_features)
        return [*names, *self._added_names(names)]


class EffectMap(AddingMap):
    """Features, with effects appended: nonlinear functions of one feature each.

    `fit` finds all effects together as a sum that is nearest to the outputs y. They are linear between
    the values of a feature with few values, else between its quantiles. A feature that merely numbers
    categories thus gets a feature that shows their effect. With too few samples for so many features,
    only those with a significant effect get one. Without y, or if the sum is no better than a linear
    model on samples left out, nothing is appended.

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

    _targets = "outputs"

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        found = None
        if y is not None:
            outputs = np.asarray(y, dtype=np.float64).reshape(len(samples), -1)
            found = Effects.of(*means_of_replicates(samples, outputs, weight))
        self.feature_, self.knots_, self.values_ = Effects.none() if found is None else found[0]

    def check_fitted(self) -> None:
        """As for other maps, but any number of effects is valid."""
        n, k, knots = getattr(self, "n_features_in_", None), len(self.feature_), self.knots_
        own = {"feature_", "knots_", "values_", "n_features_in_", "feature_names_in_"}
        sound = (
            type(n) is int
            and vars(self).keys() <= own
            and self.feature_.dtype == np.int64
            and knots.shape == self.values_.shape == (len(knots), k)
            and (k == 0 or (len(knots) > 0 and self.feature_.min() >= 0))
            and np.all(self.feature_ < n)
            and np.all(np.diff(knots, axis=0) >= 0.0)
        )
        if not sound:
            raise ValueError("an EffectMap must have learned effects of features, with sorted knots.")

    def _transform(self, samples: Array) -> Array:
        return Effects(self.feature_, self.knots_, self.values_)(samples)

    def _added_names(self, names: Sequence[str]) -> Sequence[str]:
        own = self.feature_.tolist()
        nth = [own[: i + 1].count(j) for i, j in enumerate(own)]  # one for each of several outputs
        parts = [f"effect {n}" if n > 1 else "effect" for n in nth]
        return [f"{part} of {names[j]}" for part, j in zip(parts, own, strict=True)]


def scored(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes that have a score: all, or the second of two, as the other score is its negative."""
    return classes if len(classes) > 2 else classes[1:]


class ScoreMap(AddingMap):
    """Features, with a score for each class appended (of two classes, for the second one only).

    A score is a sum of functions of one feature each that is nearest to the standardised indicator of
    its class (1 in the class, 0 elsewhere). The functions are linear between the values of a feature
    with few values, else between its quantiles. Cells cannot separate classes that surround each other,
    or that differ along many features at once; along such a sum the classes are in a row. Without
    classes y, or with too few samples for so many features, nothing is appended. (Hastie, Tibshirani and
    Buja, "Flexible discriminant analysis by optimal scoring", 1994.)

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots, n_features)
        Knots of the functions; if a feature has fewer knots, its last one is repeated.
    values_ : ndarray of shape (n_knots, n_features, n_scores)
        Values of the functions at their knots.
    n_features_in_ : int
        Number of features of the data.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (400, 2))
    >>> inside = (X**2).sum(axis=1) < 0.5
    >>> found = ScoreMap().fit(X, inside).transform([[0.0, 0.0], [0.9, 0.9], [0.9, -0.9]])[:, 2]
    >>> (found > 0.0).tolist()
    [True, False, False]
    """

    _targets = "classes"

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        d = samples.shape[1]
        self.knots_, self.values_ = np.zeros((1, d)), np.zeros((1, d, 0))
        if y is None:
            return
        check_classification_targets(y)
        classes, number = np.unique(np.asarray(y), return_inverse=True)
        if len(classes) < 2:
            return
        rows = slice(None, None, -(-len(samples) // MOST_SAMPLES))
        samples, number, weight = samples[rows], number[rows], weight[rows]
        target = (number[:, None] == scored(np.arange(len(classes)))).astype(float)
        found = FeatureSums.of(samples, standardised(target, weight), weight)
        if found is None:
            return
        self.knots_, self.values_ = stacked(found.knots), stacked(found.values)
        self.values_ -= weight @ self._scores(samples) / weight.sum() / d  # of mean zero

    def check_fitted(self) -> None:
        """As for other maps, but any number of scores is valid."""
        n, knots, values = getattr(self, "n_features_in_", None), self.knots_, self.values_
        own = {"knots_", "values_", "n_features_in_", "feature_names_in_"}
        sound = (
            type(n) is int
            and vars(self).keys() <= own
            and len(knots) > 0
            and knots.shape == (len(knots), n)
            and values.shape[:2] == knots.shape
            and values.ndim == 3
            and np.all(np.diff(knots, axis=0) >= 0.0)
        )
        if not sound:
            raise ValueError("a ScoreMap must have learned sums over features, with sorted knots.")

    def _transform(self, samples: Array) -> Array:
        return np.hstack([samples, self._scores(samples)])

    def _scores(self, samples: Array) -> Array:
        scores = np.zeros((len(samples), self.values_.shape[2]))
        for j, knots in enumerate(self.knots_.T):
            for own, values in zip(scores.T, self.values_[:, j].T, strict=True):
                own += np.interp(samples[:, j], knots, values)
        return scores

    def _added_names(self, names: Sequence[str]) -> Sequence[str]:
        return [f"score{i}" for i in range(self.values_.shape[-1])]
