"""The part of outputs that a kernel machine tells: what cells are too few for."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist, pdist

from oda_rl._ridge import MAX_ORDER, errors_left_out, solve_in_blocks, tried
from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl._validation import OF_DATA
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.regression.mixture import BLOCK, LEAST_LEFT, global_model
from oda_rl.estimators.regression.refit import measure_noise

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun

# Landmarks at most, those that widths are compared with, and the least samples of a fit with a kernel.
LANDMARKS, FEW_LANDMARKS, FEWEST = 800, 400, 60
# Numbers of all landmarks together, at most.
NUMBERS = 20_000
# Lengths tried, in median distances of landmarks.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# What is added to a kernel of a landmark with itself, that samples may be alike.
JITTER = 1e-6
# Errors of samples left out must be so much less than those of cells alone.
CLEARLY = 0.97


class KernelPart(NamedTuple):
    """A sum of kernels about `landmarks` (n_landmarks, n_inputs), of which the length is 1.

    They are Matern's of the order 3/2 if it is `smooth`, else 1/2 (an exponential); `coefficients` are
    (n_landmarks, n_outputs), of standardised outputs. Inputs in the units of the distance, times `scale`
    (n_inputs,), are in those of the landmarks.
    """

    landmarks: Array
    coefficients: Array
    scale: Array
    smooth: bool

    def __call__(self, inputs: Array) -> Array:
        """What it adds to standardised outputs (n_samples, n_outputs)."""
        out = np.empty((len(inputs), self.coefficients.shape[1]))
        for start in range(0, len(inputs), BLOCK):
            part = slice(start, start + BLOCK)
            distance = cdist(inputs[part] * self.scale, self.landmarks)
            out[part] = _kernels(distance, self.smooth) @ self.coefficients
        return out

    def slopes(self, inputs: Array) -> Array:
        """How fast that changes with inputs, (n_samples, n_outputs, n_inputs)."""
        inputs = inputs * self.scale
        distance = cdist(inputs, self.landmarks)
        if self.smooth:
            fall = 3.0 * np.exp(-np.sqrt(3.0) * distance)
        else:
            fall = np.exp(-distance) / np.where(distance > 0.0, distance, np.inf)
        weight = fall[:, :, None] * self.coefficients
        towards = np.einsum("nlm,ld->nmd", weight, self.landmarks)
        return (towards - weight.sum(axis=1)[:, :, None] * inputs[:, None, :]) * self.scale


class _Tried(NamedTuple):
    """A kernel that was fitted, and what it errs by on samples left out one by one."""

    part: KernelPart
    left_out: Array  # (n_tried, n_outputs)

    @property
    def score(self) -> float:
        return float((self.left_out**2).sum())


class _Data(NamedTuple):
    """What kernels are fitted to: the `rest` of outputs that a linear model leaves.

    `before` (n_tried,) are its leverages of the samples that ridges are tried on.
    """

    inputs: Array
    rest: Array
    weight: Array
    before: Array

    def few(self) -> "_Data":
        """The samples that ridges are tried on alone."""
        rows = tried(len(self.inputs))
        return _Data(self.inputs[rows], self.rest[rows], self.weight[rows], self.before)


def add_kernel(run: "RegressionRun", samples: Array, weight: Array) -> None:
    """Have a kernel tell a part of the outputs, if samples left out say that this errs clearly less.

    A kernel machine is fitted to what a linear model leaves. Outputs are then a weighted mean of what
    the cells give and of what both of these give together, with the least squared error of samples left
    out one by one. (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, sections
    4.2 and 8.3.4; Breiman, "Stacked regressions", 1996.)

    Parameters
    ----------
    run : RegressionRun
        Whose linear models are fitted, with what is to be chosen left to cross-validation; they change
        where a kernel is added.
    samples : ndarray of shape (n_samples, n_features + n_outputs)
        In the units of the data.
    weight : ndarray of shape (n_samples,)
        Of the samples.
    """
    if not _wanted(run, len(samples)):
        return
    assert run.scaling is not None
    assert run.leverage is not None
    begin_stage("kernel")
    d, metric = run.n_inputs, run.scaling.metric[: run.n_inputs]
    standard = run.scaling.with_outputs(run.with_effects(samples), d)
    inputs, outputs, rows = run.to_distance(standard), standard[:, d:], tried(len(samples))
    base = global_model(inputs, outputs, weight, linear=True)
    before = base.leverage if run.told is None else np.maximum(base.leverage, run.told)
    told = (np.average(one, weights=weight[rows]) for one in (before, run.leverage))
    if max(told) >= 1.0 - LEAST_LEFT:  # samples left out tell nothing
        return
    residuals = (outputs - run.predictor.of_scaled(inputs, standard[:, :d]))[rows]
    alone = errors_left_out(np.sqrt(weight[rows])[:, None] * residuals, run.leverage)
    data = _Data(inputs, outputs - base.theta[0] - inputs @ base.theta[1:], weight, before)
    found = _fit_best(data, (np.ones(d), 1.0 / metric), run.rng)
    part, score = _best_part(alone, found.left_out)
    if not score < CLEARLY * float((alone**2).sum()):
        return
    run.kernel = found.part._replace(coefficients=part * found.part.coefficients)
    theta = run.book["theta"]
    linear = (base.theta * np.r_[1.0, metric][:, None]).T.reshape(-1, 1)
    theta[:] = (1.0 - part) * theta + part * linear
    measure_noise(run, standard, weight, score / len(alone))


def _wanted(run: "RegressionRun", n_samples: int) -> bool:
    """Whether a kernel may come: beside linear models, with nothing chosen by the user."""
    models = run.models
    chosen = models.kernel == models.softness == models.ridge == "auto"
    return chosen and run.settings.finish and run.linear and run.n_features > 1 and n_samples >= FEWEST


def _best_part(one: Array, other: Array) -> tuple[float, float]:
    """The part of the other's errors with which the sum of squares of both is least, and that sum."""
    apart = one - other
    part = float(np.clip((one * apart).sum() / max(float((apart**2).sum()), 1e-300), 0.0, 1.0))
    return part, float(((one - part * apart) ** 2).sum())


