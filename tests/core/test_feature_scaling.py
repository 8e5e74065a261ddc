"""Features in units of their own: what a codebook is scaled by."""

import numpy as np
import pytest
from samples import blobs

from oda_rl import ODAPartition
from oda_rl._schema import RefusedError, check
from oda_rl.estimators.feature_scaling import SCALING

LEARNED = SCALING.schemas[1]


def test_features_of_other_units_are_standardised_where_they_would_dominate():
    rng = np.random.default_rng(0)
    samples = rng.permutation(blobs())
    noise = 1000.0 * rng.normal(size=(len(samples), 1))
    mixed = np.hstack([samples, noise])  # nothing but the last feature would count
    standard = ODAPartition(6, scale="standard", random_state=0).fit(mixed)
    by_hand = ODAPartition(6, scale=mixed.std(axis=0), random_state=0).fit(mixed)
    auto = ODAPartition(6, scale="auto", random_state=0).fit(mixed)
    np.testing.assert_allclose(standard.codevectors_, by_hand.codevectors_)
    np.testing.assert_array_equal(auto.codevectors_, standard.codevectors_)
    assert ODAPartition(6, scale="auto", random_state=0).fit(samples).scale_ is None
    with pytest.raises(ValueError, match="scale"):
        ODAPartition(6, scale="nonsense").fit(samples)


@pytest.mark.parametrize("chunk", [1, 64, 1000])
def test_a_stream_is_scaled_by_its_first_samples(chunk, tmp_path):
    samples = np.random.default_rng(0).permutation(blobs()) * [1.0, 1000.0]
    init = samples[:2]
    model = ODAPartition(6, scale="auto", init=init, n_warmup=80, random_state=0)
    for start in range(0, 700, chunk):
        model.partial_fit(samples[start : min(start + chunk, 700)])
        if start + chunk < 32:
            assert model.scale_ is None
        elif start + chunk < 80:  # an early fit is scaled by its samples
            last = 64 if start + chunk >= 64 else 32
            np.testing.assert_allclose(model.scale_, samples[:last].std(axis=0))
    scale = samples[:80].std(axis=0)
    np.testing.assert_allclose(model.scale_, scale)
    known = ODAPartition(6, scale=scale, init=init, n_warmup=80, random_state=0)
    np.testing.assert_allclose(model.codevectors_, known.partial_fit(samples[:700]).codevectors_)
    again = ODAPartition.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(
        again.partial_fit(samples[700:]).codevectors_, model.partial_fit(samples[700:]).codevectors_
    )


def test_a_scale_is_as_if_the_data_were_divided_by_it(tmp_path):
    samples, scale = blobs() * [1.0, 1000.0], [2.0, 500.0]
    plain = ODAPartition(6, random_state=0).fit(samples / scale)
    scaled = ODAPartition(6, scale=scale, random_state=0).fit(samples)
    np.testing.assert_allclose(scaled.codevectors_, plain.codevectors_ * scale)
    np.testing.assert_allclose(scaled.spreads_, plain.spreads_ * np.square(scale))
    np.testing.assert_array_equal(scaled.labels_, plain.labels_)
    np.testing.assert_allclose(scaled.transform(samples), plain.transform(samples / scale))
    np.testing.assert_allclose(scaled.association(samples), plain.association(samples / scale))
    assert scaled.score(samples) == pytest.approx(plain.score(samples / scale))
    path = scaled.history_[-1].codevectors
    np.testing.assert_allclose(path, plain.history_[-1].codevectors * scale)
    again = ODAPartition.load(scaled.save(tmp_path / "scaled"))
    more = blobs(seed=1) * [1.0, 1000.0]
    np.testing.assert_allclose(
        again.partial_fit(more).codevectors_, plain.partial_fit(more / scale).codevectors_ * scale
    )


@pytest.mark.parametrize("scale", [[1.0], [1.0, 0.0], [1.0, np.nan]])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(ValueError, match="scale must be 2 finite numbers"):
        ODAPartition(3, scale=scale).fit(blobs())


def test_a_stored_scaling_that_makes_samples_too_large_is_refused_with_the_bound():
    shift, scaling = np.zeros(1), np.full((1, 1), 1e64)
    with pytest.raises(RefusedError, match=r"has 1e\+64; expected at most 1e\+63$"):
        check(LEARNED, {"shift": shift, "matrix": scaling, "inverse": 1.0 / scaling}, {"d": 1})
