"""Growth of trees: errors when cells split, and several resolutions against flat classifiers."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit

from common.measuring import timed
from common.tables import make_table, show_table, yes
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl._types import Array, Labels
from oda_rl.datasets import make_gaussian_classes, make_surface, make_translated_digits
from oda_rl.resolutions import scattering_pyramid, wavelet_pyramid

MOST_RISE = 2.0
N_LAYERS, N_BATCH, CHUNK = 3, 480, 20
# Errors of a stream are those on its first samples; cells have few children, so that they split often.
N_LOOKED_AT, MAX_CHILDREN = 1000, 4
TEMPLATES: dict[str, Callable[[], Any]] = {
    "classification": ODAClassifier,
    "clustering": ODAPartition,
    "regression, linear": ODARegressor,
    "regression, constant": lambda: ODARegressor(local_model="constant"),
}


class Splits:
    """The largest rises of the error when cells split: in their cell, and on all training data.

    For streams, the first `N_LOOKED_AT` samples replace all data. Errors are in per cent: of the samples
    for a classifier, of the variance for the others.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.of_cells: dict[str, float] = {}
        self.of_all: dict[str, float] = {}

    def note(self, what: str, model: MultiResolutionODA) -> None:
        """Add the splits of a fitted tree: the error of each cell before its split and after it."""
        root = model.tree_.layers[0]
        whole = float(root.mass[0] if is_classifier(model) else root.loss[0])
        rises = [100.0 * (point.loss - point.loss_before) / whole for point in model.history_]
        self.counts[what] = self.counts.get(what, 0) + len(rises)
        self.of_cells[what] = max([self.of_cells.get(what, -np.inf), *rises])

    def compare(self, what: str, before: float, after: float) -> None:
        """Add the errors on all training data before and after some splits."""
        self.of_all[what] = max(self.of_all.get(what, -np.inf), after - before)


def error(model: MultiResolutionODA, samples: Array, targets: NDArray[Any]) -> float:
    """Error on samples, in per cent."""
    score = model.score(samples, targets)
    if is_classifier(model) or is_regressor(model):
        return 100.0 * (1.0 - score)
    return -100.0 * score / float(samples.var(axis=0).sum())


def problem_of(kind: str, n: int, seed: int) -> tuple[Array, NDArray[Any]]:
    """Samples and targets."""
    return (
        make_surface(n, seed) if kind.startswith("regression") else make_gaussian_classes(n, seed=seed)
    )


def grow_at_once(what: str, model: MultiResolutionODA, data: tuple[Array, Any], splits: Splits) -> None:
    """Fit with one layer, two, and so on, which gives the same tree layer by layer."""
    errors = []
    for layers in range(1, N_LAYERS + 1):
        model = clone(model).set_params(layers=layers).fit(*data)
        errors.append(error(model, *data))
        if layers > 1:
            splits.compare(what, *errors[-2:])
    splits.note(what, model)


def grow_by_stream(
    what: str, model: MultiResolutionODA, data: tuple[Array, Any], splits: Splits
) -> None:
    """Learn chunk by chunk; if cells were split, compare the errors on the first samples."""
    samples, targets = data
    first = samples[:N_LOOKED_AT], targets[:N_LOOKED_AT]
    model, n_splits, seen = clone(model), 0, np.inf
    for begin in range(0, len(samples), CHUNK):
        rows = slice(begin, begin + CHUNK)
        model.partial_fit(samples[rows], targets[rows])
        now = error(model, *first)
        if len(model.history_) > n_splits:
            splits.compare(what, seen, now)
        n_splits, seen = len(model.history_), now
    splits.note(what, model)