def _kernels(distance: Array, smooth: bool) -> Array:
    """Matern's kernels of distances in lengths, of the order 3/2 or 1/2."""
    if not smooth:
        return np.asarray(np.exp(-distance))
    far = np.sqrt(3.0) * distance
    return np.asarray((1.0 + far) * np.exp(-far))


def _fit_best(data: _Data, scales: tuple[Array, ...], rng: np.random.Generator) -> _Tried:
    """The kernel that errs least on samples left out, of all orders, widths and `scales` of inputs.

    Those are compared by some of the landmarks, and by the samples that ridges are tried on.
    """
    n, d = data.inputs.shape
    landmarks = data.inputs[rng.choice(n, min(n, LANDMARKS, max(NUMBERS // d, 1)), replace=False)]
    few, some = data.few(), landmarks[:FEW_LANDMARKS]
    best: tuple[float, Array, bool] | None = None
    for scale in scales:
        unit = float(np.median(pdist(some * scale)))
        lengths = scale / (unit if unit > 0.0 else 1.0)
        for smooth in (True, False):
            score, width = _best_width(few, some, lengths, smooth)
            if best is None or score < best[0]:
                best = score, lengths / width, smooth
    assert best is not None
    return _fit(data, landmarks, *best[1:])


def _best_width(data: _Data, landmarks: Array, lengths: Array, smooth: bool) -> tuple[float, float]:
    """The least error along `WIDTHS`, from the middle downhill, and where it is."""
    scores: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in scores:
            scores[i] = _fit(data, landmarks, lengths / WIDTHS[i], smooth).score
        return scores[i]

    best = len(WIDTHS) // 2
    while (least := min(range(max(best - 1, 0), min(best + 2, len(WIDTHS))), key=at)) != best:
        best = least
    return at(best), WIDTHS[best]


def _fit(data: _Data, landmarks: Array, scale: Array, smooth: bool) -> _Tried:
    """Ridge regression on a kernel's features over landmarks, its ridge by samples left out."""
    landmarks = landmarks * scale
    among = _kernels(cdist(landmarks, landmarks), smooth)
    lower = cholesky(among + JITTER * np.eye(len(landmarks)), lower=True)
    root = np.sqrt(data.weight)[:, None]

    def columns_of(part: slice) -> Array:
        kernels = _kernels(cdist(data.inputs[part] * scale, landmarks), smooth)
        return root[part] * solve_triangular(lower, kernels.T, lower=True).T

    target = root * data.rest
    ridge, told = solve_in_blocks(columns_of, len(landmarks), target, MAX_ORDER, None, data.before)
    coefficients = solve_triangular(lower, ridge.solution, lower=True, trans="T")
    residuals = target[tried(len(target))] - told @ ridge.solution
    left_out = errors_left_out(residuals, ridge.leverage)
    return _Tried(KernelPart(landmarks, coefficients, scale, smooth), left_out)


# -- storing: a kernel is an entry of what it belongs to, which has none where there is none ------------


def stored(kernel: KernelPart | None) -> dict[str, Any]:
    """The entries of a model file."""
    return {} if kernel is None else {"kernel": kernel._asdict()}


def restored(state: dict[str, Any]) -> KernelPart | None:
    """A kernel from what it is stored in."""
    if "kernel" not in state:
        return None
    kept = state["kernel"]
    return KernelPart(**{**kept, "smooth": bool(kept["smooth"])})


def kernel_schema(n_landmarks: str, n_inputs: str) -> Schema:
    """What is stored of a kernel of m outputs."""
    return {
        "landmarks": f"float[{n_landmarks}, {n_inputs}] in {OF_DATA}",
        "coefficients": f"float[{n_landmarks}, m]",
        "scale": f"float[{n_inputs}] in (0, inf)",
        "smooth": "bool",
    }
