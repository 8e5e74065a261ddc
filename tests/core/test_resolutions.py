"""Feature maps: projections, wavelets, scattering, what is accepted as a map, and model files."""

import json
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import pywt
from sklearn.base import clone
from sklearn.decomposition import PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from oda_rl import storage
from oda_rl._schema import anything
from oda_rl.datasets import make_translated_digits
from oda_rl.resolutions import (
    FeatureMap,
    Projection,
    Scattering,
    WaveletPyramid,
    as_map,
    get_state,
    pca_pyramid,
    projection_pyramid,
    restore,
    scattering_pyramid,
    wavelet_pyramid,
)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).uniform(0.0, 1.0, (30, 64))


@pytest.fixture(scope="module")
def labels():
    return np.array(["one", "three", "two"], dtype=object)[np.arange(30) % 3]


@parametrize_with_checks(
    [
        Projection(),
        Projection(columns=[0]),
        WaveletPyramid(),
        WaveletPyramid(kind="coefficients"),
        WaveletPyramid(kind="modulus"),
        Scattering(J=1),
        FeatureMap(),
        FeatureMap(1),
    ]
)
@pytest.mark.filterwarnings("ignore:Signal support is too small")
def test_scikit_learn(estimator, check):
    check(estimator)


# -- projections -----------------------------------------------------------------------------------


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
        "columns must be whole numbers": Projection([0.5]),
        "choose none of the 64": Projection(slice(64, None)),
        r"matrix must have the shape \(n_components, 64\)": Projection(matrix=np.eye(3)),
        "matrix must be finite": Projection(matrix=np.full((1, 64), np.nan)),
    }
    for message, projection in cases.items():
        with pytest.raises(ValueError, match=message):
            projection.fit(images)
    with pytest.raises(ValueError, match=r"\(n_samples, 1\), got \(1, 2\)"):
        Projection([0]).fit(images).inverse_transform([[1.0, 2.0]])


# -- wavelets --------------------------------------------------------------------------------------


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
        "level=7 halves the resolution too often": WaveletPyramid(level=7),
        r"shape=\(8, 9\) with 1 channel\(s\) makes 72 features, the data have 64": WaveletPyramid(
            (8, 9)
        ),
        r"shape must be the length of a signal or \(height, width\)": WaveletPyramid((4, 4, 4)),
        "64 feature.* no signal of 3 channels": WaveletPyramid(channels=3),
        "channels must be at least 1": WaveletPyramid(channels=0),
    }
    for message, wavelets in cases.items():
        with pytest.raises(ValueError, match=message):
            wavelets.fit(images)


# -- scattering ------------------------------------------------------------------------------------


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
        "J=4 makes windows of 16 points, .* at most 3": Scattering((8, 8), 4),
        "J must be at least 1": Scattering((8, 8), 0),
        "order must be 1 or 2, got 3": Scattering((8, 8), order=3),
        "average must be one of": Scattering((8, 8), average="mean"),
        "compression must be None or one of": Scattering((8, 8), compression="cube"),
        "shape=63 with 1 channel": Scattering(63),
    }
    for message, scattering in cases.items():
        with pytest.raises(ValueError, match=message):
            scattering.fit(images)


