# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Logistic regression on shares of cells and shares times x - mu, stored for non-zero shares only."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from oda_rl._jit import kernel, vector_kernel
from oda_rl._ridge import one_thread
from oda_rl._types import Array, Labels
from oda_rl.estimators.regression.mixture import mixture_columns

# Shares below this part of the largest share in a sample are dropped.
LEAST_SHARE = 1e-3
# Number of samples whose shares of all cells are computed at a time.
BLOCK = 4096
# Where at least this part of the shares is not zero, and cells are several, matrix products with all of
# them are quicker. They are made for FEW samples at a time, whose outputs then stay in the cache.
DENSE, FEW = 0.5, 128
# The search ends when gradients per weight are below TOLERANCE, after ITERATIONS iterations, or when one
# of them lowers the loss by less than this part.
TOLERANCE, ITERATIONS, LEAST_GAIN = 1e-2, 200, 64 * np.finfo(float).eps


class Basis(NamedTuple):
    """Samples, codevectors, and the shares of cells in samples.

    The cells of sample t are `cells[begin[t] : begin[t + 1]]`, with shares at the same indices.
    """

    rows: Array  # (n_samples, 1 + n_features): samples, after a leading 1
    codevectors: Array  # (n_cells, n_features)
    begin: NDArray[np.int64]  # (n_samples + 1,)
    cells: NDArray[np.int64]  # (n_shares,)
    share: Array  # (n_shares,)

    @classmethod
    def of(
        cls, samples: Array, codevectors: Array, temperature: float, kept: NDArray[np.bool_]
    ) -> "Basis":
        """Compute shares from distances along all features; models only use those that are `kept`."""
        counts, cells, shares = [np.zeros(1, dtype=np.int64)], [], []
        for start in range(0, len(samples), BLOCK):
            every = mixture_columns(samples[start : start + BLOCK], codevectors, temperature, False)
            rows, found = np.nonzero(every > LEAST_SHARE * every.max(axis=1, keepdims=True))
            own, count = every[rows, found], np.bincount(rows, minlength=len(every))
            counts.append(count)
            cells.append(found)
            shares.append(own / np.repeat(np.bincount(rows, own, len(every)), count))
        begin = np.cumsum(np.concatenate(counts))
        inputs = np.ones((len(samples), 1 + int(kept.sum())))
        inputs[:, 1:] = samples[:, kept]
        centres = codevectors[:, kept].copy()
        return cls(inputs, centres, begin, np.concatenate(cells), np.concatenate(shares))

    @property
    def entries(self) -> tuple[Array, NDArray[np.int64], NDArray[np.int64], Array]:
        """Samples, and the cells and shares of each: the first arguments of kernels."""
        return self.rows, self.begin, self.cells, self.share

    def dense_shares(self) -> Array | None:
        """Shares of all cells (n_samples, n_cells); None if most of them are zero, or cells are one."""
        n, k = len(self.rows), len(self.codevectors)
        if k == 1 or len(self.share) < DENSE * n * k:
            return None
        out = np.zeros((n, k))
        out[np.repeat(np.arange(n), np.diff(self.begin)), self.cells] = self.share
        return out

    def from_origin(self, models: Array) -> Array:
        """Models (n_cells, n_logits, 1 + n_features) as functions of x, from those of x - mu."""
        moved = models.copy()
        moved[:, :, 0] -= (models[:, :, 1:] @ self.codevectors[:, :, None])[:, :, 0]
        return moved


class Logits(NamedTuple):
    """Logits of the classes in `of`: linear models in each cell, plus a constant for each class.

    The first entry along the last axis of `models` is a constant. Logits of two classes sum to zero.
    """

    of: Labels  # (n_known,)
    models: Array  # (n_cells, n_known, 1 + n_features)
    constant: Array  # (n_known,)

    def __call__(self, basis: Basis) -> Array:
        """Logits (n_samples, n_known) of samples."""
        out = np.empty((len(basis.rows), len(self.constant)))
        fill_logits(*basis.entries, basis.from_origin(self.models), self.constant, out)
        return out


