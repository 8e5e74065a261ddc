"""Every parameter of every estimator with values that it may not have."""

from importlib.util import find_spec

import numpy as np
import pytest
from model_files import with_header
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oda_rl
from oda_rl import quantization, storage

NAMED = [oda_rl, quantization]
CLASSES = {getattr(module, name) for module in NAMED for name in module.__all__}
ESTIMATORS = sorted(
    (c for c in CLASSES if isinstance(c, type) and issubclass(c, BaseEstimator)),
    key=lambda c: c.__name__,
)
HOSTILE = [0, -1, 2.5, 150.25, float("nan"), float("inf"), "nonsense", None, [], {}]
X = np.random.default_rng(0).normal(size=(24, 2)) + np.repeat([[0.0, 0.0], [4.0, 0.0]], 12, axis=0)
Y = np.repeat([0, 1], 12)


def small(cls):
    names = cls._get_param_names()
    size = {"max_codevectors": 3, "max_leaves": 3, "max_samples": 400, "random_state": 0}
    return cls(**{name: value for name, value in size.items() if name in names})


@pytest.mark.parametrize(
    ("cls", "name"),
    [pytest.param(c, n, id=f"{c.__name__}-{n}") for c in ESTIMATORS for n in c._get_param_names()],
)
def test_a_parameter_is_refused_by_name_or_works(cls, name):
    for value in HOSTILE:
        for learn in {"fit", "partial_fit"} & set(dir(cls)):
            model = small(cls).set_params(**{name: value})
            try:
                getattr(model, learn)(X, Y)
            except (ValueError, TypeError) as error:
                refused = str(error)
            else:
                refused = None
            if refused is not None:
                assert name in refused, (value, refused)
                continue
            found = np.asarray(model.predict(X))
            assert found.dtype.kind != "f" or np.isfinite(found).all(), value
            assert np.isfinite(getattr(model, "codevectors_", 0.0)).all(), value


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (oda_rl.ODAPartition, "samples_per_cell", 1),
        (oda_rl.ODAPartition, "min_weight", 1.0),
        (oda_rl.ODAPartition, "cooling", 1.0),
        (oda_rl.ODAPartition, "t_max", 0.0),
        (oda_rl.ODAPartition, "random_state", -1),
        (oda_rl.ODAClassifier, "reject", 1.0),
        (oda_rl.ODAClassifier, "validation", 1),
        (oda_rl.ODAClassifier, "fine_tune", "gmlvq"),
        (oda_rl.KernelSGDClassifier, "ratio", 1.0),
        (oda_rl.KernelSGDClassifier, "move_probability", 0.4),
        (oda_rl.KernelSGDClassifier, "loss", "squared"),
    ],
)
def test_limits(cls, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {cls.__name__} must be"):
        small(cls).set_params(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("cls", [c for c in ESTIMATORS if hasattr(c, "partial_fit")])
def test_what_has_shaped_a_model_stays(cls, tmp_path):
    other = {"divergence": "kl", "loss": "logistic", "mode": "lvq", "stepsize": (2.0, 1.0)}
    other |= {"local_model": "constant", "variant": "glvq", "estimator": oda_rl.ODAClassifier()}
    names = [name for name in other if name in cls._get_param_names()]
    assert names
    positive = abs(X)
    for name in names:
        value = 2.0 if cls.__name__.startswith("Kernel") and name == "stepsize" else other[name]
        if name == "local_model" and cls is oda_rl.ODAClassifier:
            value = "linear"
        if name == "loss" and "loss" in cls._get_param_names() and value not in cls.losses:
            value = "huber"
        model = small(cls).partial_fit(positive, Y)
        before = model.get_params()[name]
        model.set_params(**{name: value})
        for change in (lambda m: m.partial_fit(positive, Y), lambda m: m.save(tmp_path / "model")):
            with pytest.raises(ValueError, match=f"{name} must stay"):
                change(model)
        model.set_params(**{name: before}).partial_fit(positive, Y)
        model.set_params(**{name: value}).fit(positive, Y)
        assert clone(model).get_params().keys() == model.get_params().keys()


def test_cells_of_a_tree_predict_by_the_rule_they_grew_by(tmp_path):
    model = oda_rl.MultiResolutionODA(oda_rl.ODAClassifier(), layers=1, random_state=0).fit(X, Y)
    before = model.predict_proba(X)
    model.set_params(estimator__rule="nearest")
    np.testing.assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(ValueError, match="estimator__rule must stay 'bayes'"):
        model.save(tmp_path / "model")
    model.set_params(estimator__rule="bayes").save(tmp_path / "model")
    again = oda_rl.MultiResolutionODA.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(X), before)


def in_numpy(model):
    """The model with all numbers among its parameters as scalars of NumPy."""
    kinds = {bool: np.bool_, int: np.int64, float: np.float32}
    found = {name: value for name, value in model.get_params().items() if type(value) in kinds}
    return model.set_params(**{name: kinds[type(value)](value) for name, value in found.items()})


@pytest.mark.parametrize(
    ("cls", "learn"),
    [(c, name) for c in ESTIMATORS for name in ("fit", "partial_fit") if hasattr(c, name)],
)
def test_scalars_of_numpy_are_stored(cls, learn, tmp_path):
    model = small(cls)
    if cls is oda_rl.MultiResolutionODA:
        model.set_params(estimator=oda_rl.ODARegressor(n_warmup=12), layers=2)
    model = in_numpy(model)
    before = model.get_params()
    getattr(model, learn)(X, Y)
    assert all(value is before[name] for name, value in model.get_params().items())
    loaded = cls.load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    if learn == "partial_fit":
        after = [one.partial_fit(X, Y).predict(X) for one in (model, loaded)]
        assert np.array_equal(*after)


@pytest.mark.parametrize("cls", [oda_rl.KernelSGDClassifier, quantization.LVQ])
@pytest.mark.filterwarnings("error")
def test_many_classes_are_loaded_without_a_warning(cls, tmp_path):
    y = np.repeat(np.arange(24), 2)
    model = small(cls).fit(np.vstack([X, X + 1.0]), y)
    loaded = cls.load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.classes_, np.arange(24))


