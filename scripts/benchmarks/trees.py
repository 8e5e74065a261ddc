"""Trees against flat codebooks: errors, codevectors and time; prediction; resolutions."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.metrics import pairwise_distances_argmin
from threadpoolctl import threadpool_limits

from benchmarks.resolutions import SHAPES, show_resolutions
from common.arguments import Count, Positive, one_of
from common.measuring import repeated_seconds
from common.tables import show_table
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition
from oda_rl._types import Array, Labels
from oda_rl.datasets import make_gaussian_classes

Problem = tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]

N_TRAINING = 480
FLAT, DEFAULT, TREE = "flat, K = 100", "flat, as it is", "tree"
# Options of the layers, chosen on the problems of seeds 100 to 119.
LAYERS = ({"max_codevectors": 10}, {"max_codevectors": 4})
N_COMPONENTS, N_FEATURES = 50, 4


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
    datasets: tuple[Annotated[str, one_of(SHAPES)], ...] = ("digits", "translated")
    """Data sets of the table on resolutions."""
    cases: tuple[str, ...] = ("",)
    """Beginnings of the names of its rows; by default all rows."""
    resolution_seeds: tuple[Count, ...] = (0, 1, 2, 3, 4)
    """Seeds of its divisions into training and test data, and of its models."""


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


def fitted(make: Callable[[], Any], data: Problem, repeats: int) -> Fitted:
    """Fit a model; return its size, time and errors."""
    model = make().fit(data[0], data[1])
    fit = make().fit
    seconds = repeated_seconds(fit, data[0], data[1], repeats=repeats, clock=time.thread_time)
    is_tree = isinstance(model, MultiResolutionODA)
    return Fitted(
        model.n_codevectors_,
        model.n_cells_ if is_tree else model.n_codevectors_,
        model.n_presented_ if is_tree else model.n_samples_seen_,
        1e3 * min(seconds),
        100.0 * (1.0 - model.score(data[0], data[1])),
        100.0 * (1.0 - model.score(data[2], data[3])),
    )


def show_gaussians(args: Trees, console: Console) -> None:
    """Print the tree against flat classifiers on the papers' problem: medians over the seeds."""
    found: dict[str, list[Fitted]] = {}
    for seed in args.seeds:
        data = problem(seed)
        for name, make in makers(seed).items():
            repeats = args.repeats if name != DEFAULT else max(1, args.repeats // 10)
            found.setdefault(name, []).append(fitted(make, data, repeats))
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
    pairs = list(zip(found[TREE], found[FLAT], strict=True))
    training = sum(tree.training_error <= flat.training_error + 1e-9 for tree, flat in pairs)
    test = sum(tree.test_error <= flat.test_error + 1e-9 for tree, flat in pairs)
    console.print(
        f"ms: processor time of a fit. The tree has no larger error than the flat classifier of K = 100 "
        f"in {training} of {len(args.seeds)} seeds (training), and in {test} (test)."
    )


# -- the authors' demo -----------------------------------------------------------------------------

# Means and variances of its five Gaussians, 120 samples each, and their classes.
MEANS = np.array([[1.6, 3.4], [5.2, 4.0], [2.6, 1.6], [4.4, 2.6], [3.4, 5.0]])
VARIANCES, CLASSES, N_EACH = (0.20, 0.15, 0.10, 0.20, 0.15), (0, 0, 0, 1, 1), 120
# Most children of a cell in each layer.
CHILDREN = (5, 5, 10)


def demo_problem() -> tuple[Array, Labels]:
    """Return samples in the unit square and their classes, in the order of the demo."""
    rng = np.random.RandomState(0)
    pairs = zip(MEANS, VARIANCES, strict=True)
    parts = [rng.multivariate_normal(mean, v * np.eye(2), N_EACH) for mean, v in pairs]
    samples = np.concatenate(parts)
    low, size = samples.min(), np.ptp(samples)
    order = np.arange(len(samples))
    rng.shuffle(order)
    return ((samples - low) / size + 0.05)[order] / 1.1, np.repeat(CLASSES, N_EACH)[order]


def show_demo(console: Console, seeds: tuple[int, ...]) -> None:
    """Print errors and leaves of trees with all leaves that lower the training error, and pruned."""
    samples, labels = demo_problem()
    layers = [{"max_codevectors": k} for k in CHILDREN]
    rows = []
    for name, validation in (("all that lowers the training error", None), ("pruned", "auto")):
        found = []
        for seed in seeds:
            options = {"layers": layers, "min_support": 2, "validation": validation}
            tree = MultiResolutionODA(ODAClassifier(), **options, random_state=seed)
            tree.fit(samples[:N_TRAINING], labels[:N_TRAINING])
            halves = (slice(0, N_TRAINING), slice(N_TRAINING, None))
            errors = [100.0 * (1.0 - tree.score(samples[half], labels[half])) for half in halves]
            found.append([tree.n_codevectors_, *errors])
        leaves, training, test = np.median(found, axis=0)
        rows.append([name, f"{leaves:g}", f"{training:.2f}", f"{test:.2f}"])
    rows.append(["theirs", "22", "0.6", "0.8"])
    title = f"The authors' demo, layers of {CHILDREN}: medians of {len(seeds)} seeds"
    show_table(console, title, ("tree", "K", "training error, %", "test error, %"), rows)


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
        f"Many at once: {big / small:.1f} times the cost of the small tree, {flat / big:.1f} times less "
        "than the flat codebook.\n"
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


def run_trees(args: Trees, console: Console) -> None:
    """Print the tables of `benchmark.py trees`."""
    with threadpool_limits(1):
        if args.gaussians:
            show_gaussians(args, console)
        if args.demo:
            show_demo(console, args.seeds)
        if args.prediction:
            show_prediction(args, console)
        if args.resolutions:
            show_resolutions(args.datasets, args.cases, args.resolution_seeds, console)
