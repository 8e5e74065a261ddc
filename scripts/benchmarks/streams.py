"""Streams, tested and then trained on: accuracy, seconds and size beside river's own learners."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.stream_changes import run_changes
from common.arguments import Count, Positive
from common.tables import show_table
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.streaming import Stream

# Samples before and after the concept of a stream changes, and how many of the last are a column.
BEFORE, LAST = 5000, 2000
# Parts of a stream of which the quickest counts where samples are timed one by one.
BLOCKS = 10


@dataclass
class Streams:
    """Measure classifiers on the streams that river ships or makes: predict each sample, then learn it.

    Needs river: pip install "oda_rl[streams]".
    """

    datasets: tuple[str, ...] = ()
    """Some of the streams; all by default."""
    models: tuple[str, ...] = ()
    """Some of the learners; all by default."""
    samples: Count = 10_000
    """Samples of a stream, at most."""
    seed: int = 0
    """Of the learners and of the streams that are made."""
    only_single: bool = False
    """Only what one sample costs as an array; needs no river."""
    only_change: bool = False
    """Only what forgetting costs where nothing changes, and how soon changes are followed."""
    n_seeds: Positive = 10
    """Seeds of that, from `seed` on."""


class Result(NamedTuple):
    """Accuracy of all predictions and of the last, microseconds per sample, bytes when pickled."""

    accuracy: float
    last: float
    microseconds: float
    size: int


class LastClass:
    """Predicts the class that came last."""

    def __init__(self) -> None:
        self._class: Any = None

    def predict_one(self, x: dict[str, Any]) -> Any:
        """The last class."""
        return self._class

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Remember it."""
        self._class = y


def streams(seed: int) -> dict[str, Callable[[], Iterator[tuple[dict[str, Any], Any]]]]:
    """The streams by name; concepts of some change after BEFORE samples."""
    from river import datasets
    from river.datasets import synth

    def changing(make: Callable[[int], Any], concepts: tuple[int, ...]) -> Any:
        return lambda: chain.from_iterable(islice(iter(make(c)), BEFORE) for c in concepts)

    def swapped() -> Iterator[tuple[dict[str, Any], Any]]:
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


def learners(seed: int) -> dict[str, Callable[[], Any]]:
    """Ours and river's, by name."""
    from river import forest, linear_model, preprocessing, tree

    return {
        "last class": LastClass,
        "ODA": lambda: Stream(ODAClassifier(random_state=seed)),
        "ODA, linear": lambda: Stream(ODAClassifier(local_model="linear", random_state=seed)),
        "ODA, never forgets": lambda: Stream(ODAClassifier(forgetting=None, random_state=seed)),
        "ODA, tree": lambda: Stream(MultiResolutionODA(ODAClassifier(), random_state=seed)),
        "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "ARF": lambda: forest.ARFClassifier(seed=seed),
        "softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    }


def numeric(x: dict[str, Any]) -> dict[str, float]:
    """Numbers as they are, and of a text its length: it stays the same for the same text."""
    return {k: float(len(v) if isinstance(v, str) else v) for k, v in x.items()}


def measure(model: Any, stream: Iterator[tuple[dict[str, Any], Any]], n: int) -> Result:
    """Predict each sample, then learn from it."""
    right = []
    samples = [(numeric(x), y) for x, y in islice(stream, n)]
    begun = process_time()
    for x, y in samples:
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    spent = 1e6 * (process_time() - begun) / len(samples)
    return Result(float(np.mean(right)), float(np.mean(right[-LAST:])), spent, len(pickle.dumps(model)))


def microseconds(model: Any, rows: list[Any], targets: list[Any], predicted: bool) -> float:
    """CPU time of a sample learned by itself, the least of blocks; `predicted` just before, or not."""
    size, spent = len(rows) // BLOCKS, []
    for start in range(0, size * BLOCKS, size):
        begun = process_time()
        for row, target in zip(rows[start : start + size], targets[start:], strict=False):
            if predicted:
                model.predict(row)
            model.partial_fit(row, *target)
        spent.append(1e6 * (process_time() - begun) / size)
    return min(spent)


def show_single(console: Console, seed: int) -> None:
    """What a sample of eight features costs as an array, after `BEFORE` others."""
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
    for name, (model, targets) in kinds.items():
        model.partial_fit(samples[:BEFORE], *(target[:BEFORE] for target in targets))
        rows = [samples[i : i + 1] for i in range(BEFORE, 2 * BEFORE)]
        own = [tuple(target[i : i + 1] for target in targets) for i in range(BEFORE, 2 * BEFORE)]
        half = len(rows) // 2
        alone = microseconds(model, rows[:half], own[:half], predicted=False)
        both = microseconds(model, rows[half:], own[half:], predicted=True)
        shown.append([name, f"{model.n_codevectors_}", f"{alone:.1f}", f"{both:.1f}"])
    title = f"Microseconds of CPU for one sample of 8 features as an array, after {BEFORE:,} others"
    show_table(console, title, ("", "cells", "partial_fit", "predict and partial_fit"), shown)


def run_streams(args: Streams, console: Console) -> int:
    """The tables of `benchmark.py streams`."""
    if args.only_single:
        show_single(console, args.seed)
        return 0
    try:
        every, models = streams(args.seed), learners(args.seed)
    except ImportError:
        console.print('river is not installed: pip install "oda_rl[streams]"', markup=False)
        return 1
    if args.only_change:
        run_changes(console, range(args.seed, args.seed + args.n_seeds))
        return 0
    unknown = [n for n in args.datasets if n not in every] + [n for n in args.models if n not in models]
    if unknown:
        console.print(f"Not known: {unknown}. Streams: {list(every)}; learners: {list(models)}.")
        return 2
    chosen = args.models or tuple(models)
    shown: dict[str, list[list[str]]] = {"accuracy": [], "last": [], "microseconds": [], "size": []}
    for name in args.datasets or tuple(every):
        found = [measure(models[model](), every[name](), args.samples) for model in chosen]
        shown["accuracy"].append([name, *(f"{r.accuracy:.3f}" for r in found)])
        shown["last"].append([name, *(f"{r.last:.3f}" for r in found)])
        shown["microseconds"].append([name, *(f"{r.microseconds:.0f}" for r in found)])
        shown["size"].append([name, *(f"{r.size / 1000:.0f}" for r in found)])
    titles = {
        "accuracy": f"Test then train: accuracy over {args.samples:,} samples at most, seed {args.seed}",
        "last": f"Accuracy of the last {LAST:,}; SEA, Agrawal and swapped labels change at {BEFORE:,}",
        "microseconds": "Microseconds of CPU per sample, prediction and learning",
        "size": "Kilobytes, pickled",
    }
    for key, rows in shown.items():
        show_table(console, titles[key], ("stream", *chosen), rows)
    show_single(console, args.seed)
    console.print(
        "ODA: ODAClassifier as it is, with local logits, without forgetting, and as a tree. HAT, ARF, "
        "softmax: river's adaptive Hoeffding tree, adaptive random forest and softmax regression."
    )
    return 0
