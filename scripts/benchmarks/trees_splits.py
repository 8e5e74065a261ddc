"""Whether the training error rises when a cell of a tree splits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.base import clone, is_classifier, is_regressor

from common.tables import show_table
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.datasets import make_gaussian_classes, make_surface

Array = NDArray[np.float64]

MOST_RISE = 2.0
N_LAYERS, N_BATCH, CHUNK = 3, 480, 20
# A stream's errors are those of its first samples; its cells have few children, and so split often.
N_LOOKED_AT, MAX_CHILDREN = 1000, 4
TEMPLATES: dict[str, Callable[[], Any]] = {
    "classification": ODAClassifier,
    "clustering": ODAPartition,
    "regression, linear": ODARegressor,
    "regression, constant": lambda: ODARegressor(local_model="constant"),
}


class Splits:
    """The largest rises of errors in the histories of trees, and on all training data.

    Errors are in per cent: of the samples of a classifier, of the variance for the others.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.of_cells: dict[str, float] = {}
        self.of_all: dict[str, float] = {}

    def note(self, what: str, model: MultiResolutionODA) -> None:
        """Take the splits of a fitted tree in: the errors of a cell against those of its children."""
        root = model.tree_.layers[0]
        whole = float(root.mass[0] if is_classifier(model) else root.loss[0])
        rises = [100.0 * (point.loss - point.loss_before) / whole for point in model.history_]
        self.counts[what] = self.counts.get(what, 0) + len(rises)
        self.of_cells[what] = max([self.of_cells.get(what, -np.inf), *rises])

    def compare(self, what: str, before: float, after: float) -> None:
        """Take in the error on all training data before and after some splits."""
        self.of_all[what] = max(self.of_all.get(what, -np.inf), after - before)


def error(model: MultiResolutionODA, samples: Array, targets: NDArray[Any]) -> float:
    """Error on samples, in per cent."""
    score = model.score(samples, targets)
    if is_classifier(model) or is_regressor(model):
        return 100.0 * (1.0 - score)
    return -100.0 * score / float(samples.var(axis=0).sum())


def problem(kind: str, n: int, seed: int) -> tuple[Array, NDArray[Any]]:
    """Samples and targets."""
    return (
        make_surface(n, seed) if kind.startswith("regression") else make_gaussian_classes(n, seed=seed)
    )


def grow_at_once(what: str, model: MultiResolutionODA, data: tuple[Array, Any], splits: Splits) -> None:
    """Fit with one layer, two, and so on, which are the same tree layer by layer."""
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
    """Learn chunk by chunk; wherever cells were split, compare the errors on all data."""
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
    """Grow trees of all kinds, at once and by a stream, and tell of these and all trees before them."""
    for seed in track(seeds, "Trees of all kinds", console=console, transient=True):
        for kind, template in TEMPLATES.items():
            model = MultiResolutionODA(template(), layers=N_LAYERS, random_state=seed)
            grow_at_once(f"{kind}, batch", model, problem(kind, N_BATCH, seed), splits)
            model.set_params(max_children=MAX_CHILDREN)
            grow_by_stream(f"{kind}, stream", model, problem(kind, n_stream, seed), splits)
    rows = []
    for what, count in splits.counts.items():
        whole = f"{splits.of_all[what]:+.2f}" if what in splits.of_all else ""
        rows.append([what, f"{count:,}", f"{splits.of_cells[what]:+.2f}", whole])
    title = "Largest rise of the training error when cells split, percentage points"
    show_table(console, title, ("", "cells split", "in their cell", "on all data"), rows, left=0)
    worst = max(*splits.of_cells.values(), *splits.of_all.values())
    reached = "yes" if worst <= MOST_RISE else "no"
    console.print(
        "Errors: part of the samples of a classifier, part of the variance for the others. In their "
        "cell: the samples at hand, by history_; on all data: before and after a layer, or the chunk of "
        f"a stream, in which cells split. Largest: {worst:+.2f} (at most {MOST_RISE:g}: {reached})"
    )
