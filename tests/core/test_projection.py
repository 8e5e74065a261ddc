"""Chosen columns and principal components, there and back."""

import numpy as np
import pytest

from oda_rl.resolutions import (
    Projection,
)


@pytest.mark.parametrize(
    "columns",
    [[3, 0], slice(0, 2), np.arange(64) == 5, range(2)],
    ids=["list", "slice", "mask", "range"],
)
def test_chosen_columns(images, columns):
    found = Projection(columns).fit(images)
    index = list(columns) if isinstance(columns, range) else columns
    np.testing.assert_array_equal(found.transform(images), images[:, index])
    np.testing.assert_array_equal(
        found.get_feature_names_out(), np.array([f"x{i}" for i in range(64)])[index]
    )


def test_features_left_out_come_back_as_their_means(images):
    found = Projection([1, 7]).fit(images)
    back = found.inverse_transform([[0.1, 0.2]])[0]
    expected = images.mean(axis=0)
    expected[[1, 7]] = 0.1, 0.2
    np.testing.assert_array_equal(back, expected)


def test_directions_and_the_nearest_point_to_the_mean(images):
    matrix = np.random.default_rng(1).normal(size=(3, 64))
    found = Projection(matrix=matrix).fit(images)
    features = found.transform(images)
    np.testing.assert_allclose(features, images @ matrix.T)
    back = found.inverse_transform(features)
    np.testing.assert_allclose(found.transform(back), features)
    away = back - images.mean(axis=0)
    elsewhere = away + np.random.default_rng(2).normal(size=away.shape) @ (
        np.eye(64) - np.linalg.pinv(matrix) @ matrix
    )
    assert np.all(np.linalg.norm(away, axis=1) <= np.linalg.norm(elsewhere, axis=1))


def test_a_projection_says_what_is_wrong(images):
    cases = {
        "at most one of columns and matrix": Projection([0], np.eye(64)),
        r"columns=\[64\] do not fit data of 64 feature": Projection([64]),
        "columns must be integers": Projection([0.5]),
        "select none of the 64": Projection(slice(64, None)),
        r"matrix must have shape \(n_components, 64\)": Projection(matrix=np.eye(3)),
        "matrix must be finite": Projection(matrix=np.full((1, 64), np.nan)),
    }
    for message, projection in cases.items():
        with pytest.raises(ValueError, match=message):
            projection.fit(images)
    with pytest.raises(ValueError, match=r"\(n_samples, 1\), got \(1, 2\)"):
        Projection([0]).fit(images).inverse_transform([[1.0, 2.0]])
