# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Affine maps of the features in which divergences are taken, learned from data or from a stream."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._jit import lean_kernel
from oda_rl._schema import Either, Rules, expect
from oda_rl._types import Array, Labels
from oda_rl._validation import (
    CONSTANT,
    OF_DATA,
    RESCALE,
    SMALLEST_DEVIATION,
    check_scale,
    warn_of_scales,
)
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.feature_selection import UNIMPORTANT, is_more, order_of_others, select

SCALES = ("auto", "within", "standard", "minmax")
# The part of the variances within classes that is taken to be without correlation, and as large as the
# features' whole variances: directions in which a class hardly varies are not to dominate.
UNCORRELATED = 0.4
FLOOR = 0.02
# Features stay as they are where so many more samples then have a nearest neighbour of their class, in
# standard errors of the difference, and no more samples than that are tried.
BETTER, N_TRIED = 2.0, 1000

# Features of a clusterer are standardised where the variance is that of fewer than one feature and this
# part of the others, and the largest deviation so many times the smallest: they have different units.
DOMINATED, UNLIKE = 0.1, 10.0

# A `Scaling` of d features in a file, and what `Moments` keep of C classes.
SCALING = Either(
    {"shift": "float[0]", "matrix": "float[0, 0]", "inverse": "float[0, 0]"},
    Rules(
        {
            "shift": "float[d]",
            "matrix": "float[d, d]",
            "inverse": f"float[d, d] in {OF_DATA}",
        },
        lambda scaling, sizes: _keeps_samples_small(scaling["shift"], np.abs(scaling["matrix"])),
    ),
)
MOMENTS = {
    "count": "float[C] in [0, inf)",
    "mean": "float[C, d]",
    "scatter": "float[d, d]",
    "bounds": "float[2, d] in [-inf, inf]",
    "kept?": "bool[d]",
}


def _keeps_samples_small(shift: Array, matrix: Array) -> None:
    """Ordinary samples stay within what is accepted of samples, as they do of any data."""
    steep, far = matrix.max(initial=0.0), (np.abs(shift) @ matrix).max(initial=0.0)
    expect(steep * SMALLEST_DEVIATION <= 1e3, "matrix", f"has {steep:.2g}", "what data can ask for")
    expect(far <= 1e30, "shift", f"moves samples by {far:.2g}", "what floats can tell apart")


class Scaling(NamedTuple):
    """z = (x - shift) matrix, and back: x = shift + z inverse."""

    shift: Array
    matrix: Array
    inverse: Array

    def __call__(self, samples: Array) -> Array:
        """Samples, or codevectors, as divergences are taken of them."""
        if len(self.matrix) == 0:
            return samples
        return np.ascontiguousarray((samples - self.shift) @ self.matrix)

    def back(self, points: Array) -> Array:
        """From scaled to the units of the data."""
        if len(self.matrix) == 0:
            return points.copy()
        return np.asarray(points @ self.inverse + self.shift)


NO_SCALING = Scaling(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))


@lean_kernel
def scale_samples(samples, shift, matrix, out):
    """Fill the first of `out` (n_rows, n_features) with samples in the features of a `Scaling`."""
    for t in range(samples.shape[0]):
        for k in range(out.shape[1]):
            out[t, k] = samples[t, k] if matrix.shape[0] == 0 else 0.0
        for j in range(matrix.shape[0]):
            x = samples[t, j] - shift[j]
            for k in range(out.shape[1]):
                out[t, k] += x * matrix[j, k]


