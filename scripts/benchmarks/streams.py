"""Streams, with each sample predicted before it is learned: errors, time and size against river."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.regression_streams import regressors, streams_of_numbers
from benchmarks.stream_changes import run_changes
from common.arguments import Count, Positive
from common.tables import show_table
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.streaming import Stream

# Samples before the concept of a stream changes, and after it.
BEFORE = 5000
# Last samples of a stream whose accuracy is reported separately.
LAST = 2000
# Blocks of a stream whose samples are timed one by one; the fastest block counts.
BLOCKS = 10

Samples = Iterator[tuple[dict[str, Any], Any]]


@dataclass
class Streams:
    """Measure learners on the streams that river ships or makes: predict each sample, then learn it.

    Needs river: pip install "oda_rl[streams]".
    """

    datasets: tuple[str, ...] = ()
    """Names of streams; by default all of river's, or all in the folder if one is given."""
    models: tuple[str, ...] = ()
    """Names of learners; all by default."""
    samples: Positive = 10_000
    """Most samples of a stream."""
    data_dir: Path | None = None
    """Folder with more streams, any of elec*, weather*, covtype*, moving_squares* and sea_stream* (the
    CSV files in the source archive of scikit-multiflow 0.4.1, on PyPI), and magic*, the gamma telescope
    (KEEL's or UCI's, which is shuffled). Columns are separated by commas, with or without a header; the
    last column is the class."""
    seed: Count = 0
    """Seed of the learners and of generated streams."""
    regression: bool = False
    """Measure regressors on streams of numbers instead of classifiers; files in `data_dir` are not."""
    only_single: bool = False
    """Only time single samples; does not need river."""
    only_change: bool = False
    """Only measure what forgetting costs on stationary streams, and how soon changes are learned."""
    n_seeds: Positive = 10
    """Number of seeds for `only_change`, from `seed` on."""


class Result(NamedTuple):
    """Accuracy or error of all predictions and of the last, microseconds per sample, pickled bytes."""

    every: float
    last: float
    microseconds: float
    size: float


class LastClass:
    """Predicts the class that came last."""

    def __init__(self) -> None:
        self._class: Any = None

    def predict_one(self, x: dict[str, Any]) -> Any:
        """Return the last class."""
        return self._class

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Store the class."""
        self._class = y


def learners(seed: int) -> dict[str, Callable[[], Any]]:
    """Our learners and river's, by name."""
    from river import forest, linear_model, preprocessing, tree

    return {
        "last class": LastClass,
        "ODA": lambda: Stream(ODAClassifier(random_state=seed)),
        "ODA, linear": lambda: Stream(ODAClassifier(local_model="linear", random_state=seed)),
        "ODA, tree": lambda: Stream(MultiResolutionODA(ODAClassifier(), random_state=seed)),
        "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "ARF": lambda: forest.ARFClassifier(seed=seed),
        "softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    }


def numeric(x: dict[str, Any]) -> dict[str, float]:
    """Replace each text by its length, which is the same for equal texts; numbers stay the same."""
    return {k: float(len(v) if isinstance(v, str) else v) for k, v in x.items()}


def measure(model: Any, stream: Samples, n: int, regression: bool = False) -> Result:
    """Predict each sample, then learn from it; errors are squared, in variances of the target."""
    predicted = []
    samples = [(numeric(x), y) for x, y in islice(stream, n)]
    begun = process_time()
    for x, y in samples:
        predicted.append(model.predict_one(x))
        model.learn_one(x, y)
    spent = 1e6 * (process_time() - begun) / len(samples)
    targets = [y for _, y in samples]
    if regression:
        # nothing is known of the level of the first
        found = (np.array(predicted[1:], dtype=float) - targets[1:]) ** 2 / np.var(targets)
    else:
        found = np.array([p == y for p, y in zip(predicted, targets, strict=True)])
    return Result(float(found.mean()), float(found[-LAST:].mean()), spent, pickled_bytes(model))


def pickled_bytes(model: Any) -> float:
    """The size of a model when pickled; NaN if its objects are nested too deeply, as in some trees."""
    try:
        return len(pickle.dumps(model))
    except RecursionError:
        return float("nan")


def microseconds(predict: Any, learn: Any, samples: list[Any], predicted: bool) -> float:
    """CPU time per sample learned one by one, in the fastest block; `predicted` just before, or not."""
    size, spent = len(samples) // BLOCKS, []
    for start in range(0, size * BLOCKS, size):
        begun = process_time()
        for row, *target in samples[start : start + size]:
            if predicted:
                predict(row)
            learn(row, *target)
        spent.append(1e6 * (process_time() - begun) / size)
    return min(spent)


def show_single(console: Console, seed: int) -> None:
    """Print the CPU time of a sample of eight features, after `BEFORE` others."""
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(2 * BEFORE, 8))
    classes = (samples[:, :4].sum(axis=1) > 0.0).astype(np.int64)
    outputs = samples[:, 0] + np.sin(samples[:, 1])
    kinds: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "ODAClassifier": (ODAClassifier(random_state=seed), (classes,)),
        "  forgetting=None": (ODAClassifier(forgetting=None, random_state=seed), (classes,)),
        "ODARegressor": (ODARegressor(random_state=seed), (outputs,)),
        "ODAPartition": (ODAPartition(random_state=seed), ()),
    }
    shown = []

    def add(name: str, cells: Any, predict: Any, learn: Any, rest: list[Any]) -> None:
        half = len(rest) // 2
        alone = microseconds(predict, learn, rest[:half], predicted=False)
        both = microseconds(predict, learn, rest[half:], predicted=True)
        shown.append([name, f"{cells()}", f"{alone:.1f}", f"{both:.1f}"])

    for name, (model, targets) in kinds.items():
        parts = samples, *targets
        model.partial_fit(*(part[:BEFORE] for part in parts))
        rest = [tuple(part[i : i + 1] for part in parts) for i in range(BEFORE, 2 * BEFORE)]
        add(name, lambda own=model: own.n_codevectors_, model.predict, model.partial_fit, rest)
    stream = Stream(ODAClassifier(random_state=seed))
    named = [dict(zip("abcdefgh", row, strict=True)) for row in samples.tolist()]
    pairs = list(zip(named, classes.tolist(), strict=True))
    for x, y in pairs[:BEFORE]:
        stream.learn_one(x, y)
    own = stream.predict_one, stream.learn_one, pairs[BEFORE:]
    add("Stream(ODAClassifier())", lambda: stream.estimator.n_codevectors_, *own)
    title = f"Microseconds of CPU for one sample of 8 features (array or dict) after {BEFORE:,} others"
    show_table(console, title, ("", "cells", "learned", "predicted and learned"), shown)


