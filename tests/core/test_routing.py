"""Sample weights through scikit-learn's metadata routing."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor

X, Y = load_iris(return_X_y=True)
WEIGHT = np.where(Y == 1, 0.0, 1.0)  # as if there were two kinds of flowers


@pytest.mark.parametrize(
    "model",
    [
        ODAPartition(4, random_state=0),
        ODARegressor(4, random_state=0),
        ODAClassifier(random_state=0, validation=None),
        MultiResolutionODA(ODAClassifier(), layers=1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_weights_come_through_a_pipeline(model):
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(scaler, model).fit(X, Y, sample_weight=WEIGHT)
        score = pipeline.score(X, Y, sample_weight=WEIGHT)
    scaled = scaler.transform(X)
    alone = clone(model).fit(scaled[Y != 1], Y[Y != 1])
    np.testing.assert_allclose(model.codevectors_, alone.codevectors_)
    assert score == pytest.approx(alone.score(scaled[Y != 1], Y[Y != 1]))
