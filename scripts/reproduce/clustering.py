"""Reproduce the papers' figures on clustering.

python scripts/reproduce/clustering.py --data-dir data

Writes pictures and a table into `--out`. The pictures show distortion against samples observed and
against K, for online deterministic annealing, stochastic VQ, batch deterministic annealing and k-means
(Fig. 2 of "Online Deterministic Annealing for Classification and Clustering", Fig. 4 of "Annealing
Optimization for Progressive Learning with Stochastic Approximation"); the codebook in the plane as the
temperature falls (Fig. 3 of "Multi-Resolution Online Deterministic Annealing"); and codevectors that
begin far outside the data (Fig. 1d of the first paper).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.ending import run_and_exit

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import tyro
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.preprocessing import StandardScaler

from common.arguments import Count, Positive, open_out
from common.measuring import distortion, passes_over, timed
from common.pictures import (
    BLUE,
    CLASS_COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    draw_codevectors,
    grid_of,
    light_frame,
    make_panels,
    no_ticks,
    plane,
    write_down,
)
from common.tables import to_markdown
from oda_rl import ODAPartition, datasets
from oda_rl._types import Array
from oda_rl.estimators.session import REHEARSALS
from oda_rl.quantization import DeterministicAnnealing, StochasticVQ

Name = Literal["gaussians", "wbcd", "pima", "adult", "digits"]
TITLES: dict[Name, str] = {"gaussians": "Gaussians", "wbcd": "WBCD", "pima": "Pima", "adult": "Adult"}
METHODS = ("ODA", "ODA, finished", "sVQ", "DA", "k-means")
COLOURS = dict(zip(METHODS, (BLUE, PINK, ORANGE, GREEN, GREY), strict=True))
MARKERS = dict(zip(METHODS, "ovsD^", strict=True))
# Passes of a stream that are measured after its annealing, and the largest number of passes in all
LAST_PASSES, MAX_PASSES = 20, 1000


@dataclass
class Args:
    """Reproduce the papers' figures on clustering.

    The defaults are the papers' sizes: 1,500 samples of the Gaussians, all samples of the others.
    """

    data_dir: Path | None = None
    """Folder with pima*.csv and adult*.csv (header, last column `label`); OpenML if not given."""
    out: Path = Path("logs/clustering")
    """Folder of the pictures and the table."""
    max_codevectors: Positive = 20
    """K at which the annealing ends."""
    datasets: tuple[Name, ...] = tuple(TITLES)
    """Data sets, scaled to unit variance."""
    seed: Count = 0
    """Seed of everything that is random."""


class Step(NamedTuple):
    """Distortion of a method with K codevectors, and the samples and seconds until then."""

    k: int
    distortion: float
    samples: int
    seconds: float


def path_of(model: Any) -> list[Step]:
    """One step per temperature of a fitted model."""
    return [Step(p.n_codevectors, p.distortion, p.n_samples_seen, p.seconds) for p in model.history_]


def run_stream(samples: Array, args: Args) -> list[Step]:
    """Run ODA on a stream: one step per temperature, then one per pass at temperature zero."""
    model = ODAPartition(args.max_codevectors, random_state=args.seed)
    seconds, after, last = 0.0, 0, []
    for spent in passes_over(model, MAX_PASSES, args.seed, samples):
        seconds += spent
        if model.converged_:
            after += 1
            value = distortion(samples, model.codevectors_)
            last.append(Step(model.n_codevectors_, value, model.n_samples_seen_, seconds))
        if after > LAST_PASSES:
            break
    path = model.history_
    # During the annealing, `partial_fit` presents samples repeatedly. `history_` counts repetitions, but
    # `n_samples_seen_` counts each sample once: add them.
    again = path[-1].n_samples_seen * REHEARSALS // (1 + REHEARSALS)
    on_data = [
        step._replace(distortion=distortion(samples, point.codevectors))
        for step, point in zip(path_of(model), path, strict=True)
    ]
    return on_data + [step._replace(samples=step.samples + again) for step in last]


def run_one_by_one(name: str, samples: Array, counts: list[int], seed: int) -> list[Step]:
    """Run a method that needs K for one K after the other; samples and seconds are cumulative."""
    steps, seen, seconds = [], 0, 0.0
    for k in counts:
        if name == "sVQ":
            model, spent = timed(StochasticVQ(k, random_state=seed).fit, samples)
            seen, codevectors = seen + model.n_samples_seen_, model.codevectors_
        else:
            model, spent = timed(KMeans(k, n_init=1, random_state=seed).fit, samples)
            seen, codevectors = seen + model.n_iter_ * len(samples), model.cluster_centers_
        seconds += spent
        steps.append(Step(k, distortion(samples, codevectors), seen, seconds))
    return steps


def run_all(samples: Array, args: Args) -> dict[str, list[Step]]:
    """Run every method on one data set; returns their steps."""
    fitted = ODAPartition(args.max_codevectors, random_state=args.seed).fit(samples)
    finished = path_of(fitted)  # one step per temperature, with its finished codebook
    annealing = DeterministicAnnealing(args.max_codevectors, t_min=fitted.temperature_ / 10.0)
    counts = sorted({step.k for step in finished})
    return {
        "ODA": run_stream(samples, args),
        "ODA, finished": finished,
        "sVQ": run_one_by_one("sVQ", samples, counts, args.seed),
        "DA": path_of(annealing.fit(samples)),
        "k-means": run_one_by_one("k-means", samples, counts, args.seed),
    }


def draw_distortions(results: dict[str, dict[str, list[Step]]], against: str) -> Figure:
    """Draw distortion against samples observed, or against K: one panel per data set."""
    figure, panels = make_panels(len(results), 2, 5.2, 3.6)
    for axes, (name, methods) in zip(panels, results.items(), strict=True):
        for method, steps in methods.items():
            if against == "samples" and method == "ODA, finished":
                continue  # its iterations over all the data are not samples of a stream
            x = [step.samples if against == "samples" else step.k for step in steps]
            y = [step.distortion for step in steps]
            style = {"color": COLOURS[method], "ms": 3.5, "lw": 1.2, "alpha": 0.9}
            axes.plot(x, y, MARKERS[method] + "-", label=method, **style)
            if against == "samples":
                k, end = f"K = {steps[-1].k}", (x[-1], y[-1])
                style = {"fontsize": 7, "color": COLOURS[method]}
                axes.annotate(k, end, (4, 5), textcoords="offset points", **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(TITLES.get(name, name), fontsize=10)
        light_frame(axes)
        axes.set_xlabel("samples observed" if against == "samples" else "codevectors K")
        axes.set_ylabel("mean distortion")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def draw_evolution(args: Args) -> Figure:
    """Draw the codebook in the plane, with its cells, at six temperatures."""
    samples, _ = datasets.make_gaussians(seed=args.seed)
    model = ODAPartition(args.max_codevectors, random_state=args.seed, finish=False).fit(samples)
    history = model.history_
    chosen = np.unique(np.linspace(0, len(history) - 1, 6).round().astype(int))
    figure, panels = make_panels(len(chosen), 3, 3.5, 3.2)
    x, y, grid = plane(samples, 0.1, 300)
    for axes, i in zip(panels, chosen, strict=True):
        point = history[i]
        cells = pairwise_distances_argmin(grid, point.codevectors)
        if point.n_codevectors > 1:
            borders = np.arange(point.n_codevectors) + 0.5
            axes.contour(x, y, cells.reshape(x.shape), borders, colors="#888888", linewidths=0.5)
        axes.plot(*samples.T, ".", color=CLASS_COLOURS[0], ms=2)
        draw_codevectors(axes, point.codevectors)
        axes.set_title(
            f"T = {point.temperature:.3g}   D = {point.distortion:.3g}   K = {point.n_codevectors}\n"
            f"{point.n_samples_seen:,} samples, {1e3 * point.seconds:.0f} ms",
            fontsize=9,
        )
        no_ticks(axes)
    return figure


def draw_poor_start(args: Args) -> Figure:
    """Draw ODA and stochastic VQ on a stream whose first samples lie far outside the data."""
    rng = np.random.default_rng(args.seed)
    samples, _ = datasets.make_gaussians(seed=args.seed)
    far = rng.normal([6.0, 5.0], 0.2, (100, 2))
    models = {"ODA": ODAPartition, "sVQ": StochasticVQ}
    figure, [panels] = grid_of(1, 2, 4.8, 4.2, sharex=True, sharey=True)
    for axes, (name, kind) in zip(panels, models.items(), strict=True):
        model = kind(args.max_codevectors, random_state=args.seed).partial_fit(far)
        list(passes_over(model, 30, args.seed, samples))
        axes.plot(*samples.T, ".", color=CLASS_COLOURS[0], ms=2, label="data")
        axes.plot(*far.T, ".", color=CLASS_COLOURS[1], ms=2, label="first 100 samples")
        draw_codevectors(axes, model.codevectors_, label="codevectors")
        axes.set_title(
            f"{name}: D = {distortion(samples, model.codevectors_):.3g} on the data", fontsize=10
        )
        light_frame(axes)
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def table_of(results: dict[str, dict[str, list[Step]]]) -> str:
    """The last step of every method, as Markdown."""
    rows = []
    for name, methods in results.items():
        for method, steps in methods.items():
            k, value, samples, seconds = steps[-1]
            seen = f"{samples:,}" if method != "ODA, finished" else f"{samples:,} and turns"
            title = TITLES.get(name, name)
            rows.append([title, method, str(k), f"{value:.4g}", seen, f"{seconds:.2f}"])
    note = (
        "Samples and seconds are those of the whole path: every temperature of the annealing methods, "
        "every K of the others. ODA is `partial_fit` alone, with some passes at temperature zero at the "
        "end; ODA, finished is `fit`, which also takes every codebook of the path through turns over "
        "all the data."
    )
    columns = ("data", "method", "K", "distortion", "samples observed", "seconds")
    return to_markdown(columns, rows, left=2, notes=(note,))


def main(args: Args) -> None:
    """Run everything, and write the results."""
    open_out(args)
    warm = np.random.default_rng(0).normal(size=(200, 2))
    for model in (ODAPartition(5), StochasticVQ(5)):
        model.fit(warm)  # compiles the code before it is timed
    results = {}
    for name in args.datasets:
        samples, _ = datasets.load(name, args.data_dir)
        results[name] = run_all(StandardScaler().fit_transform(samples), args)
        print(f"{TITLES.get(name, name)} done")
    pictures = {
        "distortion_by_samples": draw_distortions(results, "samples"),
        "distortion_by_codevectors": draw_distortions(results, "codevectors"),
        "evolution": draw_evolution(args),
        "poor_start": draw_poor_start(args),
    }
    write_down(args.out, pictures, table_of(results))


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