def test_optional_packages_are_imported_when_needed_and_told_when_missing():
    code = (
        "import sys, numpy as np\n"
        "from oda_rl.resolutions import Scattering, WaveletPyramid\n"
        "print({'pywt', 'kymatio', 'torch'} & set(sys.modules))\n"
        "for name, one in (('pywt', WaveletPyramid()), ('kymatio', Scattering())):\n"
        "    sys.modules[name] = None\n"
        "    try:\n        one.fit(np.ones((2, 16)))\n"
        "    except ImportError as error:\n        print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, wavelets, scattering = run.stdout.splitlines()
    assert loaded == "set()"
    assert "oda_rl[multiresolution]" in wavelets
    assert "oda_rl[scattering]" in scattering


# -- what is accepted as a map ---------------------------------------------------------------------


def test_specs(images, labels):
    expected = {
        "None": (None, images),
        "number": (2, PCA(2).fit_transform(images)),
        "share": (0.5, PCA(0.5).fit_transform(images)),
        "list": ([3, 1], images[:, [3, 1]]),
        "slice": (slice(0, 4), images[:, :4]),
        "matrix": (np.ones((1, 64)), images.sum(axis=1, keepdims=True)),
        "callable": (lambda X: X[:, ::2] ** 2, images[:, ::2] ** 2),
        "transformer": (StandardScaler(), StandardScaler().fit_transform(images)),
        "learned from labels": (
            LinearDiscriminantAnalysis(solver="svd"),
            LinearDiscriminantAnalysis().fit_transform(images, labels),
        ),
    }
    for name, (spec, features) in expected.items():
        found = as_map(spec, name).fit(images, labels)
        np.testing.assert_allclose(np.abs(found.transform(images)), np.abs(features), err_msg=name)
        assert found.n_features_out_ == features.shape[1] == len(found.get_feature_names_out())


def test_the_users_own_transformer_is_not_fitted(images):
    own = PCA(3)
    as_map(own).fit(images)
    assert not hasattr(own, "components_")


@pytest.mark.parametrize("spec", [0, -1, True, 1.5, "pca", PCA, 1j], ids=str)
def test_other_specs_are_refused_by_name(spec):
    with pytest.raises(ValueError, match=r"^resolution 1"):
        as_map(spec, "resolution 1")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            lambda X: X[0],
            r"one row of features for each of 2 samples, got an array of the shape \(64,\)",
        ),
        (lambda X: X[:1], r"one row of features for each of 2 samples, got .* \(1, 64\)"),
        (lambda X: X[:, :0], "one row of features"),
        (lambda X: X * np.nan, "must give finite numbers, got NaN or infinity"),
        (lambda X: X.astype(str) + "a", "must give an array of numbers, got a ndarray"),
        (65, "n_components=65 must be between 0 and"),
        ([64], "columns=.* do not fit data of 64"),
    ],
)
def test_a_map_that_goes_wrong_is_named(images, spec, message):
    with pytest.raises(ValueError, match=f"^resolution 2.*{message}"):
        as_map(spec, "resolution 2").fit(images)


def test_a_map_may_not_change_its_number_of_features(images):
    found = as_map(lambda X: X[:, : len(X)], "resolution 0").fit(images)
    with pytest.raises(ValueError, match="resolution 0 gives 5 features now, it gave 2 first"):
        found.transform(images[:5])


def test_other_errors_of_a_users_callable_keep_their_class(images):
    def broken(X):
        raise KeyError("lost")

    with pytest.raises(KeyError) as caught:
        as_map(broken, "resolution 3").fit(images)
    assert caught.value.__notes__ == ["This was resolution 3."]


@pytest.mark.parametrize(
    "spec",
    [None, 3, [2, 5], StandardScaler(), WaveletPyramid((8, 8)), make_pipeline(StandardScaler(), PCA(2))],
    ids=str,
)
def test_affine_maps_as_numbers(images, spec):
    found = as_map(spec).fit(images)
    matrix, offset = found.linear()
    np.testing.assert_allclose(images @ matrix + offset, found.transform(images), atol=1e-10)


def test_other_maps_are_not_called_affine(images):
    class PCA(KernelPCA):
        """Not the one that is known."""

    clipped = MinMaxScaler(clip=True)
    for spec in (np.abs, WaveletPyramid((8, 8), kind="modulus"), PCA(2), clipped):
        assert as_map(spec).fit(images).linear() is None


def test_the_way_back_where_there_is_one(images):
    found = as_map(PCA(64 - 40)).fit(images)
    np.testing.assert_allclose(
        found.inverse_transform(found.transform(images)),
        PCA(24).fit(images).inverse_transform(PCA(24).fit_transform(images)),
    )
    for spec in (np.abs, Scattering((8, 8)), make_pipeline(Scattering((8, 8)), PCA(2))):
        assert not hasattr(as_map(spec).fit(images), "inverse_transform")


# -- copies and model files ------------------------------------------------------------------------

STORED = {
    "identity": None,
    "columns": np.array([2, 4]),
    "slice": slice(1, None, 3),
    "matrix": np.ones((2, 64)),
    "pca": 3,
    "wavelets": WaveletPyramid((8, 8), 2, wavelet="db2", kind="coefficients"),
    "scattering": Scattering((8, 8), 2, orientations=4, compression="log"),
    "pipeline": make_pipeline(Scattering((8, 8), 1), StandardScaler(), PCA(0.9)),
    "union": make_union(PCA(2), Pipeline([("same", "passthrough"), ("scale", StandardScaler())])),
    "labels": LinearDiscriminantAnalysis(),
}


