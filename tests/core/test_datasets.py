"""Generated data sets."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from oda_rl.datasets import (
    make_curve,
    make_gaussian_classes,
    make_gaussians,
    make_surface,
    make_translated_digits,
)


@pytest.mark.parametrize(("shape", "frame"), [(12, (12, 12)), ((8, 8), (8, 8)), ((9, 16), (9, 16))])
def test_every_digit_lies_whole_somewhere_in_its_frame(shape, frame):
    samples, labels = make_translated_digits(shape, n_copies=2, seed=3)
    bunch = load_digits()
    np.testing.assert_array_equal(labels, np.tile(bunch.target, 2))
    for row, digit in zip(samples.reshape(-1, *frame), np.tile(bunch.images, (2, 1, 1)), strict=True):
        assert row.sum() == digit.sum()
        windows = np.lib.stride_tricks.sliding_window_view(row, (8, 8))
        assert np.any(np.all(windows == digit, axis=(2, 3)))


def test_all_places_come_equally_often_and_the_seed_decides():
    samples, _ = make_translated_digits(9, n_copies=4, seed=0)
    # Every digit has ink in its top and bottom rows, so an empty border row tells where it lies.
    images = samples.reshape(-1, 9, 9)
    assert 0.47 < np.mean(images[:, 0].sum(axis=1) == 0.0) < 0.53
    np.testing.assert_array_equal(samples, make_translated_digits(9, n_copies=4, seed=0)[0])
    assert np.any(samples != make_translated_digits(9, n_copies=4, seed=1)[0])


def test_wrong_frames_are_refused():
    with pytest.raises(ValueError, match="shape must be at least 8 x 8, got 7 x 12"):
        make_translated_digits((7, 12))
    for wrong in (2.5, "3", (12.0, 12.0), (12,), (12, 12, 12), True, None):
        with pytest.raises(ValueError, match=r"shape must be an integer or \(height, width\), got"):
            make_translated_digits(wrong)
    with pytest.raises(ValueError, match="n_copies must be at least 1, got 0"):
        make_translated_digits(n_copies=0)


def test_classes_are_dealt_out_to_the_gaussians_in_turn():
    samples, labels = make_gaussian_classes(90, n_components=9, n_classes=3, scale=0.05, seed=4)
    same, component = make_gaussians(90, 9, 0.05, 4)
    np.testing.assert_array_equal(samples, same)
    np.testing.assert_array_equal(np.bincount(labels), [30, 30, 30])
    for c in range(9):
        assert len(np.unique(labels[component == c])) == 1
    with pytest.raises(ValueError, match="n_components must be at least 3, got 2"):
        make_gaussian_classes(n_components=2, n_classes=3)


@pytest.mark.parametrize("make", [make_gaussians, make_gaussian_classes, make_curve, make_surface])
def test_numbers_of_samples_are_whole(make):
    for wrong in (0, -1, 1.5, True, "many"):
        with pytest.raises(ValueError, match="n_samples must be "):
            make(n_samples=wrong)


def test_components_have_a_width():
    with pytest.raises(ValueError, match="scale must be a non-negative and finite number, got nan"):
        make_gaussians(scale=float("nan"))
    with pytest.raises(ValueError, match="n_components must be at least 1, got 0"):
        make_gaussians(n_components=0)
