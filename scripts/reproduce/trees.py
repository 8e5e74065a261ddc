"""Reproduce the papers' figures on trees, and compare trees with flat codebooks.

python scripts/reproduce/trees.py

Figs. 3 to 8 of "Multi-Resolution Online Deterministic Annealing": clustering by a flat codebook and by
trees of two and three layers; classification by a flat codebook, by a tree of three layers, and by one
of two layers, the first of which uses only one coordinate. Then the comparison in section 5 of
"Explainable Learning with Hierarchical Online Deterministic Annealing", where the tree classifies 99.8 %
of the test samples correctly after 0.4 s, and the flat classifier after 10.4 s. Writes a picture for
each figure, one of all errors over time, and the tables into `--out`. The mixtures of Gaussians resemble
the papers', which do not specify theirs in detail.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.ending import run_and_exit

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import clone, is_classifier

from benchmarks.trees import template
from common.arguments import Count, Positive, open_out, whole
from common.measuring import timed
from common.pictures import save
from common.tables import make_console, make_table
from oda_rl import MultiResolutionODA, ODAPartition
from oda_rl._types import Array, Labels
from oda_rl.datasets import make_gaussian_classes, make_gaussians
from oda_rl.resolutions import projection_pyramid
from trees_pictures import draw_figure, draw_times

TEST_SHARE = 0.2
# The comparison of the second paper: classes that hardly overlap, and the accuracy to reach, in %
COMPARED = {"n_samples": 2500, "scale": 0.02}
WANTED = 99.8


@dataclass
class Args:
    """Reproduce the papers' figures on trees.

    The papers do not state their numbers of samples; the defaults are our own.
    """

    out: Path = Path("logs/trees")
    """Folder of the pictures and the tables."""
    n_samples: Annotated[int, whole(50)] = 600
    """Samples of each problem, of which a fifth are test samples."""
    max_codevectors: Positive = 40
    """K of the flat clusterer."""
    max_class_codevectors: Positive = 100
    """K of the flat classifiers."""
    compared_seeds: tuple[Count, ...] = tuple(range(10))
    """Seeds of the problems in the second paper's comparison; none to leave it out."""
    repeats: Positive = 15
    """Fits of every model; the fastest one is shown."""
    seed: Count = 0
    """Seed of the problems in the figures, and of the models."""


class Case(NamedTuple):
    """One of the figures: its number, what it shows, and the model."""

    figure: int
    name: str
    model: Any


class Stage(NamedTuple):
    """State of a model after `n_samples` presentations; the error is that of the training samples."""

    k: int
    n_samples: int
    seconds: float
    error: float
    temperature: float


class Outcome(NamedTuple):
    """A fitted model, models of its first layers alone, its stages, and its time and final errors."""

    case: Case
    model: Any
    prefixes: list[Any]
    stages: list[Stage]
    seconds: float
    training_error: float
    test_error: float


def tree(estimator: Any, children: tuple[int, ...], seed: int, **options: Any) -> MultiResolutionODA:
    """A tree whose cells in layer i have at most `children[i]` children."""
    layers = [{"max_codevectors": k} for k in children]
    return MultiResolutionODA(estimator, layers=layers, random_state=seed, **options)


def cases(args: Args) -> list[Case]:
    """The figures of the first paper."""
    seed = args.seed
    flat = template(seed, max_codevectors=args.max_class_codevectors)
    first_coordinate = projection_pyramid([1, None])
    return [
        Case(3, "clustering, flat", ODAPartition(args.max_codevectors, random_state=seed)),
        Case(4, "clustering, two layers", tree(ODAPartition(), (8, 5), seed)),
        Case(5, "clustering, three layers", tree(ODAPartition(), (4, 4, 3), seed)),
        Case(6, "classification, flat", flat),
        Case(7, "classification, three layers", tree(flat, (8, 4, 4), seed)),
        Case(
            8,
            "classification, 1-D then 2-D",
            tree(flat, (8, 8), seed, resolutions=first_coordinate),
        ),
    ]


def problem(case: Case, args: Args) -> tuple[Array, Labels]:
    """Make samples and classes, which clusterers ignore."""
    if is_classifier(case.model):
        return make_gaussian_classes(args.n_samples, seed=args.seed)
    return make_gaussians(args.n_samples, seed=args.seed)


def split(samples: Array, labels: Labels) -> tuple[tuple[Array, Labels], tuple[Array, Labels]]:
    """Training and test samples with their classes."""
    n = round((1.0 - TEST_SHARE) * len(samples))
    return (samples[:n], labels[:n]), (samples[n:], labels[n:])


def fit_fastest(model: Any, train: tuple[Array, Labels], repeats: int) -> tuple[Any, float]:
    """Fit a model several times; return the fastest fit, and its seconds."""
    fits = [timed(clone(model).fit, *train) for _ in range(repeats)]
    return min(fits, key=lambda fit: fit[1])


def error(model: Any, samples: Array, labels: Labels) -> float:
    """Percentage of misclassified samples, or the mean distortion."""
    score = model.score(samples, labels)
    return 100.0 * (1.0 - score) if is_classifier(model) else -score


def flat_stages(model: Any, samples: Array, labels: Labels) -> list[Stage]:
    """One stage for each temperature."""
    history = model.history_
    if is_classifier(model):
        errors = [100.0 * float(np.mean(found != labels)) for found in model.staged_predict(samples)]
    else:
        errors = [point.distortion for point in history]
    return [
        Stage(p.n_codevectors, p.n_samples_seen, p.seconds, value, p.temperature)
        for p, value in zip(history, errors, strict=True)
    ]