def show_splits(seeds: Sequence[int], n_stream: int, console: Console, splits: Splits) -> None:
    """Grow trees of all kinds, at once and by a stream; print the rises, also of earlier trees."""
    for seed in track(seeds, "Trees of all kinds", console=console, transient=True):
        for kind, template in TEMPLATES.items():
            model = MultiResolutionODA(template(), layers=N_LAYERS, random_state=seed)
            grow_at_once(f"{kind}, batch", model, problem_of(kind, N_BATCH, seed), splits)
            model.set_params(max_children=MAX_CHILDREN)
            grow_by_stream(f"{kind}, stream", model, problem_of(kind, n_stream, seed), splits)
    rows = []
    for what, count in splits.counts.items():
        whole = f"{splits.of_all[what]:+.2f}" if what in splits.of_all else ""
        rows.append([what, f"{count:,}", f"{splits.of_cells[what]:+.2f}", whole])
    title = "Largest rise of the training error when cells split, percentage points"
    show_table(console, title, ("", "cells split", "in their cell", "on all data"), rows, left=0)
    worst = max(*splits.of_cells.values(), *splits.of_all.values())
    reached = yes(worst <= MOST_RISE)
    console.print(
        "Errors: fraction of the samples for a classifier, of the variance for the others. In their "
        "cell: the samples at hand, by history_; on all data (of a stream: on its first "
        f"{N_LOOKED_AT:,} samples): before and after a layer, or the chunk of a stream, in which "
        f"cells split. Largest: {worst:+.2f} (at most {MOST_RISE:g}: {reached})"
    )


# -- several resolutions -----------------------------------------------------------------------------

TEST_SIZE = 0.2
SHAPES = {"digits": (8, 8), "translated": (12, 12)}
PIXELS = "pixels"
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
        Case(PIXELS, None, (40, 10), None),
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


def measure(case: Case, samples: Array, labels: Labels, seed: int, splits: Splits) -> Row:
    """Fit a tree, and flat classifiers on pixels with as many codevectors as it has leaves."""
    division = StratifiedShuffleSplit(1, test_size=TEST_SIZE, random_state=seed)
    train, test = next(division.split(samples, labels))
    model = case.model(seed)
    _, seconds = timed(model.fit, samples[train], labels[train])
    splits.note("digits, batch", model)
    flat = []
    for options in FLAT:
        other = ODAClassifier(max_codevectors=model.n_codevectors_, random_state=seed, **options)
        other.fit(samples[train], labels[train])
        flat.append(100.0 * other.score(samples[test], labels[test]))
    accuracy = 100.0 * model.score(samples[test], labels[test])
    return Row(model.n_codevectors_, model.n_layers_, seconds, accuracy, tuple(flat))


def add_row(table: Table, data: str, name: str, rows: Sequence[Row]) -> tuple[float, float]:
    """Add the means of a tree; return its accuracy, and that of the best flat classifier."""
    accuracy = float(np.mean([row.accuracy for row in rows]))
    flat = float(np.mean([row.flat for row in rows], axis=0).max())
    leaves, layers = (np.mean([getattr(row, name) for row in rows]) for name in ("leaves", "layers"))
    table.add_row(
        *(data, name, f"{leaves:.1f}", f"{layers:.1f}", f"{np.median([r.seconds for r in rows]):.2f}"),
        *(f"{accuracy:.2f}", f"{flat:.2f}"),
    )
    return accuracy, flat


def show_resolutions(
    names: Sequence[str],
    begins: tuple[str, ...],
    seeds: Sequence[int],
    console: Console,
    splits: Splits,
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
    lines = []
    for name in names:
        samples, labels = load(name)
        best: dict[str, float] = {}
        beaten = []
        chosen = [case for case in cases(SHAPES[name]) if case.name.startswith(begins)]
        for case in track(chosen, f"{name}: resolutions", console=console, transient=True):
            rows = [measure(case, samples, labels, seed, splits) for seed in seeds]
            best[case.name], flat = add_row(table, name, case.name, rows)
            several = case.resolutions is not None and min(row.layers for row in rows) > 1
            if several and best[case.name] > flat:
                beaten.append(case.name)
        table.add_section()
        lines.append(describe(name, best, beaten))
    console.print(table)
    console.print(
        "Flat: the best of three settings, chosen on the test samples. Scattering: windows of 2^J "
        "points, coarse to fine, and principal components; LDA: followed by linear discriminant "
        "analysis."
    )
    for line in lines:
        console.print(line)


def describe(name: str, best: dict[str, float], beaten: list[str]) -> str:
    """Describe what is reached on one data set."""
    several = f"yes ({'; '.join(beaten)})" if beaten else "no"
    top = max(best, key=lambda case: best[case])
    better = "no" if top == PIXELS else f"yes ({top})" if PIXELS in best else f"? ({top})"
    return (
        f"{name}: two or three resolutions beat the flat classifier on pixels at equal K: {several}; "
        f"wavelets or scattering beat pixels in trees: {better}"
    )
