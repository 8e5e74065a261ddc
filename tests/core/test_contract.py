"""The estimators against scikit-learn's own checks."""

import pytest
from sklearn.base import is_classifier
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from oda_rl import (
    KernelSGDClassifier,
    KernelSGDRegressor,
    MultiResolutionODA,
    ODAClassifier,
    ODAPartition,
    ODARegressor,
)
from oda_rl.quantization import LVQ, DeterministicAnnealing, StochasticVQ

ORDER = (
    "samples are learned from one after the other in a random order, so that leaving one out or "
    "repeating one changes the order of all: the same as for MiniBatchKMeans and SGDClassifier"
)


def expected_failures(estimator):
    online = not isinstance(estimator, DeterministicAnnealing)
    return {"check_sample_weight_equivalence_on_dense_data": ORDER} if online else {}


@parametrize_with_checks(
    [
        *(ODAPartition(), StochasticVQ(), DeterministicAnnealing(4), ODAClassifier(10), LVQ()),
        ODARegressor(max_codevectors=8, pilot_rounds=0),
        MultiResolutionODA(ODAPartition()),
        MultiResolutionODA(ODAClassifier()),
        MultiResolutionODA(ODARegressor(), layers=2, max_children=4, validation=2, resolutions=[None]),
        KernelSGDClassifier(batch_size=4, n_passes=4),
        KernelSGDRegressor(n_passes=10),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        ODARegressor(max_codevectors=8),
        ODARegressor(max_codevectors=8, local_model="constant", pilot_rounds=0),
        MultiResolutionODA(ODAClassifier(rule="nearest")),
        MultiResolutionODA(ODARegressor(), layers=2, max_children=4, validation=2),
        MultiResolutionODA(ODARegressor(local_model="constant"), resolutions=[None]),
        KernelSGDClassifier("logistic", batch_size=4, n_passes=4),
    ],
    ids=str,
)
def test_scikit_learn_on_other_models(estimator):
    """They check data and parameters as those above do, but learn and predict in other ways."""
    names = ["fit_idempotent", "dict_unchanged", "methods_subset_invariance", "estimators_pickle"]
    names += ["methods_sample_order_invariance", "estimators_overwrite_params"]
    if is_classifier(estimator):
        names += ["classifiers_train", "classifiers_classes", "decision_proba_consistency"]
    else:
        names += ["regressors_train"]
    for name in names:
        getattr(estimator_checks, f"check_{name}")(type(estimator).__name__, estimator)


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito"])
def test_positive_data_only_is_a_tag(divergence):
    assert ODAPartition(divergence=divergence).__sklearn_tags__().input_tags.positive_only