@lean_kernel
def add_moments(samples, labels, sample_weight, count, mean, scatter, bounds):
    """Update the classes' weights and means, the scatter within all of them, and the features' bounds.

    (Welford's recursion; `scatter` is the sum over classes of w (x - mean) (x - mean)^T.)
    """
    d = samples.shape[1]
    for t in range(samples.shape[0]):
        c = labels[t]
        before = count[c]
        count[c] = before + sample_weight[t]
        gain = sample_weight[t] / count[c]
        part = gain * before
        for j in range(d):
            step = part * (samples[t, j] - mean[c, j])
            for k in range(j + 1):
                scatter[j, k] += step * (samples[t, k] - mean[c, k])
        for j in range(d):
            mean[c, j] += gain * (samples[t, j] - mean[c, j])
            bounds[0, j] = min(bounds[0, j], samples[t, j])
            bounds[1, j] = max(bounds[1, j], samples[t, j])
    for j in range(d):
        for k in range(j):
            scatter[k, j] = scatter[j, k]


class Moments:
    """Means of the classes, the covariance within them, the range of the features, sample by sample.

    Features that are not `kept` (n_features,) hardly count; None, which is not stored, keeps all.
    """

    kept: NDArray[np.bool_] | None = None

    def __init__(self, n_features: int) -> None:
        self.count = np.empty(0)
        self.mean = np.empty((0, n_features))
        self.scatter = np.zeros((n_features, n_features))
        self.bounds = np.stack([np.full(n_features, np.inf), np.full(n_features, -np.inf)])

    def observe(self, samples: Array, labels: Labels, weight: Array) -> None:
        """Take samples in; `labels` are numbers of classes that have been inserted."""
        add_moments(samples, labels, weight, self.count, self.mean, self.scatter, self.bounds)

    def insert(self, place: int) -> None:
        """Add a new class before that at `place`."""
        self.count = np.insert(self.count, place, 0.0)
        self.mean = np.insert(self.mean, place, 0.0, axis=0)

    def variances(self) -> tuple[Array, Array]:
        """The covariance within classes, and the features' whole variances."""
        share = self.count / self.count.sum()
        within = self.scatter / self.count.sum()
        between = share @ (self.mean - share @ self.mean) ** 2
        return within, np.diag(within) + between

    def scaling(self, scale: str | None, divergence: Divergence) -> Scaling:
        """The map of the name `scale`; divergences of positive data keep their zero."""
        if scale is None:
            return NO_SCALING
        positive = divergence.minimum >= 0.0
        if not positive and scale in ("auto", "within"):
            return self._whitening(*self._standard(), self.kept)
        shift, width, _ = self._standard()
        if scale == "minmax":
            width = self._or_one(self.bounds[1] - self.bounds[0])
            shift = self.bounds[0].copy()  # `add_moments` goes on in them
        shift = np.zeros_like(shift) if positive else shift
        return Scaling(shift, np.diag(1.0 / width), np.diag(width))

    def _standard(self) -> tuple[Array, Array, Array]:
        """Means and deviations of the features, and the covariance within classes in these units."""
        within, total = self.variances()
        width = self._or_one(np.sqrt(total))
        mean = (self.count / self.count.sum()) @ self.mean
        return mean, width, within / np.multiply.outer(width, width)

    def _or_one(self, width: Array) -> Array:
        """Widths of features, 1 of those that do not vary."""
        least = np.maximum(SMALLEST_DEVIATION, CONSTANT * np.abs(self.bounds).max(axis=0))
        return np.where(width > least, width, 1.0)

    @property
    def n_kept(self) -> int:
        """Features that count."""
        return self.mean.shape[1] if self.kept is None else int(self.kept.sum())

    def scaling_for(
        self,
        scale: str | None,
        divergence: Divergence,
        samples: Array,
        labels: Labels,
        rng: np.random.Generator,
    ) -> Scaling:
        """The map of the name `scale`, where "auto" tries samples at hand."""
        found = self.scaling(scale, divergence)
        if scale != "auto" or not divergence.is_euclidean:
            return found
        n = len(samples)
        rows = np.arange(n) if n <= N_TRIED else rng.choice(n, N_TRIED, replace=False)
        plain: Array = samples[rows]
        scaled_right = _neighbours_agree(found(plain), labels[rows])
        plain_right = _neighbours_agree(np.asarray(plain - plain.mean(axis=0)), labels[rows])
        if is_more(scaled_right, plain_right, BETTER):
            return NO_SCALING

        shift, width, within = self._standard()

        def scaled(kept: Labels) -> Array:
            part = self._whitening(shift[kept], width[kept], within[np.ix_(kept, kept)])
            return part(plain[:, kept])

        kept = select(samples, labels, rows, scaled)
        if kept is None:
            return found
        self.kept = kept
        return self.scaling(scale, divergence)

    @staticmethod
    def _whitening(
        shift: Array, width: Array, within: Array, kept: NDArray[np.bool_] | None = None
    ) -> Scaling:
        if kept is not None:  # those that are not hold no correlation, and count little
            within = np.where(np.equal.outer(kept, kept), within, 0.0)
            width = np.where(kept, width, width / UNIMPORTANT)
        own = np.diag(within)
        mixed = (1.0 - UNCORRELATED) * within + np.diag(UNCORRELATED * own + FLOOR)
        values, vectors = np.linalg.eigh(mixed)
        # They are from FLOOR on, but for what the rounding of far numbers has made of `within`.
        root = np.sqrt(np.maximum(values, 0.5 * FLOOR))
        matrix = (vectors / root) @ vectors.T
        inverse = (vectors * root) @ vectors.T
        return Scaling(shift, matrix / width[:, None], inverse * width[None, :])


