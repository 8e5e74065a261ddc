import numpy as np
import pytest

from oda_rl.agents.observation_scale import BlendedScale, ObservationScale

LOW = np.array([-4.0, -np.inf, 0.0])
HIGH = np.array([4.0, np.inf, np.inf])


def warm_up(scale, samples):
    return [scale.observe(x) for x in samples]


def test_finite_bounds_are_used_and_the_rest_is_learned():
    samples = np.random.default_rng(0).normal(size=(500, 3)) * [0.1, 2.0, 1.0] + [0.0, 10.0, 5.0]
    scale = ObservationScale(LOW, HIGH, 500)
    complete = warm_up(scale, samples)
    assert complete == [False] * 499 + [True]
    scaled = scale.freeze()
    np.testing.assert_allclose(scale.centre, samples.mean(axis=0))
    assert scale.scale[0] == 4.0
    assert np.abs(scaled[:, 1:]).max(axis=0) == pytest.approx([1.0, 1.0])
    np.testing.assert_allclose(scale.restore(scaled), samples)


def test_given_scale():
    scale = ObservationScale(LOW, HIGH, 10, given=[1.0, 2.0, 3.0])
    warm_up(scale, np.ones((10, 3)))
    scale.freeze()
    np.testing.assert_array_equal(scale.scale, [1.0, 2.0, 3.0])


def test_bounds_and_what_was_seen_are_blended():
    """Half a range of 4 and a spread of 1 make 2; a spread beyond the bounds does not count."""
    low, high = np.array([-4.0, -4.0, -np.inf, -4.0]), np.array([4.0, 4.0, np.inf, 4.0])
    scale = BlendedScale(low, high, 2)
    warm_up(scale, np.array([[-1.0, -6.0, -3.0, 0.0], [1.0, 6.0, 3.0, 0.0]]) * [0.5, 1.0, 0.5, 1.0])
    scale.freeze()
    np.testing.assert_allclose(scale.scale, [2.0, 4.0, 3.0, 4.0])


def test_one_of_many_values_is_nearer_to_another_than_one_of_two():
    """The sum of the squared distances of a value from all n of its kind hardly depends on n."""
    kinds = np.repeat([1, 2, 8, 50], [1, 2, 8, 50])
    scale = BlendedScale(np.zeros(61), np.ones(61), 2, kinds=kinds)
    warm_up(scale, np.random.default_rng(0).integers(0, 2, (2, 61)).astype(float))
    scale.freeze()
    np.testing.assert_allclose(scale.scale, 0.5 * np.sqrt(np.maximum(kinds / 2, 1.0)))
    totals = [2 * (n - 1) / scale.scale[kinds == n][0] ** 2 for n in (2, 8, 50)]
    assert max(totals) < 2 * min(totals)
    scale = BlendedScale(np.zeros(61), np.ones(61), 2, kinds=kinds)
    scale.coarsen(np.arange(61) < 2, np.arange(61) < 5)
    assert scale.coarse[[0, 1, 2, 3, 11]].tolist() == [10.0, 10.0, 3.0, 3.0, 5.0]


def test_a_coordinate_that_never_moves():
    scale = ObservationScale(LOW, HIGH, 10)
    warm_up(scale, np.ones((10, 3)))
    assert np.isfinite(scale.freeze()).all()


@pytest.mark.parametrize("given", [[1.0], [1.0, 2.0, -3.0], [1.0, np.inf, 1.0]])
def test_bad_scale(given):
    with pytest.raises(ValueError, match="observation_scale must be 3 positive numbers"):
        ObservationScale(LOW, HIGH, 10, given=given)
