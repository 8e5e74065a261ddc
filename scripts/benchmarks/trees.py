"""Trees against flat codebooks: errors, codevectors and time; prediction; resolutions; splits."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import pairwise_distances_argmin
from threadpoolctl import threadpool_limits

from benchmarks.trees_demo import show_demo
from benchmarks.trees_resolutions import show_resolutions
from common.arguments import Count, Positive
from common.measuring import repeated_seconds
from common.tables import show_table, yes
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl._types import Array
from oda_rl.datasets import make_gaussian_classes, make_surface

Problem = tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]

N_TRAINING = 480
FLAT, DEFAULT, TREE = "flat, K = 100", "flat, as it is", "tree"
# Options of the layers, chosen on the problems of seeds 100 to 119.
LAYERS = ({"max_codevectors": 10}, {"max_codevectors": 4})
CODEVECTOR_SHARE, TIME_SHARE = 0.25, 0.1
MOST_TIMES_100, LEAST_TIMES_FLAT = 20.0, 10.0
N_COMPONENTS, N_FEATURES = 50, 4
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


@dataclass
class Trees:
    """Measure MultiResolutionODA against flat codebooks."""

    seeds: tuple[Count, ...] = tuple(range(10))
    """Seeds of the mixtures of Gaussians, and of the models."""
    repeats: Positive = 40
    """Fits of each model on each mixture; the fastest counts."""
    leaves: Positive = 10_000
    """Leaves of the larger tree whose predictions are timed."""
    gaussians: bool = True
    """Print the table on the papers' mixture of Gaussians."""
    demo: bool = True
    """Print the table on the authors' demo."""
    prediction: bool = True
    """Print the table on the time of predictions."""
    resolutions: bool = True
    """Print the table on digits at several resolutions; scattering takes minutes."""
    datasets: tuple[str, ...] = ("digits", "translated")
    """Data sets of the table on resolutions."""
    cases: tuple[str, ...] = ("",)
    """Beginnings of the names of its rows; by default all rows."""
    resolution_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of its divisions into training and test data, and of its models."""
    splits: bool = True
    """Print the table on errors when cells split."""
    stream: int = 12_000
    """Samples of each stream in the table on splits."""


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


class Fitted(NamedTuple):
    """One model on one problem; errors in per cent."""

    n_codevectors: int
    n_cells: int
    n_presented: int
    milliseconds: float
    training_error: float
    test_error: float


def problem(seed: int) -> Problem:
    """Training samples and their classes, test samples and theirs."""
    samples, labels = make_gaussian_classes(seed=seed)
    return samples[:N_TRAINING], labels[:N_TRAINING], samples[N_TRAINING:], labels[N_TRAINING:]


def template(seed: int, **options: Any) -> ODAClassifier:
    """The classifier of the papers: unscaled features, and the class of the nearest codevector."""
    return ODAClassifier(rule="nearest", scale=None, validation=None, random_state=seed, **options)


def makers(seed: int) -> dict[str, Callable[[], Any]]:
    """Functions that make new models, by name."""
    return {
        FLAT: lambda: template(seed, max_codevectors=100),
        DEFAULT: lambda: ODAClassifier(random_state=seed),
        TREE: lambda: MultiResolutionODA(
            template(seed), layers=LAYERS, validation=None, random_state=seed
        ),
    }


def least_seconds(function: Callable[[], object], repeats: int) -> float:
    """Least processor time of a call in seconds, which other programs do not affect."""
    return min(repeated_seconds(function, repeats=repeats, clock=time.thread_time))


def fitted(make: Callable[[], Any], data: Problem, repeats: int) -> tuple[Any, Fitted]:
    """Fit a model; return it with its size, time and errors."""
    model = make().fit(data[0], data[1])
    seconds = least_seconds(lambda: make().fit(data[0], data[1]), repeats)
    is_tree = isinstance(model, MultiResolutionODA)
    return model, Fitted(
        model.n_codevectors_,
        model.n_cells_ if is_tree else model.n_codevectors_,
        model.n_presented_ if is_tree else model.n_samples_seen_,
        1e3 * seconds,
        100.0 * (1.0 - model.score(data[0], data[1])),
        100.0 * (1.0 - model.score(data[2], data[3])),
    )


def show_gaussians(args: Trees, console: Console, splits: Splits) -> None:
    """Print the tree against flat classifiers on the papers' problem: medians over the seeds."""
    found: dict[str, list[Fitted]] = {}
    for seed in args.seeds:
        data = problem(seed)
        for name, make in makers(seed).items():
            repeats = args.repeats if name != DEFAULT else max(1, args.repeats // 10)
            model, result = fitted(make, data, repeats)
            found.setdefault(name, []).append(result)
            if name == TREE:
                splits.note("classification, batch", model)
    middle = {name: Fitted(*np.median(rows, axis=0)) for name, rows in found.items()}
    rows = [
        [
            *(name, f"{row.n_codevectors:g}", f"{row.n_cells:g}", f"{row.n_presented:,.0f}"),
            *(f"{row.milliseconds:.2f}", f"{row.training_error:.2f}", f"{row.test_error:.2f}"),
        ]
        for name, row in middle.items()
    ]
    title = f"Two classes of Gaussians in the plane, {N_TRAINING} training samples: medians"
    columns = ("", "K", "all cells", "presented", "ms", "training error, %", "test error, %")
    show_table(console, title, columns, rows, left=0)
    console.print(told(found, middle))


def told(found: dict[str, list[Fitted]], middle: dict[str, Fitted]) -> str:
    """Describe which targets are reached, by the medians and in how many seeds."""
    flat, tree = np.array(found[FLAT]), np.array(found[TREE])
    errors = ("training error", "test error")
    lines = ["ms: processor time of a fit. The tree against the flat classifier with K = 100:"]
    for place, name in zip((4, 5), errors, strict=True):
        level = middle[TREE][place] <= middle[FLAT][place] + 1e-9
        more = tree[:, place] - flat[:, place]
        lines.append(
            f"  {name}: median no larger: {yes(level)}; {np.median(more):+.2f} in the median seed, "
            f"no larger in {int((more <= 1e-9).sum())} of {len(tree)} seeds"
        )
    for place, name, share in ((0, "codevectors", CODEVECTOR_SHARE), (3, "time", TIME_SHARE)):
        ratio = np.median(tree[:, place] / flat[:, place])
        lines.append(f"  {name}, times: {ratio:.3f} (at most {share:g}: {yes(ratio <= share)})")
    return "\n".join(lines)


# -- prediction ----------------------------------------------------------------------------------


def cloud(n: int, seed: int) -> Array:
    """A mixture of Gaussians in four dimensions."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(-1.0, 1.0, (N_COMPONENTS, N_FEATURES))
    return means[rng.integers(0, N_COMPONENTS, n)] + 0.2 * rng.normal(size=(n, N_FEATURES))


def tree_of(leaves: int) -> MultiResolutionODA:
    """Fit a clusterer with about `leaves` leaves, at most ten children to a cell."""
    depth = max(1, round(np.log10(leaves)))
    model = MultiResolutionODA(
        ODAPartition(), layers=depth + 1, max_children=10, max_leaves=leaves, random_state=0
    )
    return model.fit(cloud(12 * leaves, 0))


def show_prediction(args: Trees, console: Console) -> None:
    """Print the time of predictions of two trees, and of flat codebooks of the same codevectors."""
    test = cloud(20_000, 1)
    models = {leaves: tree_of(leaves) for leaves in (100, args.leaves)}
    large = models[args.leaves]
    # name, layers, prediction function, samples at once, samples one at a time
    cases = [
        (f"{model.n_codevectors_:,} leaves", str(model.n_layers_), model.predict, 20_000, 200)
        for model in models.values()
    ]
    for name, predict in flat_searches(large.codevectors_).items():
        cases.append((f"{large.n_codevectors_:,} flat, {name}", "1", predict, 2000, 50))
    rows, costs = [], []
    for name, layers, predict, n, n_single in cases:
        many = min(repeated_seconds(predict, test[:n], clock=time.thread_time)) / n
        alone = repeated_seconds(one_by_one, predict, test[:n_single], clock=time.thread_time)
        costs.append(many)
        rows.append([name, layers, f"{1e6 * many:.2f}", f"{1e6 * min(alone) / n_single:.1f}"])
    title = f"Prediction in {N_FEATURES} dimensions, microseconds a sample"
    columns = ("codevectors", "layers", "many at once", "one at a time")
    show_table(console, title, columns, rows, left=0)
    small, big, flat, _ = costs
    console.print(
        f"Many at once: {big / small:.1f} times the cost of the small tree (at most {MOST_TIMES_100:g}: "
        f"{yes(big <= MOST_TIMES_100 * small)}), {flat / big:.1f} times less than the flat "
        f"codebook (at least {LEAST_TIMES_FLAT:g}: {yes(flat >= LEAST_TIMES_FLAT * big)}).\n"
        "One at a time scikit-learn's checks of the input cost more than the search."
    )


def one_by_one(predict: Callable[[Array], Any], samples: Array) -> None:
    """Predict samples one at a time."""
    for sample in samples:
        predict(sample[None, :])


def flat_searches(codevectors: Array) -> dict[str, Callable[[Array], Any]]:
    """Searches for the nearest codevector: of a flat estimator, and scikit-learn's fastest one."""
    flat = ODAPartition(2, random_state=0).fit(codevectors[:100])
    flat.codevectors_ = codevectors
    return {
        "ODAPartition": flat.predict,
        "scikit-learn": lambda samples: pairwise_distances_argmin(samples, codevectors),
    }


# -- errors when cells split -------------------------------------------------------------------------


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
        "Errors: part of the samples of a classifier, part of the variance for the others. In their "
        "cell: the samples at hand, by history_; on all data: before and after a layer, or the chunk of "
        f"a stream, in which cells split. Largest: {worst:+.2f} (at most {MOST_RISE:g}: {reached})"
    )


def run_trees(args: Trees, console: Console) -> None:
    """Print the tables of `benchmark.py trees`."""
    splits = Splits()
    with threadpool_limits(1):
        if args.gaussians:
            show_gaussians(args, console, splits)
        if args.demo:
            show_demo(console, args.seeds)
        if args.prediction:
            show_prediction(args, console)
        if args.resolutions:
            show_resolutions(args.datasets, args.cases, args.resolution_seeds, console, splits)
        if args.splits:
            show_splits(args.seeds, args.stream, console, splits)
