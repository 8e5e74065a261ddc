"""A kernel machine for the part of the outputs that the cells are too few to represent."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist, pdist

from oda_rl._ridge import MAX_ORDER, errors_left_out, solve_in_blocks, tried
from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl._validation import OF_DATA
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.regression.fitting import measure_noise
from oda_rl.estimators.regression.mixture import BLOCK, LEAST_LEFT, global_model, joint_leverage

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun

# Maximum number of landmarks; those with which widths are compared; least samples for a kernel.
LANDMARKS, FEW_LANDMARKS, FEWEST = 800, 250, 60
# Maximum number of coordinates of all landmarks together.
NUMBERS = 20_000
# Length scales that are tried, in median distances of landmarks.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Added to the diagonal of the kernel matrix of the landmarks, as some of them may be equal.
JITTER = 1e-6
# Squared leave-one-out errors must be less than this part of those of cells alone.
CLEARLY = 0.97


class KernelPart(NamedTuple):
    """A sum of Matern kernels with length scale 1 about `landmarks` (n_landmarks, n_inputs).

    Their order is 3/2 if they are `smooth`, else 1/2 (exponentials). `coefficients` (n_landmarks,
    n_outputs) are for standardised outputs. Inputs in the units of the distance are multiplied by
    `scale` (n_inputs,), which gives the units of the landmarks.
    """

    landmarks: Array
    coefficients: Array
    scale: Array
    smooth: bool

    def __call__(self, inputs: Array) -> Array:
        """The sum, which is added to standardised outputs (n_samples, n_outputs)."""
        out = np.empty((len(inputs), self.coefficients.shape[1]))
        for start in range(0, len(inputs), BLOCK):
            part = slice(start, start + BLOCK)
            distance = cdist(inputs[part] * self.scale, self.landmarks)
            out[part] = _kernels(distance, self.smooth) @ self.coefficients
        return out

    def slopes(self, inputs: Array) -> Array:
        """Derivatives of the sum with respect to inputs, (n_samples, n_outputs, n_inputs)."""
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
    """A fitted kernel and its leave-one-out errors."""

    part: KernelPart
    left_out: Array  # (n_tried, n_outputs)

    @property
    def score(self) -> float:
        return float((self.left_out**2).sum())


class _Data(NamedTuple):
    """The data that kernels are fitted to: `rest` are the residuals of a linear model.

    `before` (n_tried,) are the leverages of that model, for the samples of the ridge trials.
    """

    inputs: Array
    rest: Array
    weight: Array
    before: Array

    def few(self) -> "_Data":
        """Only the samples of the ridge trials."""
        rows = tried(len(self.inputs))
        return _Data(self.inputs[rows], self.rest[rows], self.weight[rows], self.before)


def add_kernel(run: "RegressionRun", samples: Array, weight: Array) -> None:
    """Add a kernel machine to the predictions of a run, if that clearly lowers leave-one-out errors.

    The kernel machine is fitted to the residuals of a linear model. Predictions are then a weighted mean
    of those of the cells and of those of linear model and kernel together, with the least squared
    leave-one-out error. (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006,
    sections 4.2 and 8.3.4; Breiman, "Stacked regressions", 1996.)

    Parameters
    ----------
    run : RegressionRun
        A fitted run. It is left unchanged unless its models are linear and its settings leave kernel,
        softness and ridge to cross-validation. Its models change if a kernel is added.
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
    standard = run.scaling.with_outputs(run.insert_effects(samples), d)
    inputs, outputs, rows = run.to_distance(standard), standard[:, d:], tried(len(samples))
    base = global_model(inputs, outputs, weight, linear=True)
    before = joint_leverage(base.leverage, run.effects_leverage)
    mean_leverages = [np.average(one, weights=weight[rows]) for one in (before, run.leverage)]
    if max(mean_leverages) >= 1.0 - LEAST_LEFT:  # leave-one-out errors are meaningless
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
    """Whether a kernel may be added: if models are linear, and softness and ridge are not given."""
    models = run.models
    chosen = models.kernel == models.softness == models.ridge == "auto"
    return chosen and run.settings.finish and run.linear and run.n_features > 1 and n_samples >= FEWEST


