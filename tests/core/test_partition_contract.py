"""The estimators against scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from oda_rl import ODAPartition
from oda_rl.quantization import DeterministicAnnealing, StochasticVQ

ORDER = (
    "samples are learned from one after the other in a random order, so that leaving one out or "
    "repeating one changes the order of all: the same as for MiniBatchKMeans"
)
ONLINE = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
}


def expected_failures(estimator):
    return {} if isinstance(estimator, DeterministicAnnealing) else ONLINE


@parametrize_with_checks(
    [ODAPartition(), StochasticVQ(), DeterministicAnnealing()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito"])
def test_positive_data_only_is_a_tag(divergence):
    assert ODAPartition(divergence=divergence).__sklearn_tags__().input_tags.positive_only
