"""Features with scores of the classes appended, which are sums over all features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from oda_rl._effects import FeatureSums, stacked
from oda_rl._statistics import standardised
from oda_rl.resolutions.base import AddingMap, Array

# Largest number of samples that scores are fitted to; they have few coefficients.
MOST_SAMPLES = 20_000


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

    _fitted = "values_"

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        d, found = samples.shape[1], None
        if y is not None:
            check_classification_targets(y)
            rows = slice(None, None, -(-len(samples) // MOST_SAMPLES))
            classes, number = np.unique(np.asarray(y), return_inverse=True)
            target = (number[rows, None] == scored(np.arange(len(classes)))).astype(float)
            if len(classes) > 1:
                found = FeatureSums.of(samples[rows], standardised(target, weight[rows]), weight[rows])
        self.knots_, self.values_ = np.zeros((1, d)), np.zeros((1, d, 0))
        if found is not None:
            self.knots_, self.values_ = stacked(found.knots), stacked(found.values)
            scores = self._scores(samples[rows])
            self.values_ -= weight[rows] @ scores / weight[rows].sum() / d  # of mean zero

    def check_fitted(self) -> None:
        """As for other maps, but any number of scores is valid."""
        n, knots, values = getattr(self, "n_features_in_", None), self.knots_, self.values_
        own = {"knots_", "values_", "n_features_in_", "feature_names_in_"}
        sound = type(n) is int and vars(self).keys() <= own and len(knots) > 0
        sound = sound and knots.shape == (len(knots), n) and values.shape[:2] == knots.shape
        sound = sound and values.ndim == 3 and bool(np.all(np.diff(knots, axis=0) >= 0.0))
        if not sound:
            raise ValueError("a ScoreMap has learned sums over features, with knots in their order.")

    def _transform(self, samples: Array) -> Array:
        return np.hstack([samples, self._scores(samples)])

    def _scores(self, samples: Array) -> Array:
        scores = np.zeros((len(samples), self.values_.shape[2]))
        for j, knots in enumerate(self.knots_.T):
            for own, values in zip(scores.T, self.values_[:, j].T, strict=True):
                own += np.interp(samples[:, j], knots, values)
        return scores

    def _n_added(self) -> int:
        return int(self.values_.shape[2])

    def _added_names(self, names: Sequence[str]) -> Sequence[str]:
        return [f"score{i}" for i in range(self._n_added())]