# -- streams -----------------------------------------------------------------------------------------


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
    rows = path.read_text(encoding="utf-8").splitlines()
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


# -- the command -------------------------------------------------------------------------------------


def run_streams(args: Streams, console: Console) -> int:
    """Print the tables of `benchmark.py streams`."""
    if args.only_single:
        show_single(console, args.seed)
        return 0
    try:
        if args.regression:
            made, models = streams_of_numbers(args.seed), regressors(args.seed)
        else:
            made, models = made_streams(args.seed), learners(args.seed)
    except ImportError:
        console.print('river is not installed: pip install "oda_rl[streams]"')
        return 1
    if args.only_change:
        run_changes(console, range(args.seed, args.seed + args.n_seeds))
        return 0
    own = {} if args.regression else own_streams(args.data_dir, args.seed)
    every, names = made | own, args.datasets or tuple(own) or tuple(made)
    unknown = [n for n in args.datasets if n not in every] + [n for n in args.models if n not in models]
    if unknown:
        console.print(
            f"Not available: {unknown}. Streams: {list(every)}, with their files in --data-dir "
            f"{list(FILES)}; learners: {list(models)}."
        )
        return 2
    chosen = {name: models[name] for name in args.models or models}
    _show_measured(args, {name: every[name] for name in names}, chosen, console)
    if not args.regression:
        show_single(console, args.seed)
    console.print(
        "ODA: ours as it is, with local logits, and as a tree. HAT, ARF, softmax, linear: river's "
        "adaptive Hoeffding tree, adaptive random forest, softmax and linear regression."
    )
    return 0


def _show_measured(
    args: Streams, streams: dict[str, Any], models: dict[str, Any], console: Console
) -> None:
    """Measure models on streams; print a table of each figure."""
    found = {
        name: [measure(make(), stream(), args.samples, args.regression) for make in models.values()]
        for name, stream in streams.items()
    }
    when = f"over {args.samples:,} samples at most, seed {args.seed}"
    figure, changed = "accuracy", f"SEA, Agrawal and swapped labels change at {BEFORE:,}"
    if args.regression:
        figure, changed = "squared error in variances", "less is better"
    figures: dict[str, Callable[[Any], str]] = {
        f"Test then train: {figure} {when}": lambda result: f"{result.every:.3f}",
        f"The same of the last {LAST:,}; {changed}": lambda result: f"{result.last:.3f}",
        "Microseconds of CPU per sample, prediction and learning": lambda r: f"{r.microseconds:.0f}",
        "Kilobytes, pickled": lambda result: f"{result.size / 1000:.0f}",
    }
    for title, text in figures.items():
        rows = [[name, *map(text, results)] for name, results in found.items()]
        show_table(console, title, ("stream", *models), rows)
