"""Features by their ranks, for data with long tails."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._statistics import KNOTS, Ranks
from oda_rl.resolutions.base import Array, BaseMap


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

    def _has_inverse(self) -> bool:
        return True

    def _n_features_out(self) -> int:
        return int(self.knots_.shape[1])

    def _inverse(self, features: Array) -> Array:
        return Ranks(self.knots_).inverse(features)

    def _names(self, input_features: Any) -> Sequence[str]:
        # scikit-learn's own check of names, which has no public name
        from sklearn.utils.validation import _check_feature_names_in

        return list(_check_feature_names_in(self, input_features))
