"""Scattering coefficients: their numbers, and what they do not see."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline

from oda_rl.datasets import make_translated_digits
from oda_rl.resolutions import (
    Scattering,
    as_map,
    scattering_pyramid,
)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(a)


def test_scattering_hardly_sees_a_shift_that_changes_the_pixels():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 8, 8))
    X = np.zeros((3, 32, 32))
    X[0, 12:20, 12:20] = one
    X[1, 13:21, 13:21] = one
    X[2, 12:20, 12:20] = other
    X = X.reshape(3, -1)
    features = Scattering((32, 32), 4).fit_transform(X)
    assert relative(X[0], X[1]) > 10 * relative(features[0], features[1])
    assert relative(X[0], X[1]) > 0.9 * relative(X[0], X[2])
    assert relative(features[0], features[1]) < 0.5 * relative(features[0], features[2])


@pytest.mark.parametrize(
    ("shape", "J", "order", "n_features"),
    [((8, 8), 1, 1, 9 * 16), ((8, 8), 2, 2, 81 * 4), ((8, 8), 3, 2, 217), ((16, 16), 2, 2, 81 * 16)],
)
def test_numbers_of_scattering_coefficients(shape, J, order, n_features):
    X = np.random.default_rng(0).normal(size=(3, shape[0] * shape[1]))
    found = Scattering(shape, J, order=order).fit(X)
    assert found.transform(X).shape == (3, n_features)
    assert len(set(found.get_feature_names_out())) == n_features


def test_many_rows_are_as_one_by_one(images):
    X = np.tile(images, (10, 1))
    found = Scattering((8, 8), 2, orientations=4).fit(X)
    alone = np.vstack([found.transform(row[None]) for row in images])
    np.testing.assert_allclose(found.transform(X), np.tile(alone, (10, 1)), atol=1e-12)


def test_averages_and_compression(images):
    local = Scattering((8, 8), 2, orientations=4).fit(images)
    paths = local.transform(images).reshape(30, 25, 4)
    everywhere = Scattering((8, 8), 2, orientations=4, average="global").fit(images)
    np.testing.assert_allclose(everywhere.transform(images), paths.mean(axis=2))
    assert everywhere.get_feature_names_out()[0] == "scattering0"
    root = Scattering((8, 8), 2, orientations=4, compression="sqrt").fit_transform(images)
    np.testing.assert_allclose(root**2, local.transform(images))
    log = Scattering((8, 8), 2, orientations=4, compression="log").fit(images)
    floor = 1e-3 * local.transform(images).max()
    np.testing.assert_allclose(np.expm1(log.transform(images)) * floor, local.transform(images))


def test_scattering_of_signals_and_channels(images):
    found = Scattering(32, 3, channels=2)
    both = found.fit_transform(images)
    assert len(found.get_feature_names_out()) == both.shape[1]
    for channel in range(2):
        alone = Scattering(32, 3).fit_transform(images[:, channel::2])
        np.testing.assert_allclose(both[:, channel::2], alone, atol=1e-12)


def test_scattering_says_what_is_wrong(images):
    cases = {
        "at most 3 for signals .* got 4, which makes windows of 16": Scattering((8, 8), 4),
        "J must be at least 1": Scattering((8, 8), 0),
        "order must be 1 or 2, got 3": Scattering((8, 8), order=3),
        "average must be one of": Scattering((8, 8), average="mean"),
        "compression must be None or one of": Scattering((8, 8), compression="cube"),
        "shape=63 with 1 channel": Scattering(63),
    }
    for message, scattering in cases.items():
        with pytest.raises(ValueError, match=message):
            scattering.fit(images)


def test_scattering_tells_translated_digits_apart_where_pixels_do_not():
    X, y = make_translated_digits(12, seed=100)
    pixels = as_map(None)
    maps = as_map(scattering_pyramid((12, 12), [2], n_components=80, orientations=4)[0])
    scores = []
    for one in (pixels, maps):
        model = make_pipeline(one, LinearDiscriminantAnalysis()).fit(X[:900], y[:900])
        scores.append(model.score(X[900:1200], y[900:1200]))
    assert scores[0] < 0.6
    assert scores[1] > 0.9
