"""Feature maps: projections, wavelets, scattering, what is accepted as a map, and model files."""

import json
import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from oda_rl import MultiResolutionODA, ODAPartition, ODARegressor, storage
from oda_rl._schema import anything
from oda_rl.resolutions import (
    EffectMap,
    FeatureMap,
    Projection,
    RankMap,
    Scattering,
    ScoreMap,
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
def labels():
    return np.array(["one", "three", "two"], dtype=object)[np.arange(30) % 3]


@parametrize_with_checks(
    [
        Projection(),
        RankMap(),
        EffectMap(),
        ScoreMap(),
        WaveletPyramid(),
        Scattering(J=1),
        FeatureMap(),
        FeatureMap(1),
    ]
)
@pytest.mark.filterwarnings("ignore:Signal support is too small")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("package", "one", "extra"),
    [("pywt", WaveletPyramid(), "multiresolution"), ("kymatio", Scattering(), "scattering")],
)
def test_a_package_that_is_missing_is_told_when_needed(package, one, extra, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"oda_rl\[{extra}\]"):
        clone(one).fit(np.ones((2, 16)))


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
            r"one row of features for each of 2 samples, got an array of shape \(64,\)",
        ),
        (lambda X: X[:1], r"one row of features for each of 2 samples, got .* \(1, 64\)"),
        (lambda X: X[:, :0], "one row of features"),
        (lambda X: X * np.nan, "must return finite numbers, got NaN or infinity"),
        (lambda X: X.astype(str) + "a", "must return an array of numbers, got a ndarray"),
        (65, "n_components=65 must be between 0 and"),
        ([64], "columns=.* do not fit data of 64"),
    ],
)
def test_a_map_that_goes_wrong_is_named(images, spec, message):
    with pytest.raises(ValueError, match=f"^resolution 2.*{message}"):
        as_map(spec, "resolution 2").fit(images)


@pytest.mark.parametrize("estimator", [ODARegressor(), ODAPartition()], ids=str)
def test_maps_that_need_classes_are_refused_without_classes(images, estimator):
    target = images[:, 0] + 0.1
    for maps in (scattering_pyramid((8, 8), discriminant=True), [None, LinearDiscriminantAnalysis()]):
        model = MultiResolutionODA(estimator, layers=2, resolutions=maps)
        with pytest.raises(ValueError, match=r"resolution [01] must be .* got LinearDiscriminantAnaly"):
            model.fit(images, target)


OUTPUTS = np.sin(np.arange(30.0))


@pytest.mark.parametrize(
    ("own", "y", "message"),
    [
        (EffectMap(), np.where(np.arange(30) == 3, np.nan, OUTPUTS), "y contains NaN"),
        (EffectMap(), OUTPUTS[:10], r"inconsistent numbers of samples: \[30, 10\]"),
        (EffectMap(), OUTPUTS.astype(str), "y must be numbers, got an array of <U"),
        (EffectMap(), 1e200 * OUTPUTS, r"y contains numbers beyond 1e\+75"),
        (ScoreMap(), OUTPUTS[:10] > 0.0, r"inconsistent numbers of samples: \[30, 10\]"),
        (ScoreMap(), np.ones((30, 2)), r"y should be a 1d array, got an array of shape \(30, 2\)"),
    ],
)
def test_maps_that_learn_from_targets_check_them(own, y, message):
    X = np.random.default_rng(0).normal(size=(30, 2))
    for one in (own, as_map(own, "resolution 1")):
        with pytest.raises(ValueError, match=message):
            one.fit(X, y)
        with pytest.raises(ValueError, match=message):
            one.fit_weighted(X, y, np.ones(30))
    RankMap().fit(X, y)  # ignores them


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"shape \(30,\), one for each sample; got \(3,\)"),
        (np.arange(30.0), "positive and finite numbers, got 0.0"),
        (np.full(30, np.inf), "positive and finite numbers, got inf"),
        (["much"] * 30, "an array of numbers, got"),
    ],
)
def test_maps_check_weights(weight, message):
    for own in (RankMap(), EffectMap(), ScoreMap(), Projection()):
        with pytest.raises(ValueError, match=f"weight must (have|be) {message}"):
            own.fit_weighted(np.zeros((30, 2)), None, weight)


