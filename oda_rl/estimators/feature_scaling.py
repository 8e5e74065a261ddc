# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Affine maps applied to the features before divergences are computed, learned from the data."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpstrf

from oda_rl._jit import lean_kernel
from oda_rl._schema import Either, Rules, expect
from oda_rl._statistics import variances
from oda_rl._types import Array, Labels
from oda_rl._validation import (
    CONSTANT,
    OF_DATA,
    SMALLEST_DEVIATION,
    check_scale,
    warn_of_scales,
)
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.feature_selection import (
    UNIMPORTANT,
    is_clearly_more,
    select,
    shifted_distances,
    thinned,
)

SCALES = ("auto", "within", "standard", "minmax")
# Regularisation of the covariance within classes, so that directions in which a class hardly varies do
# not dominate: its off-diagonal entries shrink by the part UNCORRELATED, and FLOOR, in units of the
# features' total variances, is added to its diagonal.
UNCORRELATED = 0.4
FLOOR = 0.02
# With more than FEW_SAMPLES times as many features as samples, the low rank of the covariance is used;
# what it leaves of the variances is at most this part of the largest.
FEW_SAMPLES, NEGLIGIBLE = 2.0, 1e-10
# Features stay unscaled if more samples then have a nearest neighbour of their class, by UNSCALED_Z
# standard errors of the difference. At most N_TRIED samples are compared.
UNSCALED_Z, N_TRIED = 2.0, 1000

# With scale="auto", features of a clusterer are standardised if they seem to have different units: the
# effective number of features that make up the variance is below 1 + DOMINATED (d - 1), and the largest
# deviation is more than UNLIKE times the smallest.
DOMINATED, UNLIKE = 0.1, 10.0

# Schemas of the scales of d features, of a `Scaling`, and of the arrays of `Moments` for C classes.
OF_SCALE = f"float[d] in [{SMALLEST_DEVIATION}, inf)"
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
    """A rule: scaled samples remain within the accepted range, as with a map learned from data."""
    steep, far = matrix.max(initial=0.0), (np.abs(shift) @ matrix).max(initial=0.0)
    expect(
        steep * SMALLEST_DEVIATION <= 1e3,
        "matrix",
        f"has {steep:.2g}",
        f"at most {1e3 / SMALLEST_DEVIATION:g}",
    )
    expect(far <= 1e30, "shift", f"moves samples by {far:.2g}", "at most 1e30")


class Scaling(NamedTuple):
    """The map z = (x - shift) matrix and its inverse, x = shift + z inverse."""

    shift: Array
    matrix: Array
    inverse: Array

    def __call__(self, samples: Array) -> Array:
        """Scale samples or codevectors."""
        if len(self.matrix) == 0:
            return samples
        return np.ascontiguousarray((samples - self.shift) @ self.matrix)

    def back(self, points: Array) -> Array:
        """Map scaled points back to the units of the data."""
        if len(self.matrix) == 0:
            return points.copy()
        return np.asarray(points @ self.inverse + self.shift)


NO_SCALING = Scaling(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))


@lean_kernel
def scale_samples(samples, shift, matrix, out):
    """Fill the first rows of `out` (n_rows, n_features) with the samples, scaled as by a `Scaling`."""
    for t in range(samples.shape[0]):
        for k in range(out.shape[1]):
            out[t, k] = samples[t, k] if matrix.shape[0] == 0 else 0.0
        for j in range(matrix.shape[0]):
            x = samples[t, j] - shift[j]
            for k in range(out.shape[1]):
                out[t, k] += x * matrix[j, k]


