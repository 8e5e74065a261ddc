"""The classifier, in one configuration: accuracy, size and time against others, and its robustness."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_circles, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.regression import show_regression, show_regression_stream
from common.arguments import Count, Positive
from common.measuring import timed
from common.tables import make_table, show_table, yes
from oda_rl import ODAClassifier, datasets
from oda_rl._types import Array, Labels

Split = tuple[Labels, Labels]

OURS, FOREST = "ODA", "forest"
# Accuracies in per cent, most codevectors, and most time in times of the random forest's.
TARGETS = {
    "wbcd": (96.0, 150, 1.0),
    "digits": (97.5, 400, 3.0),
    "wine": (97.0, 150, 1.0),
    "iris": (95.5, 150, 1.0),
    "moons": (99.5, 150, 1.0),
    "circles": (99.5, 150, 1.0),
    "pima": (75.0, 150, 1.0),
}
LEAST_F1, F1_BEHIND = 0.8, 0.03


@dataclass
class Supervised:
    """Measure ODAClassifier, always with its defaults: 5-fold accuracy, credit-card F1, robustness."""

    data_dir: Path | None = None
    """Folder with pima*.csv and creditcard*.csv (header, last column `label`)."""
    datasets: tuple[str, ...] = tuple(TARGETS)
    """Data sets for the accuracies."""
    seeds: tuple[Count, ...] = (0, 1, 2, 3, 4)
    """Seeds of the folds and of the classifiers."""
    threads: Positive = 1
    """Threads of BLAS; every classifier has one job."""
    credit: bool = True
    """Whether to measure the F1 of the credit-card sample (needs `--data-dir`)."""
    robustness: bool = True
    """Whether to measure accuracies with noise."""
    regression: bool = True
    """The tables of regression."""


class Result(NamedTuple):
    """Of one classifier on one data set: scores and seconds of all folds, codevectors."""

    scores: list[float]
    seconds: list[float]
    sizes: list[int]


def classifiers(seed: int) -> dict[str, Any]:
    """Ours and the others; those that need it have the features scaled to [0, 1]."""
    return {
        OURS: ODAClassifier(random_state=seed),
        FOREST: RandomForestClassifier(100, random_state=seed),
        "SVC": make_pipeline(MinMaxScaler(), LinearSVC(random_state=seed)),
        "MLP": make_pipeline(MinMaxScaler(), MLPClassifier((50,), max_iter=500, random_state=seed)),
        "1-NN": make_pipeline(MinMaxScaler(), KNeighborsClassifier(1)),
    }


def load(name: str, data_dir: Path | None) -> tuple[Array, Labels]:
    """A data set, as it is."""
    if name == "moons":
        return make_moons(500, noise=0.1, random_state=0)
    if name == "circles":
        return make_circles(500, noise=0.05, factor=0.5, random_state=0)
    if name in ("iris", "wine"):
        return (load_iris if name == "iris" else load_wine)(return_X_y=True)
    if name == "credit":
        found = sorted(data_dir.glob("creditcard*.csv")) if data_dir is not None else []
        if not found:
            raise OSError(f"the credit-card sample is not at hand: no creditcard*.csv in {data_dir}.")
        return datasets.read_csv(found[0])
    return datasets.load(name, data_dir)


def splits(labels: Labels, seed: int) -> list[Split]:
    """Training and test rows of five folds."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return list(folds.split(labels[:, None], labels))


def accuracy(model: Any, samples: Array, labels: Labels) -> float:
    """Part of the samples that is classified right."""
    return float(model.score(samples, labels))


def f1(model: Any, samples: Array, labels: Labels) -> float:
    """F1 of class 1."""
    return float(f1_score(labels, model.predict(samples)))


