"""ODAPartition: time per sample, fits, distortion along the path and of streams."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from rich.console import Console
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from benchmarks.clusters import data_set, scaled
from common.arguments import Positive, one_of
from common.measuring import repeated_seconds, timed
from common.tables import make_table, show_table
from oda_rl import Codebook, ODAPartition, datasets
from oda_rl._types import Array
from oda_rl.codebook.learning import Pace, anneal

# Data sets whose fits are timed, and the numbers of codevectors.
FITTED, FIT_K = ("blobs 6", "blobs 20", "iris", "wine", "wbcd", "digits"), (8, 20, 30)
DataSet = Annotated[str, one_of(datasets.NAMES)]
# Samples of the streams that are compared with fits.
ONLINE_SAMPLES = 50_000


@dataclass
class Partition:
    """Measure ODAPartition: time per sample, fits, distortion against k-means."""

    data_dir: Path | None = None
    """Folder with pima*.csv and adult*.csv (header, last column `label`); OpenML if not given."""
    datasets: tuple[DataSet, ...] = datasets.NAMES
    """Data sets for the path of distortions, scaled to unit variance (digits: to [0, 1])."""
    max_codevectors: Positive = 50
    """K at which the path ends."""
    seeds: Positive = 3
    """Fits per data set."""
    threads: Positive = 1
    """Threads of k-means and BLAS; the annealer always has one."""
    only_fits: bool = False
    """Only time the fits."""


def sample_seconds(k: int, d: int, temperature: float, n: int = 20_000) -> float:
    """Seconds per sample of the learning rule, with `k` cells that hardly move."""
    rng = np.random.default_rng(0)
    book = Codebook(d, capacity=k)
    for codevector in rng.normal(size=(k, d)):
        book.add(codevector, 1.0 / k)
    book.axis[:] = rng.normal(size=book.axis.shape)
    samples = rng.normal(size=(n, d))
    pace = Pace(float(temperature), 10.0 * k, 1.0, 0, 10**9, 0.0, 10**9, np.inf)
    labels, weight, spread = np.zeros(n, dtype=np.int64), np.ones(n), np.empty((0, k))

    def run() -> None:
        kind, reference = book.divergence.kind, book.location.copy()
        anneal(
            *(samples, labels, weight, kind, pace, 1, 0.0, k),
            *(book.arrays, reference, spread, None, np.zeros(2)),
        )

    run()
    return min(repeated_seconds(run)) / n


def show_update_cost(console: Console) -> None:
    """Print microseconds per sample over K, at temperatures where all cells or few share a sample."""
    counts, rows = (8, 30, 100, 300, 1000), []
    for name, temperature in (("high", 40.0), ("low", 0.01)):
        costs = [1e6 * sample_seconds(k, 4, temperature) for k in counts]
        slope = np.log(costs[-1] / costs[-2]) / np.log(counts[-1] / counts[-2])
        rows.append([name, *(f"{cost:.2f}" for cost in costs), f"K^{slope:.2f}"])
    columns = ("temperature", *(f"K = {k}" for k in counts), "slope 300 to 1000")
    show_table(console, "Update cost per sample, d = 4, microseconds", columns, rows, left=0)


def load_scaled(name: str, data_dir: Path | None) -> Array:
    """Load a data set, scaled to unit variance (digits: to [0, 1])."""
    return scaled(name, datasets.load(name, data_dir)[0])


def k_means(samples: Array, counts: set[int]) -> dict[int, float]:
    """Distortion of 10-start k-means at every K."""
    models = {k: KMeans(k, n_init=10, random_state=0).fit(samples) for k in sorted(counts)}
    return {k: model.inertia_ / len(samples) for k, model in models.items()}


def path_of(partition: ODAPartition, samples: Array) -> ODAPartition:
    """Fit, and access `history_`, which takes the codebooks of the path to temperature zero."""
    len(partition.fit(samples).history_)
    return partition


def show_fits(args: Partition, console: Console) -> None:
    """Print the processor time of a fit without and with its path: the least of several."""
    rows = []
    sets = {name: data_set(name, 0)[0] for name in FITTED}
    for name in ("gaussians", "adult"):
        if name in args.datasets:
            sets[name] = load_scaled(name, args.data_dir)
    for name, samples in sets.items():
        cells = [name, f"{len(samples):,}", str(samples.shape[1])]
        for k in FIT_K:
            model = ODAPartition(k, random_state=0)
            for call in (model.fit, partial(path_of, model)):
                times = repeated_seconds(call, samples, repeats=7, clock=time.process_time)
                cells.append(f"{1e3 * min(times):.1f}")
        rows.append(cells)
    columns = [title for k in FIT_K for title in (f"K = {k}", "with path")]
    title = "fit, and with all codebooks of the path at temperature zero; milliseconds of CPU time"
    show_table(console, title, ("data", "samples", "features", *columns), rows)


def show_path(args: Partition, console: Console) -> None:
    """Print distortions at all temperatures relative to k-means at the same K, and the time of both."""
    table = make_table(
        "Path of temperatures against KMeans(n_init=10)",
        *("data", "temperatures", "Ks", "median", "worst", "last", "path s", "k-means s", "ratio"),
        left=0,
    )
    everything: list[float] = []
    for name in args.datasets:
        samples = load_scaled(name, args.data_dir)
        ratios, lasts, levels, counts = [], [], [], []
        seconds, reference = 0.0, 0.0
        for seed in range(args.seeds):
            partition = ODAPartition(args.max_codevectors, random_state=seed)
            model, spent = timed(path_of, partition, samples)
            seconds += spent
            reached = {point.n_codevectors for point in model.history_}
            best, spent = timed(k_means, samples, reached)
            reference += spent
            ratios += [point.distortion / best[point.n_codevectors] for point in model.history_]
            lasts.append(-model.score(samples) / best[model.n_codevectors_])
            levels.append(len(model.history_))
            counts.append(len(reached))
        everything += ratios
        table.add_row(
            *(name, f"{np.mean(levels):.0f}", f"{np.mean(counts):.0f}"),
            *(f"{np.median(ratios):.3f}", f"{np.max(ratios):.3f}", f"{np.median(lasts):.3f}"),
            *(f"{seconds / args.seeds:.2f}", f"{reference / args.seeds:.2f}"),
            f"{seconds / reference:.2f}",
        )
    table.add_section()
    table.add_row("all", "", "", f"{np.median(everything):.3f}", f"{np.max(everything):.3f}")
    console.print(table)


def online_sets(data_dir: Path | None) -> dict[str, Array]:
    """Eleven data sets: the named ones, scaled, and six that are generated."""
    made = {
        **{f"gaussians, seed {s}": datasets.make_gaussians(seed=s)[0] for s in (1, 2, 3)},
        "normal, d = 3": np.random.default_rng(0).normal(size=(2000, 3)),
        "uniform, d = 2": np.random.default_rng(0).uniform(size=(2000, 2)),
        "exponential, d = 2": np.random.default_rng(0).exponential(size=(2000, 2)),
    }
    return {name: load_scaled(name, data_dir) for name in datasets.NAMES} | made


def show_online(args: Partition, console: Console) -> None:
    """Print distortions relative to k-means: of a stream without stored samples, and of a fit."""
    columns = ("data", "K", "pure online", "finished")
    table = make_table(
        f"Over KMeans(n_init=10), median of {args.seeds} seeds; a stream of {ONLINE_SAMPLES:,} samples",
        *columns,
    )
    everything: list[tuple[float, float]] = []
    for name, samples in online_sets(args.data_dir).items():
        for k in (8, 20):
            best = k_means(samples, {k})[k]
            ratios = []
            for seed in range(args.seeds):
                order = np.random.default_rng(seed).integers(len(samples), size=ONLINE_SAMPLES)
                online = ODAPartition(k, rehearse=False, random_state=seed)
                stream = online.partial_fit(samples[order])
                fitted = ODAPartition(k, random_state=seed).fit(samples)
                ratios.append((-stream.score(samples) / best, -fitted.score(samples) / best))
            middle = np.median(ratios, axis=0)
            everything.append((middle[0], middle[1]))
            table.add_row(name, str(k), *(f"{ratio:.3f}" for ratio in middle))
    table.add_section()
    for title, of in (("median", np.median), ("worst", np.max)):
        table.add_row(title, "", *(f"{ratio:.3f}" for ratio in of(everything, axis=0)))
    console.print(table)


def run_partition(args: Partition, console: Console) -> None:
    """Print the tables of `benchmark.py partition`."""
    with threadpool_limits(args.threads):
        show_fits(args, console)
        if args.only_fits:
            return
        show_update_cost(console)
        show_path(args, console)
        show_online(args, console)
