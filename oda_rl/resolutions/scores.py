"""Features with what tells the classes apart along all of them at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from oda_rl._effects import FeatureSums, filled_up
from oda_rl._weighted import standardised
from oda_rl.resolutions.base import AddingMap, Array

# Scores are fitted to no more samples than this, which they have few numbers for.
MOST_SAMPLES = 20_000


def scored(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes that have a score: all; of two the second alone, as the other's is its opposite."""
    return classes if len(classes) > 2 else classes[1:]


class ScoreMap(AddingMap):
    """Features, and beside them a score of each class (of two, of the second): who is likely of it.

    A score is a sum of functions of one feature each, linear between the values of a feature with few,
    else between quantiles, and nearest to 1 in the class and 0 elsewhere, in standard deviations. A cell
    cannot tell classes apart that lie around each other, or beside each other along many features at
    once; along such a sum they are one after the other. Where samples are too few for so many features,
    and without classes y, features are as they were. (Hastie, Tibshirani and Buja, "Flexible
    discriminant analysis by optimal scoring", 1994.)

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots, n_features)
        Where functions are known; one with fewer knots has its last several times.
    values_ : ndarray of shape (n_knots, n_features, n_scores)
        Their values there.
    n_features_in_ : int
        Features of the data.

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
            most = max(len(own) for own in found.knots)
            self.knots_, self.values_ = (
                np.ascontiguousarray(np.stack([filled_up(own, most) for own in part], axis=1))
                for part in (found.knots, found.values)
            )
            scores = self._scores(samples[rows])
            self.values_ -= weight[rows] @ scores / weight[rows].sum() / d  # of mean zero

    def check_fitted(self) -> None:
        """As of other maps; how many scores there are is not told by the number of features."""
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