def measure(
    samples: Array,
    labels: Labels,
    seeds: Sequence[int],
    score: Callable[[Any, Array, Labels], float] = accuracy,
    make: Callable[[int], dict[str, Any]] = classifiers,
) -> dict[str, Result]:
    """Fit all classifiers on all folds, one after the other on each."""
    results: dict[str, Result] = {}
    for name, model in make(0).items():
        results[name] = Result([], [], [])
        some = slice(None, None, max(1, len(samples) // 200))
        model.fit(samples[some], labels[some])  # so that no seconds are the compiler's
    for seed in seeds:
        for train, test in splits(labels, seed):
            for name, model in make(seed).items():
                results[name].seconds.append(timed(model.fit, samples[train], labels[train])[1])
                results[name].scores.append(score(model, samples[test], labels[test]))
                results[name].sizes.append(getattr(model, "n_codevectors_", 0))
    return results


def is_reached(name: str, results: dict[str, Result]) -> str:
    """What of the targets of a data set is missed."""
    least, most, times = TARGETS[name]
    ours, forest = results[OURS], results[FOREST]
    missed = []
    if 100.0 * np.mean(ours.scores) < least:
        missed.append("accuracy")
    if max(ours.sizes) > most:
        missed.append("K")
    if np.median(ours.seconds) > times * np.median(forest.seconds):
        missed.append("time")
    return yes(not missed, *missed)


def show_accuracy(args: Supervised, console: Console) -> None:
    """One row per data set."""
    names = list(classifiers(0))
    table = make_table(
        f"5-fold accuracy, %, seeds {args.seeds}",
        *("data", *names, "K mean, max", "fit s", "forest's", "target", "reached"),
        left=0,
    )
    means = []
    for data in args.datasets:
        results = measure(*load(data, args.data_dir), args.seeds)
        means.append([100.0 * np.mean(results[name].scores) for name in names])
        ours = results[OURS]
        table.add_row(
            *(data, *(f"{value:.2f}" for value in means[-1])),
            *(f"{np.mean(ours.sizes):.0f}, {max(ours.sizes)}", f"{np.median(ours.seconds):.3f}"),
            *(f"{np.median(results[FOREST].seconds):.3f}", f"{TARGETS[data][0]:g}"),
            is_reached(data, results),
        )
    mean = np.mean(means, axis=0)
    table.add_section()
    reached = yes(mean[0] >= mean[1])
    table.add_row("mean", *(f"{value:.2f}" for value in mean), "", "", "", "forest's", reached)
    console.print(table)
    console.print(
        "ODA: ODAClassifier as it is. forest: 100 trees. SVC: linear. MLP: 50 units. "
        "fit s, and the forest's: medians."
    )


def show_credit(args: Supervised, console: Console) -> None:
    """F1 of the frauds, where they are rare."""
    samples, labels = load("credit", args.data_dir)
    results = measure(samples, labels, args.seeds, f1)
    least = max(LEAST_F1, np.mean(results[FOREST].scores) - F1_BEHIND)
    rows = []
    for name, result in results.items():
        row = [name, f"{np.mean(result.scores):.3f}", f"{np.std(result.scores):.3f}", ""]
        row += [f"{np.median(result.seconds):.2f}", ""]
        if name == OURS:
            row[3] = f"{np.mean(result.sizes):.0f}, {max(result.sizes)}"
            row[5] = f"{yes(np.mean(result.scores) >= least)} (at least {least:.3f})"
        rows.append(row)
    title = f"Credit-card sample, 5-fold F1, seeds {args.seeds}: {labels.mean():.2%} frauds"
    columns = ("classifier", "F1", "sd of folds", "K mean, max", "fit s", "reached")
    show_table(console, title, columns, rows, left=0)


def with_feature_noise(samples: Array, part: float, rng: np.random.Generator) -> Array:
    """Normal noise on every feature, with a standard deviation of `part` of the feature's range."""
    return samples + part * np.ptp(samples, axis=0) * rng.normal(size=samples.shape)


def with_label_noise(labels: Labels, part: float, rng: np.random.Generator) -> Labels:
    """A part of the labels replaced by others."""
    noisy = labels.copy()
    rows = rng.choice(len(labels), int(part * len(labels)), replace=False)
    n_classes = int(labels.max()) + 1
    noisy[rows] = (labels[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return noisy


def noisy_scores(samples: Array, labels: Labels, seeds: Sequence[int]) -> dict[str, dict[str, float]]:
    """Accuracies of all classifiers without noise and with each."""
    rows: dict[str, dict[str, list[float]]] = {}

    def remember(kind: str, name: str, value: float) -> None:
        rows.setdefault(kind, {}).setdefault(name, []).append(100.0 * value)

    for seed in seeds:
        rng = np.random.default_rng(seed)
        for train, test in splits(labels, seed):
            noisy = {p: with_feature_noise(samples, p, rng) for p in (0.0, 0.1, 0.2, 0.4)}
            wrong = {p: with_label_noise(labels, p, rng) for p in (0.1, 0.3)}
            for name, model in classifiers(seed).items():
                model.fit(samples[train], labels[train])
                for part, moved in noisy.items():
                    kind = f"test features {part:.0%}" if part else "none"
                    remember(kind, name, model.score(moved[test], labels[test]))
                for part, moved in noisy.items():
                    if part:
                        again = clone(model).fit(moved[train], labels[train])
                        kind = f"training features {part:.0%}"
                        remember(kind, name, again.score(samples[test], labels[test]))
                for part, changed in wrong.items():
                    again = clone(model).fit(samples[train], changed[train])
                    remember(
                        f"training labels {part:.0%}", name, again.score(samples[test], labels[test])
                    )
    return {k: {name: float(np.mean(v)) for name, v in own.items()} for k, own in rows.items()}


def show_robustness(args: Supervised, console: Console) -> None:
    """Mean accuracy over the small data sets, with noise on features or labels."""
    chosen = [name for name in args.datasets if name != "digits"]
    scores = [noisy_scores(*load(name, args.data_dir), args.seeds[:1]) for name in chosen]
    names = list(classifiers(0))
    rows = []
    for kind in scores[0]:
        means = [np.mean([own[kind][name] for own in scores]) for name in names]
        rows.append([kind, *(f"{value:.1f}" for value in means)])
    title = f"Accuracy with noise, %, mean over {', '.join(chosen)}; features: part of the range"
    show_table(console, title, ("noise", *names), rows, left=0)


def run_supervised(args: Supervised, console: Console) -> None:
    """The tables of `benchmark.py supervised`."""
    with threadpool_limits(args.threads):
        show_accuracy(args, console)
        if args.credit and args.data_dir is not None:
            show_credit(args, console)
        if args.robustness:
            show_robustness(args, console)
        if args.regression:
            show_regression(console)
            show_regression_stream(console)
