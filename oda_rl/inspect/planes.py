"""Planes through the space of a model: their points, and the cells that they cut."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._types import Array
from oda_rl.inspect.model import View

# Cells whose area is smaller than the square of this part of the plane's side are left out.
SMALLEST = 1e-9
# With fewer codevectors than this, their labels do not show reliably which dimensions matter.
FEW = 12


class Plane(NamedTuple):
    """A rectangle in two `dimensions`; the other coordinates are those of `at`."""

    dimensions: tuple[int, int]
    at: Array
    low: Array
    high: Array

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top, in the order of matplotlib's `imshow`."""
        return float(self.low[0]), float(self.high[0]), float(self.low[1]), float(self.high[1])

    def lift(self, points: Array) -> Array:
        """Points of the plane, of shape (n, 2), as points of the space."""
        lifted = np.tile(self.at, (len(points), 1))
        lifted[:, list(self.dimensions)] = points
        return lifted

    def grid(self, n: int) -> Array:
        """The centres of n x n pixels, row by row from below, as points of the space."""
        x, y = np.meshgrid(*self.along(n))
        return self.lift(np.column_stack([x.ravel(), y.ravel()]))

    def along(self, n: int) -> tuple[Array, Array]:
        """The centres of n pixels along each side."""
        middles = (np.arange(n) + 0.5) / n
        x, y = (self.low[j] + middles * (self.high[j] - self.low[j]) for j in (0, 1))
        return x, y

    def back(self, unit: Array) -> Array:
        """Points of the unit square as points of the plane."""
        points: Array = self.low + unit * (self.high - self.low)
        return points


def make_plane(
    view: View,
    dimensions: Sequence[int] | None,
    at: ArrayLike | None,
    X: Array | None = None,
    most: int | None = None,
) -> Plane:
    """Make a plane that is large enough for the codevectors and the samples `X`.

    `dimensions` are by default those of `informative_dimensions`. The other coordinates are those of
    `at` (n_features,), by default the mean of the codevectors. With `most`, only the first `most`
    dimensions of the model are used. Raises a ValueError if `dimensions` or `at` do not fit the model.
    """
    n = view.n_features if most is None else most
    i, j = _check_dimensions(view, dimensions, n)
    place = view.centre()[:n] if at is None else np.array(at, dtype=float)
    if most is not None and place.shape == (view.n_features,):
        place = place[:n]
    if place.shape != (n,) or not np.isfinite(np.delete(place, [i, j])).all():
        names = ", ".join(view.feature_names[:n])
        raise ValueError(f"at must be {n} finite numbers, one for each of {names}; got {at!r}.")
    low, high = view.limits(X)
    return Plane((i, j), place, low[[i, j]], high[[i, j]])