def test_long_errors_of_maps_are_shortened(images):
    """Scikit-learn's error for targets that are no classes contains all of them."""
    with pytest.raises(ValueError, match=r"^the feature map: Unknown label type") as info:
        as_map(LinearDiscriminantAnalysis()).fit(images, np.linspace(0.0, 1.0, len(images)))
    assert len(str(info.value)) < 400


def test_a_map_may_not_change_its_number_of_features(images):
    found = as_map(lambda X: X[:, : len(X)], "resolution 0").fit(images)
    with pytest.raises(ValueError, match="resolution 0 must return 2 features, as in fit, got 5"):
        found.transform(images[:5])


def test_other_errors_of_a_users_callable_keep_their_class(images):
    def broken(X):
        raise KeyError("lost")

    with pytest.raises(KeyError) as caught:
        as_map(broken, "resolution 3").fit(images)
    assert caught.value.__notes__ == ["Raised by resolution 3."]


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
    with pytest.raises(ValueError, match=r"resolution 1 was .*(squares|KernelPCA).* pass it to load"):
        restore(state)
    given = squares if own is squares else KernelPCA(2, kernel="rbf").fit(images)
    back = restore(state, given)
    np.testing.assert_allclose(back.transform(images), fitted.transform(images))
    if own is not squares:
        with pytest.raises(ValueError, match="resolution 1 must be fitted, as it was"):
            restore(state, KernelPCA(2))


def test_what_cannot_be_stored_and_what_is_no_state():
    with pytest.raises(TypeError, match=r"KernelPCA.* cannot be stored"):
        get_state(KernelPCA())
    with pytest.raises(TypeError, match="cannot be stored"):
        get_state(Projection(np.array([object()])))
    state = get_state(PCA(2))
    with pytest.raises(ValueError, match="DictVectorizer is not a feature map that model files support"):
        restore(state | {"class": "DictVectorizer"})
    with pytest.raises(ValueError, match="not the state of a feature map"):
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
        (lambda: wavelet_pyramid((8, 8), [0, 1]), "levels must .* decrease from coarse to fine"),
        (lambda: wavelet_pyramid((8, 8), [1.5, 0.5]), r"levels must be integers .* got \[1.5, 0.5\]"),
        (lambda: wavelet_pyramid((8, 8), [2, None]), r"levels must be integers .* got \[2, None\]"),
        (lambda: wavelet_pyramid((8, 8), 4), "levels must lie between 0 and 3 .* got 4"),
        (lambda: wavelet_pyramid((8, 8), -1), "levels must lie between 0 and 3 .* got -1"),
        (lambda: wavelet_pyramid((8, 8), 1.5), "levels must lie .* as an integer or as a list .* 1.5"),
        (lambda: wavelet_pyramid((8, 8), []), "levels must name at least one"),
        (lambda: wavelet_pyramid((8, 1)), "shape must be at least 2"),
        (lambda: wavelet_pyramid((2, 2, 2)), "shape must be the length"),
        (lambda: scattering_pyramid((8, 8), [4, 2]), "windows must .* between 1 and 3"),
        (lambda: scattering_pyramid((8, 8), 2), "windows must be a list .* got 2"),
        (lambda: scattering_pyramid((8, 8), [1.5]), r"windows must be integers .* got \[1.5\]"),
        (lambda: pca_pyramid(3), "n_components must be a list .* got 3"),
        (lambda: projection_pyramid(3), "columns must be a list .* got 3"),
        (lambda: pca_pyramid([]), "n_components must name at least one"),
        (lambda: pca_pyramid([1.5]), "n_components must be an integer"),
    ]
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()
