"""Trees of several resolutions on images of digits, against flat classifiers on pixels."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit

from common.measuring import timed
from common.tables import make_table
from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl._types import Array, Labels
from oda_rl.datasets import make_translated_digits
from oda_rl.resolutions import scattering_pyramid, wavelet_pyramid

TEST_SIZE = 0.2
SHAPES = {"digits": (8, 8), "translated": (12, 12)}
# Settings of the flat classifier on pixels; the one that is best on the test samples counts.
FLAT: tuple[dict[str, Any], ...] = (
    {"scale": None, "validation": None},
    {"scale": None, "validation": None, "rule": "nearest"},
    {"validation": None},
)


class Case(NamedTuple):
    """A tree: its name, the scale of its template, children by layer, and resolutions."""

    name: str
    scale: str | None
    children: tuple[int, ...]
    resolutions: list[Any] | None

    def model(self, seed: int) -> MultiResolutionODA:
        """Make a new tree."""
        layers = [{"max_codevectors": k} for k in self.children]
        return MultiResolutionODA(
            ODAClassifier(scale=self.scale),
            layers=layers,
            resolutions=self.resolutions,
            random_state=seed,
        )


class Row(NamedTuple):
    """Results of a tree on one division of the data, and of flat classifiers of as many codevectors."""

    leaves: int
    layers: int
    seconds: float
    accuracy: float
    flat: tuple[float, ...]


def cases(shape: tuple[int, int]) -> list[Case]:
    """Return the trees, which were chosen on divisions of the data with seeds from 100."""
    scattering = partial(scattering_pyramid, shape)
    log = partial(scattering, discriminant=True, compression="log")
    return [
        Case("pixels", None, (40, 10), None),
        Case("wavelets, 2 levels", None, (40, 10), list(wavelet_pyramid(shape, [1, 0]))),
        Case("scattering 2, 1", "within", (20, 10), scattering(windows=[2, 1])),
        Case("scattering 3, 2, 1", "within", (20, 10, 10), scattering(windows=[3, 2, 1])),
        Case("scattering 2, 1, LDA", None, (20, 10), scattering(windows=[2, 1], discriminant=True)),
        Case("scattering 2, 1, log, LDA", None, (20, 10), log(windows=[2, 1])),
    ]


def load(name: str) -> tuple[Array, Labels]:
    """Load the digits, or digits that are each translated in a larger image."""
    if name == "digits":
        return load_digits(return_X_y=True)
    return make_translated_digits(SHAPES[name])


def measure(case: Case, samples: Array, labels: Labels, seed: int) -> Row:
    """Fit a tree, and flat classifiers on pixels with as many codevectors as it has leaves."""
    division = StratifiedShuffleSplit(1, test_size=TEST_SIZE, random_state=seed)
    train, test = next(division.split(samples, labels))
    model = case.model(seed)
    _, seconds = timed(model.fit, samples[train], labels[train])
    flat = []
    for options in FLAT:
        other = ODAClassifier(max_codevectors=model.n_codevectors_, random_state=seed, **options)
        other.fit(samples[train], labels[train])
        flat.append(100.0 * other.score(samples[test], labels[test]))
    accuracy = 100.0 * model.score(samples[test], labels[test])
    return Row(model.n_codevectors_, model.n_layers_, seconds, accuracy, tuple(flat))


def add_row(table: Table, data: str, name: str, rows: Sequence[Row]) -> None:
    """Add the means of a tree, and of the best flat classifier."""
    accuracy = float(np.mean([row.accuracy for row in rows]))
    flat = float(np.mean([row.flat for row in rows], axis=0).max())
    leaves, layers = (np.mean([getattr(row, name) for row in rows]) for name in ("leaves", "layers"))
    table.add_row(
        *(data, name, f"{leaves:.1f}", f"{layers:.1f}", f"{np.median([r.seconds for r in rows]):.2f}"),
        *(f"{accuracy:.2f}", f"{flat:.2f}"),
    )


def show_resolutions(
    names: Sequence[str], begins: tuple[str, ...], seeds: Sequence[int], console: Console
) -> None:
    """Print accuracies of trees by resolutions, against flat classifiers on pixels at equal K."""
    table = make_table(
        f"Accuracy on a fifth left out, %, means over seeds {tuple(seeds)}",
        *("data", "resolutions", "leaves", "layers", "fit s", "tree", "flat, pixels, same K"),
        left=2,
    )
    if not any(case.name.startswith(begins) for case in cases(SHAPES[names[0]])):
        known = "; ".join(case.name for case in cases(SHAPES[names[0]]))
        sys.exit(f"--cases: no name begins with {' or '.join(begins)}; there are: {known}.")
    for name in names:
        samples, labels = load(name)
        chosen = [case for case in cases(SHAPES[name]) if case.name.startswith(begins)]
        for case in track(chosen, f"{name}: resolutions", console=console, transient=True):
            rows = [measure(case, samples, labels, seed) for seed in seeds]
            add_row(table, name, case.name, rows)
        table.add_section()
    console.print(table)
    console.print(
        "Flat: the best of three settings, chosen on the test samples. Scattering: windows of 2^J "
        "points, coarse to fine, and principal components; LDA: followed by linear discriminant "
        "analysis."
    )