def _best_part(one: Array, other: Array) -> tuple[float, float]:
    """The part of `other` in the mix of both errors with the least sum of squares, and that sum."""
    apart = one - other
    part = float(np.clip((one * apart).sum() / max(float((apart**2).sum()), 1e-300), 0.0, 1.0))
    return part, float(((one - part * apart) ** 2).sum())


def _kernels(distance: Array, smooth: bool) -> Array:
    """Matern kernels of distances in length scales, of order 3/2 or 1/2."""
    if not smooth:
        return np.asarray(np.exp(-distance))
    far = np.sqrt(3.0) * distance
    return np.asarray((1.0 + far) * np.exp(-far))


def _fit_best(data: _Data, scales: tuple[Array, ...], rng: np.random.Generator) -> _Tried:
    """The kernel with the least leave-one-out error among all orders, widths and `scales` of inputs.

    They are compared with some of the landmarks and the samples of the ridge trials only.
    """
    n, d = data.inputs.shape
    landmarks = data.inputs[rng.choice(n, min(n, LANDMARKS, max(NUMBERS // d, 1)), replace=False)]
    few, some = data.few(), landmarks[:FEW_LANDMARKS]
    best, choice, width = np.inf, (np.ones(d), True), len(WIDTHS) // 2
    for scale in scales:
        unit = float(np.median(pdist(some * scale)))
        lengths = scale / (unit if unit > 0.0 else 1.0)
        for smooth in (True, False):
            score, width = _best_width(few, some, lengths, smooth, width)
            if score < best:
                best, choice = score, (lengths / WIDTHS[width], smooth)
    return _fit(data, landmarks, *choice)


def _best_width(
    data: _Data, landmarks: Array, lengths: Array, smooth: bool, best: int
) -> tuple[float, int]:
    """The least error, by a descent along `WIDTHS` from index `best`, and the index of its width."""
    scores: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in scores:
            scores[i] = _fit(data, landmarks, lengths / WIDTHS[i], smooth).score
        return scores[i]

    while (least := min(range(max(best - 1, 0), min(best + 2, len(WIDTHS))), key=at)) != best:
        best = least
    return at(best), best


def _fit(data: _Data, landmarks: Array, scale: Array, smooth: bool) -> _Tried:
    """Kernel ridge regression over landmarks, with a ridge chosen by leave-one-out errors."""
    landmarks = landmarks * scale
    among = _kernels(cdist(landmarks, landmarks), smooth)
    lower = cholesky(among + JITTER * np.eye(len(landmarks)), lower=True)
    root = np.sqrt(data.weight)[:, None]

    def columns_of(part: slice) -> Array:
        kernels = _kernels(cdist(data.inputs[part] * scale, landmarks), smooth)
        return root[part] * solve_triangular(lower, kernels.T, lower=True).T

    target = root * data.rest
    ridge, columns = solve_in_blocks(columns_of, len(landmarks), target, MAX_ORDER, None, data.before)
    coefficients = solve_triangular(lower, ridge.solution, lower=True, trans="T")
    residuals = target[tried(len(target))] - columns @ ridge.solution
    left_out = errors_left_out(residuals, ridge.leverage)
    return _Tried(KernelPart(landmarks, coefficients, scale, smooth), left_out)


def kernel_schema(n_landmarks: str, n_inputs: str) -> Schema:
    """Schema of a stored kernel for m outputs."""
    return {
        "landmarks": f"float[{n_landmarks}, {n_inputs}] in {OF_DATA}",
        "coefficients": f"float[{n_landmarks}, m]",
        "scale": f"float[{n_inputs}] in (0, inf)",
        "smooth": "bool",
    }
