import numpy as np
import pytest

from oda_rl.divergences import DIVERGENCES, get_divergence


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
