"""Pictures of a tree, and of the path of a sample through it. Needs matplotlib."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl.inspect.contributions import PathExplanation, explain
from oda_rl.inspect.table import counted, number
from oda_rl.inspect.text import decision_text
from oda_rl.inspect.trees import CellReport, report
from oda_rl.plotting import style

if TYPE_CHECKING:
    from oda_rl.estimators.tree import MultiResolutionODA

# Layers with more cells than this are drawn without the names of the cells.
MAX_NAMES = 24
# Width of a letter in the names of cells, as a part of that of the axes
LETTER = 0.006
# Largest number of features in the picture of a path.
MAX_ROWS = 30
# Letters of feature names and decisions in the picture of a path
MOST_LETTERS = 24


def plot_tree(
    model: "MultiResolutionODA", cell: Any = "0", depth: int | None = None, ax: Any = None
) -> Any:
    """Draw the tree with its layers from top to bottom, and cells with areas by their share of samples.

    Colours show classes, or values on a scale. Cells with errors in the leaves below have a ring, whose
    width grows with their share of the total error.

    Parameters
    ----------
    model, cell, depth
        As for `oda_rl.explain.report`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
    """
    cells = report(model, cell, depth)
    place = _places(cells)
    ax = style.new_axes(ax, (9.0, 5.0))
    layers = sorted({one.layer for one in cells})
    crowded = {
        layer: _is_crowded([one for one in cells if one.layer == layer], place) for layer in layers
    }
    behind: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    small: Any = {"ha": "center", "va": "top", "fontsize": 7, "color": "0.25", "zorder": 3}
    for one in cells:
        above = one.name.rpartition(".")[0]
        if above in place:
            ends = zip(place[above], place[one.name], strict=True)
            ax.plot(*ends, color="0.8", linewidth=0.4 + 4.0 * np.sqrt(one.weight), zorder=1)
        if not crowded[one.layer]:
            where: Any = {"xytext": (0, -13), "textcoords": "offset points"}
            ax.annotate(one.name, place[one.name], bbox=behind, **where, **small)
    _dots(model, ax, cells, place)
    names = [f"layer {layer}" if layer else "root" for layer in layers]
    ax.set_yticks([-layer for layer in layers], names)
    ax.set_xticks([])
    ax.set_xlim(-0.04, 1.04)
    ax.set_ylim(-layers[-1] - 0.45, -layers[0] + 0.35)
    ax.spines[:].set_visible(False)
    ax.tick_params(left=False)
    leaves = sum(one.n_children == 0 or one.layer == layers[-1] for one in cells)
    size = "1 leaf" if leaves == 1 else f"{leaves:,} leaves"
    ax.set_title(f"{size}, error {number(cells[0].error)}", loc="left", fontsize=10)
    return ax


def _places(cells: Sequence[CellReport]) -> dict[str, tuple[float, float]]:
    """Positions by name: leaves at equal distances, parents in the middle of their children."""
    shown = {one.name for one in cells}
    ends = [one.name for one in cells if f"{one.name}.0" not in shown]
    at = {name: (i + 0.5) / len(ends) for i, name in enumerate(ends)}
    for one in reversed(cells):
        if one.name not in at:
            at[one.name] = float(np.mean([at[f"{one.name}.{i}"] for i in range(one.n_children)]))
    return {one.name: (at[one.name], -float(one.layer)) for one in cells}


def _is_crowded(cells: Sequence[CellReport], place: dict[str, tuple[float, float]]) -> bool:
    """Whether the names of a layer's cells would overlap."""
    gaps = np.diff(sorted(place[one.name][0] for one in cells))
    longest = max(len(one.name) for one in cells)
    return len(cells) > MAX_NAMES or bool((gaps < LETTER * longest).any())


def _dots(
    model: "MultiResolutionODA",
    ax: Any,
    cells: Sequence[CellReport],
    place: dict[str, tuple[float, float]],
) -> None:
    points = np.array([place[one.name] for one in cells])
    crowd = max(1.0, len(cells) / 60.0)
    area = (20.0 + 500.0 * np.array([one.weight for one in cells])) / crowd
    ring = 3.0 * np.sqrt([min(1.0, one.share_of_error) for one in cells])
    marks: Any = {"s": area, "linewidths": ring, "edgecolors": "black", "zorder": 2}
    decisions = [one.decision for one in cells]
    classes = model.view().classes
    if classes is not None:
        colours = style.label_colours(len(classes))
        ax.scatter(*points.T, c=[colours[k] for k in np.searchsorted(classes, decisions)], **marks)
        options: Any = {"below": 4.0, "loc": "upper right", "ncols": 2 if len(classes) > 5 else 1}
        style.add_inner_label_legend(ax, classes, colours, range(len(classes)), **options)
    elif isinstance(decisions[0], float):
        dots = ax.scatter(*points.T, c=decisions, cmap=style.SEQUENTIAL, **marks)
        style.add_colorbar(dots, ax, "value")
    else:
        ax.scatter(*points.T, c=style.PALETTE[0], **marks)


