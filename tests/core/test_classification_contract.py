"""The classifiers against scikit-learn's own checks."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from oda_rl import ODAClassifier
from oda_rl.quantization import LVQ

ORDER = (
    "samples are learned from one after the other in a random order, so that leaving one out or "
    "repeating one changes the order of all: the same as for SGDClassifier"
)


def expected_failures(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": ORDER}


@parametrize_with_checks([ODAClassifier(), LVQ()], expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)