def tree_stages(model: MultiResolutionODA) -> list[Stage]:
    """One stage for each split cell; a split lowers the total error as it lowers that of the cell."""
    root = model.tree_.layers[0]
    unit = (100.0 if is_classifier(model) else 1.0) / float(root.mass[0])
    value, seen = float(root.loss[0]), 0
    stages = [Stage(1, 0, 0.0, unit * value, np.nan)]
    for point in model.history_:
        value += point.loss - point.loss_before
        seen += point.n_samples_seen
        stages.append(Stage(point.n_leaves, seen, point.seconds, unit * value, point.temperature))
    return stages


def run(case: Case, args: Args) -> Outcome:
    """Fit a model several times, and keep the fastest fit; also fit the first layers of a tree."""
    train, test = split(*problem(case, args))
    best, least = fit_fastest(case.model, train, args.repeats)
    prefixes = []
    if isinstance(best, MultiResolutionODA):
        for depth in range(1, len(best.layers) + 1):
            resolutions = best.resolutions and best.resolutions[:depth]
            first = clone(best).set_params(layers=best.layers[:depth], resolutions=resolutions)
            prefixes.append(first.fit(*train))
        stages = tree_stages(best)
    else:
        stages = flat_stages(best, *train)
    return Outcome(case, best, prefixes, stages, least, error(best, *train), error(best, *test))


def n_presented(model: Any) -> int:
    """Number of samples presented to the annealing."""
    return int(model.n_presented_ if isinstance(model, MultiResolutionODA) else model.n_samples_seen_)


def table_of(outcomes: list[Outcome]) -> Table:
    """One row for each figure."""
    title = "Errors in training and test: mean distortion of clusterers, per cent of classifiers"
    table = make_table(title, "Fig.", "", "K", "cells", "observed", "ms", "training", "test", left=2)
    table.columns[0].justify = "right"
    for one in outcomes:
        model = one.model
        cells = getattr(model, "n_cells_", model.n_codevectors_)
        table.add_row(
            *(str(one.case.figure), one.case.name, str(model.n_codevectors_), str(cells)),
            *(f"{n_presented(model):,}", f"{1e3 * one.seconds:.1f}"),
            *(f"{one.training_error:.3g}", f"{one.test_error:.3g}"),
        )
    return table


# -- the second paper ----------------------------------------------------------------------------


class Race(NamedTuple):
    """Seconds and K at the accuracy `level` on test samples, and the final accuracies, in per cent."""

    flat_seconds: float
    tree_seconds: float
    level: float
    flat_end: float
    tree_end: float
    flat_k: int
    tree_k: int


def race(seed: int, args: Args) -> Race:
    """Compare flat and tree on one problem, at the accuracy `WANTED` or the best that both reach."""
    samples, labels = make_gaussian_classes(seed=seed, **COMPARED)  # type: ignore[arg-type]
    train, test = split(samples, labels)
    flat, _ = fit_fastest(
        template(seed, max_codevectors=args.max_class_codevectors), train, args.repeats
    )
    reached = [100.0 * float(np.mean(found == test[1])) for found in flat.staged_predict(test[0])]
    by_layers = []
    for depth in (1, 2, 3):
        model, seconds = fit_fastest(
            tree(template(seed, max_codevectors=1), (8, 4, 4)[:depth], seed), train, args.repeats
        )
        by_layers.append((seconds, 100.0 * model.score(*test), model.n_codevectors_))
    level = min(WANTED, max(reached), max(accuracy for _, accuracy, _ in by_layers))
    first = next(p for p, r in zip(flat.history_, reached, strict=True) if r >= level - 1e-9)
    tree_first = next(row for row in by_layers if row[1] >= level - 1e-9)
    return Race(
        first.seconds,
        tree_first[0],
        level,
        reached[-1],
        by_layers[-1][1],
        first.n_codevectors,
        tree_first[2],
    )


def race_table(races: list[Race]) -> Table:
    """A table of the medians over the problems."""
    title = f"Until {WANTED:g} % of the test samples are right, or what both reach: medians"
    columns = ("", "ms", "K then", "right then, %", "right in the end, %", "in the paper, s")
    table = make_table(title, *columns)
    middle = Race(*np.median(np.array(races), axis=0))
    then = f"{middle.level:.2f}"
    for name, seconds, k, end, paper in (
        ("flat", middle.flat_seconds, middle.flat_k, middle.flat_end, "10.4"),
        ("three layers", middle.tree_seconds, middle.tree_k, middle.tree_end, "0.4"),
    ):
        table.add_row(name, f"{1e3 * seconds:.1f}", f"{k:g}", then, f"{end:.2f}", paper)
    return table


def main(args: Args) -> None:
    """Run everything, and write the results."""
    console = make_console()
    open_out(args, "compared_seeds")
    outcomes = [run(case, args) for case in track(cases(args), "Figures", transient=True)]
    for one in outcomes:
        name = one.case.name.replace(",", "").replace(" ", "_").lower()
        figure = draw_figure(one, *problem(one.case, args))
        save(figure, args.out / f"fig{one.case.figure}_{name}.png")
    save(draw_times(outcomes), args.out / "errors_over_time.png")
    tables = [table_of(outcomes)]
    if args.compared_seeds:
        seeds = track(args.compared_seeds, "Flat against tree", transient=True)
        tables.append(race_table([race(seed, args) for seed in seeds]))
    with open(args.out / "tables.txt", "w", encoding="utf-8") as file:
        for table in tables:
            console.print(table)
            Console(file=file, width=100).print(table)
    console.print(f"written to {args.out}: fig3_... to fig8_....png, errors_over_time.png, tables.txt")
    console.print("next: python scripts/benchmark.py trees")


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
