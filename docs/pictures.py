"""Draw the pictures of these pages, each from a run made here: `python docs/pictures.py`.

With `--papers logs` those that `scripts/reproduce` has written there are taken, and made small.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import gymnasium as gym
import numpy as np
import tyro
from matplotlib import pyplot as plt
from PIL import Image
from sklearn.datasets import load_digits, load_iris, make_moons

import oda_rl.envs
import oda_rl.resolutions
from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor, explain, plotting
from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.callbacks import SnapshotCallback
from oda_rl.agents.explain import explain_observation, explain_policy, plot_explanation
from oda_rl.datasets import make_curve

FOLDER = Path(__file__).parent / "pictures"
# Where the scripts of the papers' figures write, below `logs`
FIGURES = ("aggregation", "classification", "clustering", "kernels", "regression", "trees")


@dataclass
class Args:
    """Draw the pictures of the documentation, each from a run made here."""

    only: tuple[str, ...] = ()
    """Names of pictures; all of them by default."""
    folder: Path = FOLDER
    """Where they are written."""
    papers: Path | None = None
    """Take those of the papers' figures from here (`logs`), smaller, and draw nothing."""


def make_blobs(seed: int = 0) -> Any:
    """Five groups of samples in the plane, two of them close together."""
    rng = np.random.default_rng(seed)
    centres = [(0.0, 0.0), (0.9, 0.3), (4.0, 0.5), (3.2, 3.2), (0.2, 3.5)]
    return np.concatenate([rng.normal(centre, 0.35, (150, 2)) for centre in centres])


def draw_codebook(path: Path) -> None:
    """What a codebook is: codevectors and their cells."""
    X = make_blobs()
    model = ODAPartition(max_codevectors=12, random_state=0).fit(X)
    _, ax = plt.subplots(figsize=(6.0, 4.6), layout="constrained")
    plotting.plot_partition(model, X, ax=ax, feature_names=("first feature", "second feature"))
    save(ax, path)


def draw_splits(path: Path) -> None:
    """How annealing splits cells: the same codebook at falling temperatures."""
    X = make_blobs()
    _, axes = plt.subplots(1, 4, figsize=(12.0, 3.4), layout="constrained", sharex=True, sharey=True)
    for ax, k in zip(axes, (1, 2, 4, 8), strict=True):
        model = ODAPartition(max_codevectors=k, random_state=0).fit(X)
        plotting.plot_partition(model, X, ax=ax)
        ax.set(title=f"K = {k}, T = {model.temperature_:.2g}", xlabel="", ylabel="")
    save(axes[0], path)


def draw_growth(path: Path) -> None:
    """The same as an animation."""
    X = make_blobs()
    model = ODAPartition(max_codevectors=24, random_state=0).fit(X)
    plotting.animate_codebook(model, path, X, fps=4.0, size=(5.5, 4.4))
    plt.close("all")


def draw_annealing(path: Path) -> None:
    """Codevectors and distortion against the temperature."""
    model = ODAPartition(max_codevectors=64, samples_per_cell=400, random_state=0).fit(make_blobs())
    axes = plotting.plot_annealing(model)
    save(axes[0], path)


def draw_timescales(path: Path) -> None:
    """The two timescales of an agent: cells stop changing while values go on."""
    snapshots = SnapshotCallback(every=1000)
    model = TwoTimescaleQ(env=gym.make("oda_rl/MountainCar-v0"), seed=100)
    model.learn(200_000, callback=snapshots)
    steps = [step for step, _ in snapshots.snapshots]
    views = list(snapshots.views())
    places = np.stack(
        [np.linspace(low, high, 40) for low, high in ((-1.2, 0.6), (-0.07, 0.07))], axis=-1
    )
    grid = np.stack(np.meshgrid(places[:, 0], places[:, 1]), axis=-1).reshape(-1, 2)
    values = np.array([np.asarray(view.values(grid)) for view in views])
    cells = [len(view.codevectors) for view in views]
    change = np.abs(np.diff(values, axis=0)).mean(axis=1)
    _, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
    axes[0].step(steps, cells, where="post")
    axes[0].set(xlabel="environment steps", ylabel="cells", title="slow: the codebook")
    axes[1].plot(steps[1:], change, color="tab:orange", linewidth=1.0)
    axes[1].set(xlabel="environment steps", title="fast: the values", yscale="log")
    axes[1].set_ylabel("mean change in 1,000 steps")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.ticklabel_format(axis="x", style="plain")
        ax.set_xticks([0, 100_000, 200_000], ["0", "100,000", "200,000"])
    save(axes[0], path)


