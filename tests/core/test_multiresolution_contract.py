"""Trees against scikit-learn's own checks."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor

ORDER = (
    "samples are learned from one after the other in a random order, so that leaving one out or "
    "repeating one changes the order of all: the same as for the flat codebooks"
)


@parametrize_with_checks(
    [
        MultiResolutionODA(ODAPartition()),
        MultiResolutionODA(ODAClassifier()),
        MultiResolutionODA(ODAClassifier(rule="nearest")),
        MultiResolutionODA(ODARegressor()),
        MultiResolutionODA(ODARegressor(local_model="constant")),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": ORDER,
    },
)
def test_scikit_learn(estimator, check):
    check(estimator)
