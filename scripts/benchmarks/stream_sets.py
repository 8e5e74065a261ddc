"""The streams of `benchmark.py streams`: those that river ships or makes, and files of the user."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Samples before the concept of a stream changes, and after it.
BEFORE = 5000

Samples = Iterator[tuple[dict[str, Any], Any]]


class File(NamedTuple):
    """Beginning of a file's name, and whether its rows are shuffled, as they have no order in time."""

    beginning: str
    shuffled: bool = False


# Their sources are in the help of `--data-dir`.
FILES = {
    "electricity": File("elec"),
    "gamma telescope": File("magic", shuffled=True),
    "weather": File("weather"),
    "cover types": File("covtype"),
    "SEA, file": File("sea_stream"),
    "moving squares": File("moving_squares"),
}


def made_streams(seed: int) -> dict[str, Callable[[], Samples]]:
    """Return the streams of river by name; concepts of some change after BEFORE samples."""
    from river import datasets
    from river.datasets import synth

    def changing(make: Callable[[int], Any], concepts: tuple[int, ...]) -> Any:
        return lambda: chain.from_iterable(islice(iter(make(c)), BEFORE) for c in concepts)

    def swapped() -> Samples:
        for i, (x, y) in enumerate(synth.SEA(seed=seed)):
            yield x, (not y if i >= BEFORE else y)

    rbf = {"n_classes": 4, "n_features": 8, "n_centroids": 40}
    moving = {"change_speed": 0.0005, "n_drift_centroids": 40}
    return {
        "Bananas": lambda: iter(datasets.Bananas()),
        "Phishing": lambda: iter(datasets.Phishing()),
        "ImageSegments": lambda: iter(datasets.ImageSegments()),
        "SEA": changing(lambda c: synth.SEA(variant=c, seed=seed), (0, 3)),
        "Agrawal": changing(lambda c: synth.Agrawal(classification_function=c, seed=seed), (0, 4)),
        "RandomRBFDrift": lambda: iter(
            synth.RandomRBFDrift(seed_model=seed, seed_sample=seed, **rbf, **moving)
        ),
        "Hyperplane": lambda: iter(
            synth.Hyperplane(seed=seed, n_features=10, n_drift_features=5, mag_change=0.002)
        ),
        "LED": lambda: iter(synth.LED(seed=seed, noise_percentage=0.1)),
        "labels swapped": swapped,
    }


def own_streams(data_dir: Path | None, seed: int) -> dict[str, Callable[[], Samples]]:
    """Return those of FILES that are in the folder, by name."""
    found: dict[str, Callable[[], Samples]] = {}
    for name, file in FILES.items():
        paths = [] if data_dir is None else sorted(data_dir.glob(f"{file.beginning}*"))
        if paths:
            found[name] = lambda path=paths[0], shuffled=file.shuffled: read_stream(
                path, seed if shuffled else None
            )
    return found


def read_stream(path: Path, seed: int | None) -> Samples:
    """Yield the rows of a file as samples, in their order, or shuffled with a seed.

    Columns are separated by commas; the last is the class, a number or a name, the others are numbers.
    If the others are not all numbers in the first row, it is a header.
    """
    rows = path.read_text().splitlines()
    cells = [cell.strip() for cell in rows[0].split(",")]
    try:
        [float(cell) for cell in cells[:-1]]
        names = [f"feature {i}" for i in range(len(cells) - 1)]
    except ValueError:
        names, rows = cells[:-1], rows[1:]
    order = range(len(rows)) if seed is None else np.random.default_rng(seed).permutation(len(rows))
    for i in order:
        *numbers, target = rows[i].split(",")
        yield dict(zip(names, map(float, numbers), strict=True)), target.strip()