@pytest.mark.parametrize(
    "model",
    [
        oda_rl.ODAPartition(3, random_state=0),
        quantization.LVQ(random_state=0, init_labels=[0, 1]),
        quantization.StochasticVQ(2, random_state=0),
        oda_rl.KernelSGDClassifier(random_state=0),
    ],
)
def test_data_frames_and_series_are_stored(model, tmp_path):
    pandas = pytest.importorskip("pandas")
    names = ["bandwidth", "stepsize"]
    given = {"scale": range(1, 3), "init": X[::12], "init_labels": [0, 1], "adapt": names}
    for name in given.keys() & set(model.get_params()):
        make = pandas.DataFrame if name == "init" else pandas.Series
        model.set_params(**{name: make(given[name])})
    model.fit(X, Y)
    loaded = type(model).load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    if hasattr(model, "scale"):
        loaded = type(model).load(model.set_params(scale=range(1, 3)).fit(X, Y).save(tmp_path / "model"))
        assert np.array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("container", ["pandas", "polars", "default"])
@pytest.mark.parametrize("cls", [c for c in ESTIMATORS if hasattr(c, "set_output")])
def test_the_container_of_set_output_is_stored(cls, container, tmp_path):
    model = small(cls)
    if cls is oda_rl.MultiResolutionODA:
        model.set_params(estimator=oda_rl.ODAClassifier(), layers=1)
    model.fit(X, Y).set_output(transform=container)
    again = cls.load(model.save(tmp_path / "model"))
    if container != "polars" or find_spec("polars"):
        found = again.transform(X)
        assert type(found) is type(model.transform(X))
        np.testing.assert_array_equal(found, model.transform(X))
    again.save(tmp_path / "again")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


@pytest.mark.parametrize(
    "model",
    [
        oda_rl.ODAClassifier(mode="majority"),
        oda_rl.ODARegressor(local_model="constant"),
        oda_rl.MultiResolutionODA(oda_rl.ODAClassifier()),
        quantization.DeterministicAnnealing(8),
    ],
)
def test_shares_vanish_whatever_numpy_does_about_underflow(model):
    X, y = load_iris(return_X_y=True)
    seed = {"random_state": 0} if "random_state" in model.get_params() else {}
    found = []
    for what in ("ignore", "raise"):
        with np.errstate(all=what):
            own = clone(model).set_params(**seed).fit(X, y)
            found.append(own.predict(X))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_global_container_of_transforms_changes_no_model(cls, tmp_path):
    """With scikit-learn set to pandas, maps within an estimator would return data frames, too."""
    model = small(cls)
    if cls is oda_rl.MultiResolutionODA:
        own = make_pipeline(StandardScaler(), PCA(1))
        model.set_params(estimator=oda_rl.ODAClassifier(), layers=2, resolutions=[own, None])
    plain = clone(model).fit(X, Y)
    with config_context(transform_output="pandas"):
        model.fit(X, Y)
        assert np.array_equal(model.predict(X), plain.predict(X))
        assert np.array_equal(cls.load(model.save(tmp_path / "model")).predict(X), plain.predict(X))
        if hasattr(model, "partial_fit"):
            model.partial_fit(X[:2], Y[:2])
            plain.partial_fit(X[:2], Y[:2])
        assert np.array_equal(model.predict(X), plain.predict(X))
        if hasattr(model, "transform"):
            assert np.array_equal(model.transform(X), plain.set_output(transform="default").transform(X))


def test_only_known_containers_of_set_output_are_read_from_a_file(tmp_path):
    model = oda_rl.ODAPartition(3, random_state=0).fit(X).set_output(transform="pandas")

    def edit(header):
        header["state"]["form"]["_sklearn_output_config"]["transform"] = "of_mine"
        return header

    path = with_header(model.save(tmp_path / "model"), edit)
    with pytest.raises(storage.ModelFileError, match="'default' or 'pandas' or 'polars'"):
        oda_rl.ODAPartition.load(path)
    own = model.set_output(transform="of_mine").save(tmp_path / "own")  # an adapter of the user
    assert type(oda_rl.ODAPartition.load(own).transform(X)) is np.ndarray