def draw_agent(path: Path) -> None:
    """Policy and value of an agent on the mountain car."""
    model = TwoTimescaleQ(env=gym.make("oda_rl/MountainCar-v0"), seed=0).learn(300_000)
    _, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    plotting.plot_policy_map(model, codebook=True, ax=axes[0])
    plotting.plot_value_map(model, ax=axes[1])
    save(axes[0], path)


def draw_reason(path: Path) -> None:
    """Which cells decide in a state."""
    model = TwoTimescaleQ(env=gym.make("oda_rl/CartPole-v1"), seed=0).learn(100_000)
    why = explain_observation(model, [0.0, 0.2, 0.05, -0.4])
    _, ax = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
    plot_explanation(explain_policy(model), why, ax=ax)
    save(ax, path)


def draw_supervised(path: Path) -> None:
    """A classifier's codebook, and a regressor's lines."""
    X, y = make_moons(400, noise=0.15, random_state=0)
    _, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    plotting.plot_partition(ODAClassifier(random_state=0).fit(X, y), X, y, ax=axes[0])
    X, y = make_curve(1500, seed=0)
    order = X[:, 0].argsort()
    axes[1].plot(X[order, 0], y[order], ".", color="0.6", markersize=4, label="samples")
    for name, colour in (("constant", "tab:blue"), ("linear", "tab:red")):
        model = ODARegressor(12, local_model=name, random_state=0).fit(X, y)
        axes[1].plot(X[order, 0], model.predict(X[order]), color=colour, label=f"12 cells, {name}")
    axes[1].legend(frameon=False)
    axes[1].set(xlabel="x", ylabel="f(x)")
    axes[1].spines[["top", "right"]].set_visible(False)
    save(axes[0], path)


def draw_tree(path: Path) -> None:
    """A tree over iris flowers."""
    data = load_iris()
    model = MultiResolutionODA(ODAClassifier(), max_children=3, random_state=0)
    model.fit(data.data, data.target)
    save(explain.plot_tree(model), path)


def draw_path(path: Path) -> None:
    """The way of a digit down a tree whose layers read ever finer pictures."""
    X, y = load_digits(return_X_y=True)
    model = MultiResolutionODA(
        ODAClassifier(),
        layers=3,
        resolutions=oda_rl.resolutions.pca_pyramid([2, 8, None]),
        random_state=0,
    ).fit(X[100:], y[100:])
    save(explain.plot_path(model, X[3], image_shape=(8, 8)), path)


def take_figures(logs: Path, folder: Path) -> None:
    """The pictures of `scripts/reproduce`, 1,100 wide at most and in 256 colours."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(logs.glob("*/*.png")):
        if path.parent.name in FIGURES:
            with Image.open(path) as picture:
                picture.thumbnail((1100, 2000), Image.Resampling.LANCZOS)
                small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
            small.save(folder / f"{path.parent.name}_{path.name}", optimize=True)


def save(ax: Any, path: Path) -> None:
    """Write the figure that the axes belong to."""
    ax.figure.savefig(path, dpi=110)
    plt.close("all")


PICTURES: dict[str, Callable[[Path], None]] = {
    "codebook.png": draw_codebook,
    "splits.png": draw_splits,
    "growth.gif": draw_growth,
    "annealing.png": draw_annealing,
    "timescales.png": draw_timescales,
    "agent.png": draw_agent,
    "reason.png": draw_reason,
    "supervised.png": draw_supervised,
    "tree.png": draw_tree,
    "way.png": draw_path,
}


def main(args: Args) -> int:
    """Draw them."""
    unknown = [name for name in args.only if name not in PICTURES]
    if unknown:
        print(f"There is no picture {unknown[0]!r}; there are {', '.join(PICTURES)}.")
        return 1
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.papers is not None:
        take_figures(args.papers, args.folder / "papers")
        return 0
    for name, draw in PICTURES.items():
        if not args.only or name in args.only:
            draw(args.folder / name)
            print(args.folder / name)
    print("Check them, then: make docs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(tyro.cli(Args, prog="docs/pictures.py")))
