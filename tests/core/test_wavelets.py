"""Wavelet pyramids against PyWavelets and means of blocks."""

from itertools import pairwise

import numpy as np
import pytest
import pywt

from oda_rl.resolutions import (
    WaveletPyramid,
)


def test_level_0_is_the_signal_itself(images):
    for kind in ("approximation", "coefficients", "modulus"):
        found = WaveletPyramid((8, 8), 0, kind=kind).fit_transform(images)
        np.testing.assert_array_equal(found, images)


def block_means(images, side, block):
    """Row by row, block by block."""
    rows = []
    for image in images.reshape(-1, side, side):
        places = range(0, side, block)
        rows.append([image[i : i + block, j : j + block].mean() for i in places for j in places])
    return np.array(rows)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_haar_approximations_are_scaled_means_of_blocks(images, level):
    found = WaveletPyramid((8, 8), level).fit(images)
    twin = block_means(images, 8, 2**level)
    np.testing.assert_allclose(found.transform(images), 2**level * twin)
    back = found.inverse_transform(found.transform(images)).reshape(-1, 8, 8)
    shown = np.repeat(np.repeat(twin.reshape(-1, 8 >> level, 8 >> level), 2**level, 1), 2**level, 2)
    np.testing.assert_allclose(back, shown)


@pytest.mark.filterwarnings("ignore:Level value")
@pytest.mark.parametrize("mode", ["periodization", "symmetric"])
@pytest.mark.parametrize(
    ("shape", "channels"), [(64, 1), ((8, 8), 1), ((4, 16), 1), ((4, 8), 2), (32, 2)]
)
def test_all_coefficients_give_the_signal_back(images, shape, channels, mode):
    found = WaveletPyramid(shape, 2, wavelet="db2", mode=mode, kind="coefficients", channels=channels)
    features = found.fit_transform(images)
    np.testing.assert_allclose(found.inverse_transform(features), images, atol=1e-12)
    assert len(set(found.get_feature_names_out())) == features.shape[1]


def test_odd_sizes_are_given_back_whole():
    X = np.random.default_rng(0).normal(size=(5, 35))
    found = WaveletPyramid((5, 7), 1, mode="symmetric", kind="coefficients")
    np.testing.assert_allclose(found.inverse_transform(found.fit_transform(X)), X, atol=1e-12)


def test_distances_are_those_of_the_signals_and_coarser_ones_are_smaller(images):
    levels = [WaveletPyramid((8, 8), level).fit_transform(images) for level in (3, 2, 1, 0)]
    squared = [np.square(found[:, None] - found[None]).sum(axis=2) for found in levels]
    assert all(np.all(a <= b + 1e-12) for a, b in pairwise(squared))
    whole = WaveletPyramid((8, 8), 3, kind="coefficients").fit_transform(images)
    np.testing.assert_allclose(np.square(whole).sum(axis=1), np.square(images).sum(axis=1))


def test_the_coefficients_are_those_of_pywavelets(images):
    found = WaveletPyramid(64, 3, wavelet="sym4", mode="reflect", kind="coefficients")
    expected = pywt.wavedec(images, "sym4", mode="reflect", level=3, axis=1)
    np.testing.assert_allclose(found.fit_transform(images), np.hstack(expected))


def test_channels_are_transformed_by_themselves(images):
    both = WaveletPyramid((4, 8), 1, channels=2).fit_transform(images)
    for channel in range(2):
        alone = WaveletPyramid((4, 8), 1).fit_transform(images[:, channel::2])
        np.testing.assert_allclose(both[:, channel::2], alone)


def test_the_modulus_of_a_wave_does_not_tell_where_its_crests_are():
    place = np.arange(64)
    wave = np.sin(2.0 * np.pi * place / 4.0)
    X = np.stack([wave, np.roll(wave, 2), 0.0 * wave])
    found = WaveletPyramid(level=2, kind="modulus").fit_transform(X)
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    assert np.linalg.norm(found[0] - found[2]) > 1.0
    approximation = WaveletPyramid(level=2).fit_transform(X)
    np.testing.assert_allclose(approximation[0], 0.0, atol=1e-12)
    assert not hasattr(WaveletPyramid(kind="modulus"), "inverse_transform")


def test_a_wavelet_map_says_what_is_wrong(images):
    cases = {
        "kind must be one of approximation": WaveletPyramid(kind="details"),
        "wavelet must be one of .*'no_such'": WaveletPyramid(wavelet="no_such"),
        "mode must be one of": WaveletPyramid(mode="around"),
        "level must be at least 0, got -1": WaveletPyramid(level=-1),
        "level must be at most .* got 7": WaveletPyramid(level=7),
        "level must be at most .* got 1000000000000": WaveletPyramid(level=10**12),
        r"at most 2 for signals of shape \(4, 16\) .* got 3": WaveletPyramid((4, 16), 3),
        r"shape=\(8, 9\) with 1 channel\(s\) makes 72 features, but the data have 64": WaveletPyramid(
            (8, 9)
        ),
        r"shape must be the length of a signal or \(height, width\)": WaveletPyramid((4, 4, 4)),
        "64 feature.* divided into 3 channels": WaveletPyramid(channels=3),
        "channels must be at least 1": WaveletPyramid(channels=0),
    }
    for message, wavelets in cases.items():
        with pytest.raises(ValueError, match=message):
            wavelets.fit(images)