@lean_kernel
def add_moments(samples, labels, sample_weight, count, mean, scatter, bounds):
    """Update weights and means of the classes, the scatter within classes, and bounds of the features.

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
    """Running means of the classes, covariance within them, and ranges of the features.

    Features that are not `kept` (n_features,) count little; None, which is not stored, keeps all.
    """

    kept: NDArray[np.bool_] | None = None

    def __init__(self, n_features: int) -> None:
        self.count = np.empty(0)
        self.mean = np.empty((0, n_features))
        self.scatter = np.zeros((n_features, n_features))
        self.bounds = np.stack([np.full(n_features, np.inf), np.full(n_features, -np.inf)])

    def observe(self, samples: Array, labels: Labels, weight: Array) -> None:
        """Update the moments; `labels` are numbers of classes that have been inserted."""
        add_moments(samples, labels, weight, self.count, self.mean, self.scatter, self.bounds)

    def insert(self, place: int) -> None:
        """Insert a new class with the number `place`."""
        self.count = np.insert(self.count, place, 0.0)
        self.mean = np.insert(self.mean, place, 0.0, axis=0)

    def variances(self) -> tuple[Array, Array]:
        """The covariance within classes, and the total variances of the features."""
        share = self.count / self.count.sum()
        within = self.scatter / self.count.sum()
        between = share @ (self.mean - share @ self.mean) ** 2
        return within, np.diag(within) + between

    def scaling(self, scale: str | None, divergence: Divergence) -> Scaling:
        """The map with the name `scale`; for divergences of positive data it has no shift."""
        if scale is None:
            return NO_SCALING
        positive = divergence.minimum >= 0.0
        if not positive and scale in ("auto", "within"):
            return self._whitening(*self._standard(), self.kept)
        shift, width, _ = self._standard()
        if scale == "minmax":
            width = self._or_one(self.bounds[1] - self.bounds[0])
            shift = self.bounds[0].copy()  # `add_moments` updates the bounds in place
        shift = np.zeros_like(shift) if positive else shift
        return Scaling(shift, np.diag(1.0 / width), np.diag(width))

    def _standard(self) -> tuple[Array, Array, Array]:
        """Means and deviations of the features, and the within-class covariance of standardised ones."""
        within, total = self.variances()
        width = self._or_one(np.sqrt(total))
        mean = (self.count / self.count.sum()) @ self.mean
        return mean, width, within / np.multiply.outer(width, width)

    def _or_one(self, width: Array) -> Array:
        """The widths of features, replaced by 1 for features that do not vary."""
        least = np.maximum(SMALLEST_DEVIATION, CONSTANT * np.abs(self.bounds).max(axis=0))
        return np.where(width > least, width, 1.0)

    @property
    def n_kept(self) -> int:
        """Number of features that are kept."""
        return self.mean.shape[1] if self.kept is None else int(self.kept.sum())

    def scaling_for(
        self,
        scale: str | None,
        divergence: Divergence,
        samples: Array,
        labels: Labels,
        weight: Array,
        rng: np.random.Generator,
    ) -> Scaling:
        """The map with the name `scale`; "auto" may reject scaling or features, by trials on samples."""
        found = self.scaling(scale, divergence)
        if scale != "auto" or not divergence.is_euclidean:
            return found
        samples, labels, weight = thinned(samples, labels, weight)
        n = len(samples)
        rows = np.arange(n) if n <= N_TRIED else rng.choice(n, N_TRIED, replace=False)
        plain: Array = samples[rows]
        centred: Array = plain - plain.mean(axis=0)
        scaled_right = _neighbours_agree(found(plain), labels[rows])
        plain_right = _neighbours_agree(centred, labels[rows])
        unscaled = is_clearly_more(scaled_right, plain_right, weight[rows], UNSCALED_Z)
        shift, width, within = self._standard()

        def scaled(kept: Labels) -> Array:
            if unscaled and len(kept) == len(width):
                return centred  # a selection must be better than what is used without one
            part = self._whitening(shift[kept], width[kept], within[np.ix_(kept, kept)])
            return part(plain[:, kept])

        kept = select(samples, labels, weight, rows, scaled)
        if kept is None:
            return NO_SCALING if unscaled else found
        self.kept = kept
        return self.scaling(scale, divergence)

    def _whitening(
        self, shift: Array, width: Array, within: Array, kept: NDArray[np.bool_] | None = None
    ) -> Scaling:
        if kept is not None:  # the others are uncorrelated with the kept ones, and count little
            within = np.where(np.equal.outer(kept, kept), within, 0.0)
            width = np.where(kept, width, width / UNIMPORTANT)
        own = np.diag(within)
        if len(own) > FEW_SAMPLES * self.count.sum():
            matrix, inverse = _thin_roots(within, UNCORRELATED * own + FLOOR)
            return Scaling(shift, matrix / width[:, None], inverse * width[None, :])
        mixed = (1.0 - UNCORRELATED) * within + np.diag(UNCORRELATED * own + FLOOR)
        values, vectors = np.linalg.eigh(mixed)
        # Eigenvalues are at least FLOOR, except for rounding errors in `within` of data far from zero.
        root = np.sqrt(np.maximum(values, 0.5 * FLOOR))
        matrix = (vectors / root) @ vectors.T
        inverse = (vectors * root) @ vectors.T
        return Scaling(shift, matrix / width[:, None], inverse * width[None, :])


def _thin_roots(within: Array, rest: Array) -> tuple[Array, Array]:
    """A root of the inverse of C = (1 - UNCORRELATED) `within` + diag(`rest`), and the inverse root.

    For `within` (n_features, n_features) of low rank r: the time grows with r n_features^2, where the
    symmetric root takes n_features^3. With C = D^(1/2) (I + F F^T) D^(1/2), the root is
    D^(-1/2) (I + F F^T)^(-1/2), which also determines the same distances.
    """
    lower, order, rank, _ = dpstrf(within, tol=NEGLIGIBLE * float(np.diag(within).max()), lower=1)
    root = np.sqrt(rest)
    factor = np.empty((len(root), rank))
    factor[order - 1] = np.tril(lower[:, :rank])
    factor *= np.sqrt(1.0 - UNCORRELATED) / root[:, None]
    values, vectors = np.linalg.eigh(factor.T @ factor)
    stretch, axes = np.sqrt(1.0 + np.maximum(values, 0.0)), factor @ vectors
    matrix, inverse = axes / (-stretch * (1.0 + stretch)) @ axes.T, axes / (1.0 + stretch) @ axes.T
    matrix[np.diag_indices(len(root))] += 1.0
    inverse[np.diag_indices(len(root))] += 1.0
    return matrix / root[:, None], inverse * root


def deviations(samples: Array, weight: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Standard deviations of features, and which of these are more than rounding errors."""
    deviation = np.sqrt(variances(samples, weight))
    least = np.maximum(SMALLEST_DEVIATION, CONSTANT * np.abs(samples).max(axis=0))
    return deviation, deviation > least