@pytest.mark.filterwarnings("ignore:Level value")
@pytest.mark.parametrize("name", STORED)
def test_a_model_file_gives_the_map_back(images, labels, name, tmp_path):
    fitted = as_map(STORED[name], "resolution 0").fit(images, labels)
    path = storage.save(tmp_path / "map", "FeatureMap", fitted.get_state())
    back = restore(storage.load(path, "FeatureMap", anything))
    np.testing.assert_array_equal(back.transform(images), fitted.transform(images))
    np.testing.assert_array_equal(back.get_feature_names_out(), fitted.get_feature_names_out())
    assert back.name == "resolution 0"
    again = clone(back).fit(images, labels)
    np.testing.assert_array_equal(again.transform(images), fitted.transform(images))
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.transform(images), fitted.transform(images))


def test_a_map_that_is_not_fitted_can_be_stored_too():
    back = restore(get_state(Scattering((8, 8), 3, average="global")))
    assert back.get_params() == Scattering((8, 8), 3, average="global").get_params()


def squares(X):
    return X**2


@pytest.mark.parametrize("own", [squares, KernelPCA(2, kernel="rbf")], ids=["callable", "transformer"])
def test_the_users_own_maps_are_given_again(images, own):
    fitted = as_map(own, "resolution 1").fit(images)
    state = json.loads(json.dumps(fitted.get_state()))
    with pytest.raises(ValueError, match=r"resolution 1 was .*(squares|KernelPCA).* give it again"):
        restore(state)
    given = squares if own is squares else KernelPCA(2, kernel="rbf").fit(images)
    back = restore(state, given)
    np.testing.assert_allclose(back.transform(images), fitted.transform(images))
    if own is not squares:
        with pytest.raises(ValueError, match="resolution 1 must be given fitted"):
            restore(state, KernelPCA(2))


def test_what_cannot_be_stored_and_what_is_no_state():
    with pytest.raises(TypeError, match=r"KernelPCA.* cannot be stored"):
        get_state(KernelPCA())
    with pytest.raises(TypeError, match="cannot be stored"):
        get_state(Projection(np.array([object()])))
    state = get_state(PCA(2))
    with pytest.raises(ValueError, match="DictVectorizer is no feature map that a model file may hold"):
        restore(state | {"class": "DictVectorizer"})
    with pytest.raises(ValueError, match="no state of a feature map"):
        restore({"anything": 1})


# -- pyramids --------------------------------------------------------------------------------------


def test_pyramids_go_from_coarse_to_fine(images, labels):
    sizes = {}
    for name, maps in {
        "projection": projection_pyramid([1, [0, 5], slice(0, 9), None]),
        "pca": pca_pyramid([2, 0.5, None]),
        "wavelet": wavelet_pyramid((8, 8)),
        "some levels": wavelet_pyramid((8, 8), [3, 1]),
        "down to 0": wavelet_pyramid(64, 4),
        "scattering": scattering_pyramid((8, 8)),
        "one window": scattering_pyramid((8, 8), [2], n_components=10),
        "all coefficients": scattering_pyramid((8, 8), [3, 1], n_components=None, orientations=4),
        "by labels": scattering_pyramid((8, 8), discriminant=True, n_components=10),
    }.items():
        sizes[name] = [as_map(one).fit(images, labels).n_features_out_ for one in maps]
    half = PCA(0.5).fit(images).n_components_
    assert sizes["projection"] == [1, 2, 9, 64]
    assert sizes["pca"] == [2, half, 64]
    assert sizes["wavelet"] == [4, 16, 64]
    assert sizes["some levels"] == [1, 16]
    assert sizes["down to 0"] == [4, 8, 16, 32, 64]
    assert len(sizes["scattering"]) == 2
    assert sizes["one window"] == [10]
    assert sizes["all coefficients"] == [61, 5 * 16]
    assert sizes["by labels"] == [2, 2]


def test_pyramids_say_what_is_wrong():
    cases = [
        (lambda: wavelet_pyramid((8, 8), [0, 1]), "levels must fall from coarse to fine"),
        (lambda: wavelet_pyramid((8, 8), 4), "levels must .* lie between 0 and 3"),
        (lambda: wavelet_pyramid((8, 8), []), "levels must name at least one"),
        (lambda: wavelet_pyramid((8, 1)), "shape must be at least 2"),
        (lambda: wavelet_pyramid((2, 2, 2)), "shape must be the length"),
        (lambda: scattering_pyramid((8, 8), [4, 2]), "windows must .* between 1 and 3"),
        (lambda: pca_pyramid([]), "n_components must name at least one"),
        (lambda: pca_pyramid([1.5]), "n_components must be a whole number"),
    ]
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()


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