def plot_path(
    model: "MultiResolutionODA",
    x: ArrayLike,
    feature_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a sample together with the codevectors on its path from the root to its leaf.

    Parameters
    ----------
    model, x, feature_names
        As for `oda_rl.explain.explain`.
    image_shape : (int, int), optional
        Rows and columns, if samples are images.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the number of pixels of `image_shape` is not the number of features.
    """
    why = explain(model, x, feature_names)
    if image_shape is not None and int(np.prod(image_shape)) != len(why.sample):
        raise ValueError(
            f"image_shape must have {len(why.sample)} pixels, one for each feature of the sample, got "
            f"{image_shape}."
        )
    if image_shape is None:
        return _lines(style.new_axes(ax, (7.0, 1.4 + 0.3 * min(len(why.sample), MAX_ROWS))), why)
    return _images(style.new_axes(ax, (1.6 * (len(why.steps) + 1), 2.2)), why, image_shape)


def _images(ax: Any, why: PathExplanation, shape: tuple[int, int]) -> Any:
    pictures = [why.sample, *(step.codevector for step in why.steps)]
    titles = [style.as_text(f"sample\ndecided {decision_text(why.decision)}")]
    for step in why.steps:
        decision = "" if step.decision is None else f"\n{decision_text(step.decision)}"
        titles.append(style.as_text(f"{step.name}\n{counted(step.n_samples, 'sample')}{decision}"))
    gap = max(1, shape[1] // 8)
    low, high = min(map(np.min, pictures)), max(map(np.max, pictures))
    for i, (picture, title) in enumerate(zip(pictures, titles, strict=True)):
        left = i * (shape[1] + gap)
        extent = (left, left + shape[1], shape[0], 0)
        ax.imshow(picture.reshape(shape), cmap="gray_r", vmin=low, vmax=high, extent=extent)
        middle = left + shape[1] / 2
        ax.text(middle, -0.05 * shape[0], title, ha="center", va="bottom", fontsize=8)
    ax.set_xlim(0, len(pictures) * (shape[1] + gap) - gap)
    ax.set_ylim(shape[0], -0.5 * shape[0])
    ax.axis("off")
    return ax


def _lines(ax: Any, why: PathExplanation) -> Any:
    """Draw one row for each feature, scaled by the largest distance of a codevector from the sample.

    If there are more than `MAX_ROWS` features, those with the largest distances are drawn.
    """
    apart = np.array([step.codevector for step in why.steps]) - why.sample
    spread = np.maximum(np.abs(apart).max(axis=0), 1e-12)
    shown = np.sort(np.argsort(-spread, kind="stable")[:MAX_ROWS])
    rows = np.arange(len(shown))[::-1]
    for i, (step, offset) in enumerate(zip(why.steps, apart / spread, strict=True)):
        shade = 0.25 + 0.75 * i / max(1, len(why.steps) - 1)
        label = f"{step.name}: {counted(step.n_samples, 'sample')}"
        ax.plot(offset[shown], rows, "o-", color="C0", alpha=shade, linewidth=1, label=label)
    short = partial(style.shortened, most=MOST_LETTERS)
    decision = short(decision_text(why.decision))
    between = "\n" if len(decision) > MOST_LETTERS // 2 else " "
    decided = style.as_text(f"sample, decided{between}{decision}")
    ax.axvline(0.0, color="C3", linewidth=1.5, label=decided)
    values = [style.as_text(f"{short(why.feature_names[j])} = {number(why.sample[j])}") for j in shown]
    ax.set_yticks(rows, values)
    ax.set_xticks([-1, 0, 1], ["below", "like the sample", "above"])
    ax.set_xlabel("codevectors on the path, relative to the furthest one")
    if len(shown) < len(why.sample):
        ax.set_title(f"{len(shown)} of {len(why.sample)} features", loc="left", fontsize=10)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    return ax
