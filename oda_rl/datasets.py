"""Data sets of the papers: generated, from scikit-learn, from a folder of CSV files, or from OpenML."""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml, load_breast_cancer, load_digits

from oda_rl._types import Array, Labels
from oda_rl._validation import check_at_least, check_non_negative

NAMES = ("gaussians", "wbcd", "pima", "adult", "digits")
# The name in OpenML, the version, and the target value that becomes label 1.
OPENML = {"pima": ("diabetes", 1, "tested_positive"), "adult": ("adult", 2, ">50K")}


def make_gaussians(
    n_samples: int = 1500, n_components: int = 10, scale: float = 0.1, seed: int = 0
) -> tuple[Array, Labels]:
    """A mixture of Gaussians in the plane, as in the papers' figures.

    Parameters
    ----------
    n_samples : int, default=1500
        Number of samples, shared equally among the components.
    n_components : int, default=10
        Number of components; their means are uniform in the square from -1 to 1.
    scale : float, default=0.1
        Standard deviation of the components.
    seed : int, default=0
        Seed of the generator.

    Returns
    -------
    samples : ndarray of shape (n_samples, 2)
        In random order.
    labels : ndarray of shape (n_samples,)
        Their components.

    Examples
    --------
    >>> samples, labels = make_gaussians(100)
    >>> samples.shape, int(labels.max())
    ((100, 2), 9)
    """
    check_at_least(1, n_samples=n_samples, n_components=n_components)
    check_non_negative(scale=scale)
    rng = np.random.default_rng(seed)
    means = rng.uniform(-1.0, 1.0, (n_components, 2))
    labels = rng.permutation(np.arange(n_samples) % n_components)
    return means[labels] + scale * rng.normal(size=(n_samples, 2)), labels


def make_gaussian_classes(
    n_samples: int = 600, n_components: int = 10, n_classes: int = 2, scale: float = 0.07, seed: int = 0
) -> tuple[Array, Labels]:
    """Classes in the plane that are mixtures of Gaussians, as in the papers' figures on trees.

    Parameters
    ----------
    n_samples : int, default=600
        Number of samples, shared equally among the components; 480 are for training, 120 for a test.
    n_components : int, default=10
        Number of components; their means are uniform in the square from -1 to 1.
    n_classes : int, default=2
        Number of classes, at most `n_components`; components are assigned to them in turn.
    scale : float, default=0.07
        Standard deviation of the components.
    seed : int, default=0
        Seed of the generator.

    Returns
    -------
    samples : ndarray of shape (n_samples, 2)
        In random order.
    labels : ndarray of shape (n_samples,)
        Their classes.

    Raises
    ------
    ValueError
        If there are fewer components than classes.

    Examples
    --------
    >>> samples, labels = make_gaussian_classes()
    >>> samples.shape, int(labels.max())
    ((600, 2), 1)
    """
    check_at_least(1, n_classes=n_classes)
    check_at_least(n_classes, n_components=n_components)
    samples, components = make_gaussians(n_samples, n_components, scale, seed)
    return samples, components % n_classes


