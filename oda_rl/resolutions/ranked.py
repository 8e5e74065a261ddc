"""Features by their ranks, for data with long tails."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._ranks import KNOTS, Ranks
from oda_rl.resolutions.base import Array, BaseMap


class RankMap(BaseMap):
    """Each feature mapped to a normal by its ranks, between quantiles of the data, and clipped at 3.

    Skewed features and outliers then count as much as others. `inverse_transform` leads back to
    where the features lie between the quantiles.

    Attributes
    ----------
    knots_ : ndarray of shape (200, n_features)
        Quantiles of the features.
    n_features_in_ : int
        Features of the data.

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
        return Ranks(self.knots_).back(features)

    def _names(self, input_features: Any) -> Sequence[str]:
        # scikit-learn's own check of names, which it offers under no public name.
        from sklearn.utils.validation import _check_feature_names_in

        return list(_check_feature_names_in(self, input_features))
