"""Stationary streams and streams that change late: costs and benefits of forgetting."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import make_friedman1

from common.tables import show_table
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor

# Samples of a stationary stream, the last half of which counts; samples of a chunk.
STATIONARY, CHUNK = 20_000, 100
# Samples before an early and before a late change; samples after it that a loss is averaged over.
EARLY, LATE, AFTER = 1_000, 100_000, 1_000

Arrays = tuple[NDArray[np.float64], Any]


class Case(NamedTuple):
    """A learner, made with keyword arguments, and the samples `make(concept, n)` of its stream."""

    stream: str
    learner: str
    model: Callable[..., Any]
    make: Callable[[int, int], Arrays]


def of_river(generator: Any, n: int) -> Arrays:
    """Return the first `n` samples of one of river's generators as arrays."""
    rows, targets = zip(*islice(iter(generator), n), strict=True)
    return np.array([list(map(float, row.values())) for row in rows]), np.array(targets)


def friedman(concept: int, n: int) -> Arrays:
    """Friedman's function of five of ten inputs; another concept uses other inputs."""
    X, y = make_friedman1(n, n_features=10, noise=1.0, random_state=concept)
    return np.ascontiguousarray(X[:, np.random.default_rng(concept).permutation(10)]), y


def cases() -> list[Case]:
    """Return all learners with their streams, most of which river makes."""
    from river.datasets import synth

    def rbf(concept: int, n: int) -> Arrays:
        seeds = {"seed_model": concept, "seed_sample": concept}
        return of_river(synth.RandomRBF(n_classes=3, n_features=8, n_centroids=20, **seeds), n)

    def waveform(concept: int, n: int) -> Arrays:
        X, y = of_river(synth.Waveform(seed=concept), n)
        return X, (y + concept) % 3

    streams: dict[str, Callable[[int, int], Arrays]] = {
        "RandomRBF": rbf,
        "SEA": lambda s, n: of_river(synth.SEA(variant=s % 4, noise=0.1, seed=s), n),
        "Agrawal": lambda s, n: of_river(synth.Agrawal(classification_function=s % 10, seed=s), n),
        "Waveform": waveform,
    }
    tree = partial(MultiResolutionODA, ODAClassifier())
    return [
        *(Case(name, "ODAClassifier", ODAClassifier, make) for name, make in streams.items()),
        *(Case(name, "tree", tree, make) for name, make in streams.items()),
        Case("Friedman", "ODARegressor", ODARegressor, friedman),
        Case("RandomRBF", "ODAPartition", partial(ODAPartition, 20), rbf),
    ]


def learn(model: Any, X: NDArray[np.float64], y: Any) -> Any:
    """Call `partial_fit`, without targets for a clusterer; return the model."""
    return model.partial_fit(X) if isinstance(model, ODAPartition) else model.partial_fit(X, y)


def losses(model: Any, X: NDArray[np.float64], y: Any) -> NDArray[np.float64]:
    """Test, then train, in chunks: wrong classes, squared errors, or squared distances."""
    found = []
    for start in range(0, len(X), CHUNK):
        rows, targets = X[start : start + CHUNK], y[start : start + CHUNK]
        if not hasattr(model, "n_samples_seen_"):
            found.append(np.full(len(rows), np.nan))
        elif isinstance(model, ODAClassifier | MultiResolutionODA):
            found.append((model.predict(rows) != targets).astype(float))
        elif isinstance(model, ODARegressor):
            found.append((model.predict(rows) - targets) ** 2)
        else:
            found.append(((rows - model.codevectors_[model.predict(rows)]) ** 2).sum(axis=1))
        learn(model, rows, targets)
    return np.concatenate(found)


def run_changes(console: Console, seeds: range) -> None:
    """Print the tables of `benchmark.py streams --only-change`."""
    show_stationary(console, seeds)
    show_late(console, seeds)


def show_stationary(console: Console, seeds: range) -> None:
    """Print what forgetting costs on stationary streams."""
    shown = []
    for case in cases():
        rows, alarms = [], 0
        for seed in seeds:
            X, y = case.make(seed, STATIONARY)
            both = [case.model(forgetting=kind, random_state=seed) for kind in ("adwin", None)]
            rows.append([losses(model, X, y)[STATIONARY // 2 :].mean() for model in both])
            alarms += len(both[0].drifts_)
        known, never = np.array(rows).T
        lost = known - never if case.learner in ("ODAClassifier", "tree") else known / never - 1.0
        shown.append([case.stream, case.learner, *(f"{np.median(part):.4f}" for part in (known, never))])
        shown[-1] += [f"{100.0 * np.median(lost):+.2f}", f"{100.0 * lost.max():+.2f}", str(alarms)]
    title = f"Streams that stay: loss of the last half of {STATIONARY:,} samples, {len(seeds)} seeds"
    columns = ("stream", "learner", "forgets", "never", "lost, %", "most", "false alarms")
    show_table(console, title, columns, shown)


def show_late(console: Console, seeds: range) -> None:
    """Print how quickly learners adapt to an early and to a late change."""
    shown = []
    for case in cases():
        rows = []
        for seed in seeds:
            after, rest = case.make(seed + 1001, 2 * AFTER), []
            for n in (EARLY, LATE):
                X, y = case.make(seed, n)
                model = learn(case.model(forgetting="adwin", random_state=seed), X, y)
                rest += [part.mean() for part in np.split(losses(model, *after), 2)]
            new = case.model(forgetting="adwin", random_state=seed)
            rest.append(losses(new, *after)[AFTER:].mean())
            rows.append(rest)
        middle = np.median(np.array(rows), axis=0)
        shown.append([case.stream, case.learner, *(f"{value:.4f}" for value in middle)])
    title = (
        f"A new concept after {EARLY:,} or {LATE:,} samples: loss of the first {AFTER:,} of it, and of "
        f"the next {AFTER:,}, also of a learner that knows no other; medians of {len(seeds)} seeds"
    )
    early, late = f"{EARLY:,}", f"{LATE:,}"
    columns = ("stream", "learner", f"{early}: first", "next", f"{late}: first", "next", "fresh: next")
    show_table(console, title, columns, shown)