def make_multidist(
    n_samples: int = 5000, n_test: int = 2500, n_classes: int = 5, seed: int = 0
) -> tuple[Array, Labels, Array, Labels]:
    """Classes in the plane that are mixtures of three Gaussians each, fifteen modes in all.

    The data set `multidist` of Koppel, Bedi and Krishnamurthy, "A Dynamical Systems Perspective on
    Online Bayesian Nonparametric Estimators with Adaptive Hyperparameters", section 5, after Zhu and
    Hastie (2005). The means of a class are drawn around a point on the unit circle with variance 1; a
    mode has variance 0.2 in each coordinate, a standard deviation of 0.45. The classes overlap; by how
    much depends on the seed.

    Parameters
    ----------
    n_samples, n_test : int, default=5000 and 2500
        Numbers of samples for training and for a test.
    n_classes : int, default=5
        Number of classes, all equally likely.
    seed : int, default=0
        Seed of the generator of modes and samples.

    Returns
    -------
    samples : ndarray of shape (n_samples, 2)
    labels : ndarray of shape (n_samples,)
        Classes, from 0.
    test_samples : ndarray of shape (n_test, 2)
    test_labels : ndarray of shape (n_test,)

    Raises
    ------
    ValueError
        If `n_samples` or `n_classes` is below 1, or `n_test` below 0.

    Examples
    --------
    >>> samples, labels, test_samples, test_labels = make_multidist()
    >>> samples.shape, test_samples.shape, int(labels.max())
    ((5000, 2), (2500, 2), 4)
    """
    check_at_least(1, n_samples=n_samples, n_classes=n_classes)
    check_at_least(0, n_test=n_test)
    rng = np.random.default_rng(seed)
    angles = 2.0 * np.pi * np.arange(n_classes) / n_classes
    centres = np.column_stack([np.cos(angles), np.sin(angles)])
    means = centres[:, None] + rng.normal(size=(n_classes, 3, 2))
    n = n_samples + n_test
    labels = rng.integers(n_classes, size=n)
    modes = rng.integers(3, size=n)
    samples = means[labels, modes] + np.sqrt(0.2) * rng.normal(size=(n, 2))
    return samples[:n_samples], labels[:n_samples], samples[n_samples:], labels[n_samples:]


def make_curve(n_samples: int = 1500, seed: int = 0) -> tuple[Array, Array]:
    """A function of one input, x sin(2 x): waves of growing amplitude.

    The papers show the functions of their regression problems in pictures only; this one is similar.

    Parameters
    ----------
    n_samples : int, default=1500
        Number of inputs, uniform between 0 and 9.5.
    seed : int, default=0
        Seed of the generator.

    Returns
    -------
    samples : ndarray of shape (n_samples, 1)
        Inputs.
    outputs : ndarray of shape (n_samples,)
        The function, without noise.

    Examples
    --------
    >>> samples, outputs = make_curve(100)
    >>> samples.shape, outputs.shape
    ((100, 1), (100,))
    """
    check_at_least(1, n_samples=n_samples)
    x = np.random.default_rng(seed).uniform(0.0, 9.5, (n_samples, 1))
    return x, curve(x)


def make_surface(n_samples: int = 1500, seed: int = 0) -> tuple[Array, Array]:
    """A function of two inputs, sin(2 pi x) cos(2 pi y): eight hills and valleys.

    Parameters
    ----------
    n_samples : int, default=1500
        Number of inputs, uniform in the unit square.
    seed : int, default=0
        Seed of the generator.

    Returns
    -------
    samples : ndarray of shape (n_samples, 2)
        Inputs.
    outputs : ndarray of shape (n_samples,)
        The function, without noise.

    Examples
    --------
    >>> samples, outputs = make_surface(100)
    >>> samples.shape, outputs.shape
    ((100, 2), (100,))
    """
    check_at_least(1, n_samples=n_samples)
    x = np.random.default_rng(seed).uniform(0.0, 1.0, (n_samples, 2))
    return x, surface(x)


def make_translated_digits(
    shape: int | tuple[int, int] = 12, n_copies: int = 1, seed: int = 0
) -> tuple[Array, Labels]:
    """Handwritten digits at random places of larger, otherwise empty images.

    scikit-learn's digits fill their 8 x 8 pixels; here each is put at a random place of a larger frame,
    all places equally likely. The shapes of the digits are the same, but single pixels say little.

    Parameters
    ----------
    shape : int or (height, width), default=12
        Size of the frame in pixels, at least 8; a number is the length of both sides.
    n_copies : int, default=1
        Number of copies of every digit, each at a random place of its own. Copies of a digit are 1797
        rows apart (the number of digits): keep them together when splitting the data for a test.
    seed : int, default=0
        Seed of the generator of the places.

    Returns
    -------
    samples : ndarray of shape (1797 * n_copies, height * width)
        Images in C order, grey values from 0 to 16, in the order of `sklearn.datasets.load_digits`.
    labels : ndarray of shape (1797 * n_copies,)
        The digits, 0 to 9.

    Raises
    ------
    ValueError
        If the frame is smaller than a digit or no pair of integers, or `n_copies` below 1.

    Examples
    --------
    >>> samples, labels = make_translated_digits(12)
    >>> samples.shape, int(labels[0])
    ((1797, 144), 0)
    """
    sides = np.asarray(shape)
    if sides.dtype.kind not in "iu" or sides.shape not in ((), (2,)):
        raise ValueError(f"shape must be an integer or (height, width), got {shape!r}.")
    height, width = np.broadcast_to(sides, 2).tolist()
    bunch = load_digits()
    side = bunch.images.shape[1]
    if min(height, width) < side:
        raise ValueError(f"shape must be at least {side} x {side}, got {height} x {width}.")
    check_at_least(1, n_copies=n_copies)
    images = np.tile(bunch.images, (n_copies, 1, 1))
    rng = np.random.default_rng(seed)
    top = rng.integers(0, height - side, len(images), endpoint=True)
    left = rng.integers(0, width - side, len(images), endpoint=True)
    rows = top[:, None] + np.arange(side)
    columns = left[:, None] + np.arange(side)
    samples = np.zeros((len(images), height, width))
    samples[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]] = images
    return samples.reshape(len(images), -1), np.tile(bunch.target, n_copies).astype(np.int64)