class Line(NamedTuple):
    """What pictures show of the only dimension of a model: its part from `low` to `high`."""

    low: float
    high: float

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of a picture whose height is 1."""
        return self.low, self.high, 0.0, 1.0

    def grid(self, n: int) -> Array:
        """The centres (n, 1) of n pixels, as points of the space."""
        points: Array = self.low + (np.arange(n)[:, None] + 0.5) / n * (self.high - self.low)
        return points


def make_line(
    view: View,
    dimensions: Sequence[int] | None,
    at: ArrayLike | None,
    X: Array | None = None,
    most: int | None = None,
) -> Line | None:
    """The line of a model with a single dimension, or None for others, which `make_plane` is for.

    The arguments are those of `make_plane`; with `dimensions` or a point `at` it is None, too.
    """
    n = view.n_features if most is None else most
    if n != 1 or dimensions is not None or at is not None:
        return None
    low, high = view.limits(X)
    return Line(float(low[0]), float(high[0]))


def intervals_in(line: Line, distance: Callable[[Array], Array]) -> dict[int, tuple[float, float]]:
    """The cells along a line, each with the ends of its part of it; see `cells_in`."""
    ends = distance(np.array([[line.low], [line.high]]))
    affine = np.vstack([ends[0], ends[1] - ends[0], np.zeros(ends.shape[1])])
    found = {}
    for i in range(affine.shape[1]):
        along = _cut_out(affine - affine[:, i : i + 1])[:, 0]
        if len(along):
            left, right = line.low + np.array([along.min(), along.max()]) * (line.high - line.low)
            found[i] = float(left), float(right)
    return found


def samples_of(view: View, X: ArrayLike | None) -> Array | None:
    """Samples (n_samples, n_features) as an array; raises a ValueError if they do not fit the model."""
    if X is None:
        return None
    samples = np.asarray(X, dtype=float)
    if samples.ndim != 2 or samples.shape[1] != view.n_features or not np.isfinite(samples).all():
        shape = f"(n_samples, {view.n_features})"
        raise ValueError(f"X must have shape {shape} and finite numbers, got shape {samples.shape}.")
    return samples


def informative_dimensions(view: View, n: int) -> tuple[int, int]:
    """The two of the first `n` dimensions with the largest mutual information with the labels.

    Without labels, or with few codevectors, those in which the variance of codevectors is largest.
    """
    labels, codevectors = view.labels, view.codevectors[:, :n]
    if n == 2 or not len(codevectors):
        return 0, 1
    if labels is None or len(codevectors) < FEW or len(np.unique(labels)) < 2:
        scores = codevectors.var(axis=0)
    else:
        from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

        measure = mutual_info_classif if view.has_classes else mutual_info_regression
        scores = measure(codevectors, labels, random_state=0)
    first, second = np.sort(np.argsort(-scores, kind="stable")[:2])
    return int(first), int(second)


def _check_dimensions(view: View, dimensions: Sequence[int] | None, n: int) -> tuple[int, int]:
    """The two dimensions to draw: those given, after a check, or those of `informative_dimensions`."""
    if n < 2:
        raise ValueError(
            f"the model must have at least two dimensions to draw a plane, got {n}; maps of a single "
            "dimension need neither dimensions nor at."
        )
    if dimensions is None:
        return informative_dimensions(view, n)
    found = tuple(int(j) for j in dimensions)
    if len(found) != 2 or found[0] == found[1] or not all(0 <= j < n for j in found):
        raise ValueError(
            f"dimensions must be two different indices from 0 to {n - 1}, got {tuple(dimensions)}."
        )
    return found


def cells_in(plane: Plane, distance: Callable[[Array], Array]) -> dict[int, Array]:
    """The cells that a plane cuts, each with the polygon of its part of the rectangle.

    The difference of the Bregman divergences from two codevectors is affine in the point, so that its
    values at three corners of the rectangle determine it everywhere. A cell is the part of the rectangle
    that remains after a cut along its border with every other cell. `distance` is as for `View`.
    Returns polygons (n_corners, 2) by the index of the cell.
    """
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = distance(plane.lift(plane.back(corners)))
    # the rows are the divergence at the lower left corner, and its increase along either side
    affine = np.vstack([found[0], found[1] - found[0], found[2] - found[0]])
    polygons = {}
    for i in range(affine.shape[1]):
        polygon = _cut_out(affine - affine[:, i : i + 1])
        if len(polygon):
            polygons[i] = plane.back(polygon)
    return polygons


def _cut_out(excess: Array) -> Array:
    """The part of the unit square where no other cell is nearer.

    The columns of `excess` are affine functions: how much larger the divergence from each cell's
    codevector is than from that of this one.
    """
    polygon = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    tolerance = 1e-12 * max(1e-300, float(np.abs(excess).max()))
    for _ in range(excess.shape[1]):
        further = excess[0] + polygon @ excess[1:]
        worst = int(np.argmin(further.min(axis=0)))
        if further[:, worst].min() >= -tolerance:
            return polygon if _area(polygon) > SMALLEST**2 else polygon[:0]
        polygon = _cut(polygon, further[:, worst])
        if len(polygon) < 3:
            return polygon[:0]
    return polygon


def _cut(polygon: Array, side: Array) -> Array:
    """The part of a convex polygon where an affine function, `side` at the corners, is not negative."""
    kept = []
    for a in range(len(polygon)):
        b = (a + 1) % len(polygon)
        if side[a] >= 0.0:
            kept.append(polygon[a])
        if (side[a] >= 0.0) != (side[b] >= 0.0):
            part = side[a] / (side[a] - side[b])
            kept.append(polygon[a] + part * (polygon[b] - polygon[a]))
    return np.array(kept).reshape(-1, 2)


def _area(polygon: Array) -> float:
    x, y = polygon.T
    return 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