def scale_by(rule: str, samples: Array, weight: Array) -> Array | None:
    """The scale of each feature by a named rule; None if features should not be scaled.

    `"standard"` is the standard deviation. `"auto"` is the same if a few features dominate, else None.
    With the variances v of the features, the effective number of features that make up the variance is
    (sum v)^2 / sum v^2.
    """
    deviation, varying = deviations(samples, weight)
    if not varying.any():
        return None
    own = deviation[varying] / deviation.max()
    effective = np.sum(own**2) ** 2 / np.sum(own**4)
    unlike = own.min() * UNLIKE < 1.0 and effective < 1.0 + DOMINATED * (len(own) - 1)
    return np.where(varying, deviation, 1.0) if unlike or rule == "standard" else None


def chosen_scale(given: ArrayLike | str | None, samples: Array, weight: Array) -> Array | None:
    """The scale for a value of the parameter `scale`: numbers given or found by a rule, or None.

    Warns if features are not scaled although some are negligible compared with others.

    Parameters
    ----------
    given : array-like of shape (n_features,), str or None
        The parameter; a str is a rule of `scale_by`.
    samples : ndarray of shape (n_samples, n_features)
        Data for the rule, with weights (n_samples,).
    """
    if isinstance(given, str):
        found = scale_by(given, samples, weight)
    else:
        found = None if given is None else check_scale(given, samples.shape[1])
    if found is None:
        warn_of_scales(samples)
    return found


class UnitsMixin:
    """An estimator that scales features: it uses X / `scale_`, or X if `scale_` is None."""

    scale: Any
    scale_: Array | None = None

    def _scaled(self, points: Array) -> Array:
        """Samples or codevectors in the units in which distances are computed."""
        return points if self.scale_ is None else np.asarray(points / self.scale_)

    def _unscaled(self, points: Array) -> Array:
        return points if self.scale_ is None else np.asarray(points * self.scale_)

    @property
    def _given_scale(self) -> Any:
        """The parameter if it is numbers or None; None if it is a rule, which needs samples first."""
        return None if isinstance(self.scale, str) else self.scale


def _neighbours_agree(samples: Array, labels: Labels) -> NDArray[np.bool_]:
    """For each sample, whether its nearest other sample has the same label."""
    return np.asarray(labels[shifted_distances(samples).argmin(axis=1)] == labels)