def curve(samples: Array) -> Array:
    """The function of `make_curve`."""
    return np.asarray(samples[:, 0] * np.sin(2.0 * samples[:, 0]))


def surface(samples: Array) -> Array:
    """The function of `make_surface`."""
    return np.asarray(np.sin(2.0 * np.pi * samples[:, 0]) * np.cos(2.0 * np.pi * samples[:, 1]))


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> tuple[Array, Labels]:
    """Load a data set by its name.

    Parameters
    ----------
    name : {"gaussians", "wbcd", "pima", "adult", "digits"}
        The mixture of Gaussians, Wisconsin breast cancer, Pima diabetes, Adult (numeric columns) or the
        handwritten digits.
    data_dir : path, optional
        Folder of `pima*.csv` and `adult*.csv`: comma-separated, with a header, the last column `label`.
        If there is no such file, the set is fetched from OpenML through scikit-learn.

    Returns
    -------
    samples : ndarray of shape (n_samples, n_features)
        Not scaled.
    labels : ndarray of shape (n_samples,)
        Classes.

    Raises
    ------
    ValueError
        If there is no data set of that name.
    OSError
        If there is neither a file nor a connection to OpenML.

    Examples
    --------
    >>> samples, labels = load("wbcd")
    >>> samples.shape
    (569, 30)
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {NAMES}, got {name!r}.")
    if name == "gaussians":
        return make_gaussians()
    if name in OPENML:
        return _read_or_fetch(name, data_dir)
    bunch = load_breast_cancer() if name == "wbcd" else load_digits()
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.int64)


def read_csv(path: str | os.PathLike[str], label: str = "label") -> tuple[Array, Labels]:
    """Read a CSV file of numbers with one header line; its last column is the `label`.

    Raises
    ------
    ValueError
        If the last column has another name.
    """
    with open(path, encoding="utf-8") as file:
        header = file.readline().strip().split(",")
        if header[-1] != label:
            raise ValueError(f"{path}: the last column must be {label!r}, got {header[-1]!r}.")
        table = np.loadtxt(file, delimiter=",", ndmin=2)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)


def _read_or_fetch(name: str, data_dir: str | os.PathLike[str] | None) -> tuple[Array, Labels]:
    found = sorted(Path(data_dir).glob(f"{name}*.csv")) if data_dir is not None else []
    if found:
        return read_csv(found[0])
    openml_name, version, positive = OPENML[name]
    try:
        bunch = fetch_openml(openml_name, version=version, as_frame=False, parser="liac-arff")
    except Exception as error:
        where = (
            "data_dir was not given" if data_dir is None else f"there is no {name}*.csv in {data_dir}"
        )
        raise OSError(
            f"the data set {name!r} is not available: {where}, and OpenML cannot be reached ({error})."
        ) from error
    numeric = [i for i, column in enumerate(bunch.feature_names) if column not in bunch.categories]
    samples = np.asarray(bunch.data[:, numeric], dtype=np.float64)
    return samples, (np.asarray(bunch.target) == positive).astype(np.int64)