def scale_by(rule: str, samples: Array, weight: Array) -> Array | None:
    """What counts as a large difference of each feature, by the name of a rule; None for one in all.

    `"standard"`: a standard deviation. `"auto"`: the same, but only where a few features dominate.
    With the variances v of d features, (sum v)^2 / sum v^2 is how many of them make up the variance.
    """
    mean = np.average(samples, axis=0, weights=weight)
    variance = np.average((samples - mean) ** 2, axis=0, weights=weight)
    least = np.maximum(SMALLEST_DEVIATION, CONSTANT * np.abs(samples).max(axis=0))
    deviation = np.sqrt(variance)
    varying = deviation > least
    if not varying.any():
        return None
    own = deviation[varying] / deviation.max()
    effective = np.sum(own**2) ** 2 / np.sum(own**4)
    unlike = own.min() * UNLIKE < 1.0 and effective < 1.0 + DOMINATED * (len(own) - 1)
    return np.where(varying, deviation, 1.0) if unlike or rule == "standard" else None


def chosen_scale(given: ArrayLike | str | None, samples: Array, weight: Array) -> Array | None:
    """The scale that a parameter asks for: given numbers, those of a rule, or None for none.

    Parameters
    ----------
    given : array-like of shape (n_features,), str or None
        The parameter; rules as for `scale_by`.
    samples : ndarray of shape (n_samples, n_features)
        What a rule goes by, with weights (n_samples,). Where features stay as they are although some
        count for nothing beside others, a warning names them.
    """
    if isinstance(given, str):
        found = scale_by(given, samples, weight)
    else:
        found = None if given is None else check_scale(given, samples.shape[1])
    if found is None:
        warn_of_scales(samples, RESCALE)
    return found


class UnitsMixin:
    """An estimator that takes features in units: X / `scale_`, or as they are if it is None."""

    scale: Any
    scale_: Array | None = None

    def _scaled(self, points: Array) -> Array:
        """Samples or codevectors in the units in which distances are taken."""
        return points if self.scale_ is None else np.asarray(points / self.scale_)

    def _unscaled(self, points: Array) -> Array:
        return points if self.scale_ is None else np.asarray(points * self.scale_)

    @property
    def _given_scale(self) -> Any:
        """The parameter if it is numbers; None if it is a rule, which asks for samples."""
        return None if isinstance(self.scale, str) else self.scale


def _neighbours_agree(samples: Array, labels: Labels) -> NDArray[np.bool_]:
    """Whether the nearest other sample of every sample has the same label."""
    return np.asarray(labels[order_of_others(samples).argmin(axis=1)] == labels)