def fit_logistic(
    basis: Basis,
    labels: Labels,
    weight: Array,
    penalty: float,
    begin: Logits | None = None,
    tolerance: float = TOLERANCE,
) -> Logits:
    """Minimise the weighted log loss plus the squares of all models over 2 `penalty`.

    Constants are not penalised. With two classes the difference of the logits is fitted and penalised.
    Parameters are scaled so that the curvature of the loss, when all classes are equally likely, is
    about one. The search starts at the logits `begin` if these have the same classes and cells, else at
    zero. It ends when no gradient per weight exceeds `tolerance`.
    """
    known, numbers = np.unique(labels, return_inverse=True)
    n_logits = 1 if len(known) == 2 else len(known)
    shape = len(basis.codevectors), n_logits, basis.rows.shape[1]
    total, n = float(weight.sum()), shape[0] * shape[1] * shape[2]
    unit = _units(basis, weight, penalty, len(known), shape)
    dense = basis.dense_shares()

    def loss_and_gradient(place: Array) -> tuple[float, Array]:
        point = unit * place
        gradient = point / penalty
        gradient[n:] = 0.0
        loss = 0.5 * float(point[:n] @ gradient[:n])
        models, by_model = basis.from_origin(point[:n].reshape(shape)), np.zeros(shape)
        own = (models, point[n:], by_model, gradient[n:])
        if dense is None:
            loss += add_log_loss(*basis.entries, numbers, weight, *own)
        else:
            loss += _add_dense_log_loss(basis.rows, dense, numbers, weight, *own)
        by_model[:, :, 1:] -= by_model[:, :, :1] * basis.codevectors[:, None]
        gradient[:n] += by_model.ravel()
        return loss / total, unit * gradient / total

    with one_thread():
        found = minimize(
            loss_and_gradient,
            _point_of(begin, known, shape) / unit,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "gtol": tolerance, "ftol": LEAST_GAIN, "maxls": 50},
        )
    point = unit * found.x
    models, constant = point[:n].reshape(shape), point[n:]
    if n_logits == 1:
        models = np.concatenate([-0.5 * models, 0.5 * models], axis=1)
        constant = np.r_[-0.5, 0.5] * constant
    return Logits(known, models, constant)


def _add_dense_log_loss(
    rows: Array,
    shares: Array,
    labels: Labels,
    weight: Array,
    models: Array,
    constant: Array,
    models_gradient: Array,
    constant_gradient: Array,
) -> float:
    """Do what `add_log_loss` does, by matrix products with the models of all cells.

    `shares` are those of all cells (n_samples, n_cells).
    """
    k, n_logits, q = models.shape
    flat, gradient, total = models.reshape(-1, q).T.copy(), np.zeros((q, k * n_logits)), 0.0
    for start in range(0, len(rows), FEW):
        part = slice(start, start + FEW)
        outputs = rows[part] @ flat
        own = shares[part], labels[part], weight[part], constant, constant_gradient
        total += dense_errors(*own, outputs.reshape(-1, k, n_logits))
        gradient += rows[part].T @ outputs
    models_gradient += gradient.T.reshape(models.shape)
    return total


def _point_of(begin: Logits | None, known: Labels, shape: tuple[int, int, int]) -> Array:
    """Starting point of the search: models and constants, as one vector."""
    same = begin is not None and np.array_equal(begin.of, known)
    if begin is None or not same or begin.models.shape[::2] != shape[::2]:
        return np.zeros((shape[0] * shape[2] + 1) * shape[1])
    models, constant = begin.models, begin.constant
    if shape[1] == 1:
        models, constant = models[:, 1:] - models[:, :1], constant[1:] - constant[:1]
    return np.concatenate([models.ravel(), constant])


def _units(
    basis: Basis, weight: Array, penalty: float, n_known: int, shape: tuple[int, int, int]
) -> Array:
    """One over the square root of the curvature per weight, for each parameter."""
    squares = np.zeros((shape[0], shape[2]))
    add_squares(*basis.entries, basis.codevectors, weight, squares)
    total, variance = float(weight.sum()), (1.0 - 1.0 / n_known) / n_known
    own = np.broadcast_to((variance * squares + 1.0 / penalty)[:, None], shape).ravel()
    return np.asarray(np.sqrt(total / np.concatenate([own, np.full(shape[1], variance * total)])))


# -- kernels -----------------------------------------------------------------------------------------
# `rows`, `begin`, `cells` and `share` are `Basis.entries`, and `row`, `cells` and `share` those of one
# sample. `models` are functions of x (`Basis.from_origin`), `constant` is that of `Logits`.


