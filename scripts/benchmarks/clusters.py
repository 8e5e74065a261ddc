"""Number of clusters: ODAPartition against HDBSCAN, mixtures by BIC and k-means by silhouette."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from common.arguments import Count, Positive
from common.measuring import timed
from common.tables import make_table
from oda_rl import ODAPartition
from oda_rl._types import Array, Labels

# Adjusted Rand indices that differ by less than this count as equal.
LEVEL = 0.01
BLOBS = {"blobs 3": (3, 2), "blobs 6": (6, 2), "blobs 10": (10, 5), "blobs 20": (20, 8)}
REAL = {"iris": load_iris, "wine": load_wine, "wbcd": load_breast_cancer, "digits": load_digits}


@dataclass
class Clusters:
    """Measure the number of clusters found, and the adjusted Rand index, on ten data sets."""

    max_clusters: Positive = 30
    """Most clusters that a method may find."""
    seeds: Positive = 3
    """Number of seeds, for generated data sets and for random starts of the methods."""
    first_seed: Count = 0
    """First seed."""


def scaled(name: str, samples: Array) -> Array:
    """Samples of real data scaled to unit variance (digits: to [0, 1])."""
    if name == "digits":
        return samples / 16.0
    return np.ascontiguousarray(StandardScaler().fit_transform(samples))


def data_set(name: str, seed: int) -> tuple[Array, Labels]:
    """Samples and their true clusters; real ones scaled to unit variance (digits: to [0, 1])."""
    if name in REAL:
        samples, labels = REAL[name](return_X_y=True)
        return scaled(name, samples), labels
    if name == "anisotropic":
        samples, labels = make_blobs(600, 2, centers=4, random_state=seed)
        return samples @ np.random.default_rng(seed).normal(size=(2, 2)), labels
    if name == "unequal":
        return make_blobs([400, 100, 40], 3, centers=None, random_state=seed)
    k, d = BLOBS[name]
    return make_blobs(100 * k, d, centers=k, random_state=seed)


def by_annealing(samples: Array, most: int, seed: int) -> Labels:
    """Cluster by ODAPartition, with one path of temperatures."""
    return ODAPartition(most, random_state=seed).fit(samples).labels_


def by_density(samples: Array, most: int, seed: int) -> Labels:
    """Cluster by HDBSCAN; noise has the label -1."""
    return HDBSCAN(copy=True).fit(samples).labels_


def by_bic(samples: Array, most: int, seed: int) -> Labels:
    """Cluster by the mixture of Gaussians with the least BIC."""
    counts = range(1, most + 1)
    models = [GaussianMixture(k, random_state=seed, reg_covar=1e-4).fit(samples) for k in counts]
    return min(models, key=lambda model: model.bic(samples)).predict(samples)


def by_silhouette(samples: Array, most: int, seed: int) -> Labels:
    """Cluster by k-means, with the K of the largest silhouette."""
    models = [KMeans(k, n_init=10, random_state=seed).fit(samples) for k in range(2, most + 1)]
    return max(models, key=lambda model: silhouette_score(samples, model.labels_)).labels_


def count(labels: Labels) -> int:
    """Number of clusters, without noise."""
    return len(np.unique(labels[labels >= 0]))


METHODS: dict[str, Callable[..., Any]] = {
    "annealing": by_annealing,
    "HDBSCAN": by_density,
    "BIC": by_bic,
    "silhouette": by_silhouette,
}


def show_shapes(args: Clusters, console: Console) -> None:
    """Print how well 20 cells are merged into clusters that are not round."""
    stretch = np.array([[0.6, -0.6], [-0.4, 0.8]])
    shapes: dict[str, Callable[[int], tuple[Array, Labels]]] = {
        "moons": lambda seed: make_moons(500, noise=0.05, random_state=seed),
        "circles": lambda seed: make_circles(500, noise=0.05, factor=0.5, random_state=seed),
        "anisotropic": lambda seed: make_blobs(500, random_state=170),
    }
    columns = "data", "true K", "K found", "with this K", "with the true K", "HDBSCAN"
    table = make_table("20 cells merged: K, and adjusted Rand index, median / least", *columns)
    for name, make in shapes.items():
        found, scores = [], []
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            samples, labels = make(seed)
            samples = samples @ stretch if name == "anisotropic" else samples
            model = ODAPartition(20, random_state=seed).fit(samples)
            cells, n_clusters = model.predict(samples), len(np.unique(labels))
            merged = [model.merge_cells(samples, n)[cells] for n in (None, n_clusters)]
            merged.append(by_density(samples, args.max_clusters, seed))
            found.append(count(merged[0]))
            scores.append([adjusted_rand_score(labels, one) for one in merged])
        cells = [f"{np.median(own):.3f} / {min(own):.3f}" for own in zip(*scores, strict=True)]
        table.add_row(name, str(n_clusters), f"{np.median(found):.0f}", *cells)
    console.print(table)


def run_clusters(args: Clusters, console: Console) -> None:
    """Print the tables of `benchmark.py clusters`."""
    table = make_table(
        "Median K, mean adjusted Rand index, mean seconds of CPU", "data", "true K", *METHODS
    )
    by_annealing(data_set("iris", 0)[0], 3, 0)  # compile before the timing
    best, quicker = 0, 0
    names = (*BLOBS, "anisotropic", "unequal", *REAL)
    for name in names:
        results: dict[str, list[tuple[float, float, float]]] = {method: [] for method in METHODS}
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            samples, labels = data_set(name, seed)
            for method, find in METHODS.items():
                with threadpool_limits(1), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found, spent = timed(find, samples, args.max_clusters, seed, clock=time.process_time)
                results[method].append((count(found), adjusted_rand_score(labels, found), spent))
        means = {method: np.mean(own, axis=0) for method, own in results.items()}
        best += means["annealing"][1] >= max(mean[1] for mean in means.values()) - LEVEL
        quicker += means["annealing"][2] < means["BIC"][2]
        cells = [
            f"{np.median([k for k, _, _ in own]):.0f}  {means[method][1]:.3f}  {means[method][2]:5.2f}"
            for method, own in results.items()
        ]
        table.add_row(name, str(len(np.unique(labels))), *cells)
    console.print(table)
    console.print(f"annealing: best or level on {best} of {len(names)}, quicker than BIC on {quicker}")
    show_shapes(args, console)
