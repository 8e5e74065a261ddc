import copy
import io
import math
import pickle

import numpy as np
import pytest

from oda_rl import MultiResolutionODA, ODAPartition
from oda_rl.codebook.divergences import DIVERGENCES, Divergence, get_divergence


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
def test_bregman_divergences_are_minimal_at_the_mean(name):
    """Theorem 2: the best representative of a set is its mean, whatever the divergence."""
    samples = np.random.default_rng(0).uniform(0.5, 3.0, (200, 3))
    mean = samples.mean(axis=0)
    others = mean + np.random.default_rng(1).normal(scale=0.05, size=(50, 3))
    divergence = get_divergence(name)
    at_mean = divergence(samples, mean).mean()
    assert (divergence(samples, others).mean(axis=0) > at_mean).all()
    np.testing.assert_allclose(divergence(mean, mean), 0.0, atol=1e-12)


def test_critical_temperature_of_the_squared_euclidean_is_twice_the_largest_variance():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    expected = 2 * np.linalg.eigvalsh(covariance)[-1]
    divergence = get_divergence("squared_euclidean")
    assert divergence.critical_temperature([7.0, -1.0], covariance) == pytest.approx(expected)


def test_critical_temperature_of_kl_is_relative_to_the_mean():
    divergence = get_divergence("kl")
    assert divergence.critical_temperature([4.0], [[2.0]]) == pytest.approx(0.5)


def test_kl_names_the_column_outside_its_domain():
    data = np.ones((3, 4))
    data[1, 2] = -0.5
    with pytest.raises(ValueError, match=r"kl.*column 2 is -0.5 in row 1.*at least 0"):
        get_divergence("kl")(data, np.ones((1, 4)))


def test_nan_is_named():
    data = np.array([[0.0, np.nan]])
    with pytest.raises(ValueError, match=r"X contains NaN or infinity: column 1"):
        get_divergence("squared_euclidean").check(data)


def test_inputs_are_not_changed():
    data = np.random.default_rng(0).uniform(0.0, 1.0, (5, 2))
    data.flags.writeable = False
    codevectors = np.asfortranarray(np.full((2, 2), 0.5))
    codevectors.flags.writeable = False
    assert get_divergence("kl")(data, codevectors).shape == (5, 2)


def test_unknown_name():
    with pytest.raises(
        ValueError, match=r"must be one of \['itakura_saito', 'kl', 'squared_euclidean'\], got 'l1'"
    ):
        get_divergence("l1")


def itakura_saito(x, mu):
    return x / mu - math.log(x / mu) - 1.0


def itakura_saito_curvature(mu):
    return 1.0 / (mu * mu)


def own_divergence():
    return Divergence.from_functions("own", itakura_saito, itakura_saito_curvature, 0.0, True)


def test_itakura_saito_does_not_change_with_the_scale():
    samples, codevectors = np.random.default_rng(0).uniform(0.5, 3.0, (2, 20, 3))
    divergence = get_divergence("itakura_saito")
    np.testing.assert_allclose(
        divergence(7.0 * samples, 7.0 * codevectors), divergence(samples, codevectors)
    )


def test_a_divergence_of_ones_own_learns_what_the_packages_own_does():
    samples = np.exp(np.random.default_rng(0).normal(size=(400, 3)))
    own = ODAPartition(6, divergence=own_divergence(), random_state=0).fit(samples)
    known = ODAPartition(6, divergence="itakura_saito", random_state=0).fit(samples)
    np.testing.assert_allclose(own.codevectors_, known.codevectors_, rtol=1e-6)
    np.testing.assert_allclose(own.association(samples), known.association(samples), rtol=1e-6)


@pytest.mark.parametrize("is_tree", [False, True], ids=["partition", "tree"])
def test_a_divergence_of_ones_own_is_stored_by_its_name(is_tree):
    samples = np.exp(np.random.default_rng(0).normal(size=(300, 3)))
    own, file = own_divergence(), io.BytesIO()
    model = ODAPartition(4, divergence=own, random_state=0)
    if is_tree:
        model = MultiResolutionODA(model, layers=2, random_state=0)
    model.fit(samples).save(file)
    file.seek(0)
    again = type(model).load(file, divergence=own)
    np.testing.assert_array_equal(again.predict(samples), model.predict(samples))
    file.seek(0)
    message = r"^no model can be .* one of .* got 'own'; .* load\(path, divergence=\.\.\.\)"
    with pytest.raises(ValueError, match=message):
        type(model).load(file)


def test_a_divergence_of_ones_own_can_be_copied_and_pickled():
    own = own_divergence()
    assert copy.deepcopy(own) is own
    for divergence in (own, get_divergence("kl")):
        again = pickle.loads(pickle.dumps(divergence))
        assert again.name == divergence.name
        data = np.ones((1, 2))
        np.testing.assert_array_equal(again(data, 2 * data), divergence(data, 2 * data))


def test_the_domain_of_a_divergence_of_ones_own():
    with pytest.raises(ValueError, match=r"'own': column 1 is 0.0 in row 0; it must be greater than 0"):
        own_divergence().check(np.array([[1.0, 0.0]]))


def test_moments_of_few_samples_with_many_features():
    rng = np.random.default_rng(0)
    samples, weight = rng.normal(size=(6, 250)), rng.uniform(0.5, 2.0, 6)
    critical, mean, axis, variances = get_divergence("squared_euclidean").moments(samples, weight)
    covariance = np.cov(samples, rowvar=False, aweights=weight, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    assert critical == pytest.approx(2.0 * values[-1])
    np.testing.assert_allclose(mean, weight @ samples / weight.sum())
    np.testing.assert_allclose(variances, np.diag(covariance))
    np.testing.assert_allclose(np.abs(axis), np.abs(critical * vectors[:, -1]), atol=1e-9)


def test_a_divergence_is_not_euclidean_by_its_name():
    own = Divergence.from_functions(
        "squared_euclidean", itakura_saito, itakura_saito_curvature, 0.0, True
    )
    assert get_divergence("squared_euclidean").is_euclidean
    assert not own.is_euclidean
    X = np.random.default_rng(0).gamma(3.0, size=(100, 2))
    models = [ODAPartition(4, divergence=which, random_state=0) for which in ("itakura_saito", own)]
    builtin, renamed = (model.fit(X).codevectors_ for model in models)
    np.testing.assert_allclose(builtin, renamed)