@vector_kernel
def add_logits(row, cells, share, models, out):
    """Add the outputs of models, weighted by shares in a sample, to its logits `out` (n_logits,)."""
    for place in range(cells.shape[0]):
        i = cells[place]
        for c in range(out.shape[0]):
            value = 0.0
            for j in range(row.shape[0]):
                value += models[i, c, j] * row[j]
            out[c] += share[place] * value


@vector_kernel
def add_gradients(row, cells, share, error, out):
    """Add the gradients in models to `out`, from those in the logits of a sample, `error`."""
    for place in range(cells.shape[0]):
        i = cells[place]
        for c in range(error.shape[0]):
            own = share[place] * error[c]
            for j in range(row.shape[0]):
                out[i, c, j] += own * row[j]


@vector_kernel
def add_squares(rows, begin, cells, share, codevectors, weight, out):
    """Add weighted squares of shares, and of shares times x - mu, to `out` (n_cells, 1 + n_features)."""
    for t in range(rows.shape[0]):
        for place in range(begin[t], begin[t + 1]):
            i, own = cells[place], weight[t] * share[place] * share[place]
            out[i, 0] += own
            for j in range(codevectors.shape[1]):
                offset = rows[t, 1 + j] - codevectors[i, j]
                out[i, 1 + j] += own * offset * offset


@kernel
def fill_logits(rows, begin, cells, share, models, constant, out):
    """Fill `out` (n_samples, n_logits)."""
    for t in range(rows.shape[0]):
        own = slice(begin[t], begin[t + 1])
        for c in range(constant.shape[0]):
            out[t, c] = constant[c]
        add_logits(rows[t], cells[own], share[own], models, out[t])


@kernel
def loss_of_logits(error, label, weight):
    """Log loss of one sample; its logits `error` (n_logits,) become the gradient, times `weight`.

    A single logit is that of class 1 against class 0.
    """
    if error.shape[0] == 1:
        side = 1.0 if label == 1 else -1.0
        margin = side * error[0]
        rest = np.exp(-abs(margin))
        error[0] = -side * weight * (rest if margin > 0.0 else 1.0) / (1.0 + rest)
        return np.log1p(rest) + max(-margin, 0.0)
    largest, taken, mass = error.max(), error[label], 0.0
    for c in range(error.shape[0]):
        error[c] = np.exp(error[c] - largest)
        mass += error[c]
    for c in range(error.shape[0]):
        error[c] *= weight / mass
    error[label] -= weight
    return np.log(mass) + largest - taken


@vector_kernel
def mix_outputs(shares, outputs, out):
    """Add the outputs (n_cells, n_logits) of all models, weighted by shares, to `out` (n_logits,)."""
    for i in range(shares.shape[0]):
        for c in range(out.shape[0]):
            out[c] += shares[i] * outputs[i, c]


@kernel
def dense_errors(shares, labels, weight, constant, constant_gradient, outputs):
    """Return the weighted log loss of samples, and add the gradients in the constants.

    `outputs` (n_samples, n_cells, n_logits) are those of all models; they are replaced by the gradients
    in them. Other arguments are those of `_add_dense_log_loss`.
    """
    n_logits, total = constant.shape[0], 0.0
    error = np.empty(n_logits)
    for t in range(shares.shape[0]):
        for c in range(n_logits):
            error[c] = constant[c]
        mix_outputs(shares[t], outputs[t], error)
        total += weight[t] * loss_of_logits(error, labels[t], weight[t])
        for c in range(n_logits):
            constant_gradient[c] += error[c]
        for i in range(shares.shape[1]):
            for c in range(n_logits):
                outputs[t, i, c] = shares[t, i] * error[c]
    return total


@kernel
def add_log_loss(
    rows,
    begin,
    cells,
    share,
    labels,
    weight,
    models,
    constant,
    models_gradient,
    constant_gradient,
):
    """Return the weighted log loss of samples with `labels` (n_samples,), and add its gradients.

    A single logit is that of class 1 against class 0.
    """
    n_logits, total = constant.shape[0], 0.0
    error = np.empty(n_logits)
    for t in range(rows.shape[0]):
        own = slice(begin[t], begin[t + 1])
        for c in range(n_logits):
            error[c] = constant[c]
        add_logits(rows[t], cells[own], share[own], models, error)
        total += weight[t] * loss_of_logits(error, labels[t], weight[t])
        for c in range(n_logits):
            constant_gradient[c] += error[c]
        add_gradients(rows[t], cells[own], share[own], error, models_gradient)
    return total
