"""The mean loss of a function on samples that it has not learned from, and the factor that lowers it."""

import numpy as np

from oda_rl._types import Array
from oda_rl.rkhs.functional_sgd import HINGE, HUBER, SQUARED
from oda_rl.rkhs.hyperparameters import Rules
from oda_rl.rkhs.machine import KernelMachine

# Trials learn from at most N_LEARNED samples and are compared on at most N_COMPARED others.
N_LEARNED, N_COMPARED = 700, 300
# Factors by which the outputs of a classifier may be multiplied, 1 among them.
FACTORS = 2.0 ** np.arange(-2.0, 9.25, 0.25)


def mean_loss(values: Array, targets: Array, weight: Array, rules: Rules) -> float:
    """The mean loss of the outputs of a regressor, infinite if it is not finite.

    Outputs and targets have the shape (n, n_outputs), weights (n,); the loss is that of `rules`.
    """
    with np.errstate(all="ignore"):  # of a function that diverges
        error = np.abs(values - targets)
        width = rules.huber_width if rules.kind == HUBER else np.inf
        loss = np.where(error > width, width * (error - 0.5 * width), 0.5 * error**2).sum(axis=1)
        mean = float(np.average(loss, weights=weight))
    return mean if np.isfinite(mean) else np.inf


def best_factor(values: Array, classes: Array, weight: Array, rules: Rules) -> tuple[float, float]:
    """The factor of the outputs of a classifier with the least mean loss, and this loss.

    With the narrow kernels that classes often need, each step counts for few samples, so that one pass
    finds the right class long before the right size of the outputs. The class of one sample among all
    counts as unknown: without any error, the outputs would otherwise have no largest size.

    Parameters
    ----------
    values : ndarray of shape (n, n_outputs)
        Outputs for samples that the function has not learned from.
    classes, weight : ndarray of shape (n, 1) and (n,)
        Their class indices and weights.
    rules : Rules
        Those of the function, with its loss.
    """
    if not np.isfinite(values).all():
        return 1.0, np.inf
    rows, own = np.arange(len(values)), classes[:, 0].astype(np.int64)
    share = np.full(values.shape, 1.0 / (values.shape[1] * (len(values) + 1.0)))
    share[rows, own] += len(values) / (len(values) + 1.0)
    share *= weight[:, None] / weight.sum()
    if rules.kind == HINGE:
        highest = np.sort(values, axis=1)[:, -2:]
        # The best other class is the second one for the best class itself.
        behind = np.where(values == highest[:, 1:], highest[:, :1], highest[:, 1:]) - values
        means = [float((share * np.maximum(0.0, 1.0 + f * behind)).sum()) for f in FACTORS]
    else:
        below = values - values.max(axis=1, keepdims=True)
        total, mean_own = share.sum(axis=1), float((share * below).sum())
        means = [float(total @ np.log(np.exp(f * below).sum(axis=1))) - f * mean_own for f in FACTORS]
    # The factor nearest to 1 if several are equally good.
    k = min(range(len(FACTORS)), key=lambda k: (means[k], abs(np.log(FACTORS[k]))))
    return float(FACTORS[k]), means[k]


def held_out_loss(values: Array, targets: Array, weight: Array, rules: Rules) -> float:
    """The mean loss of outputs, those of a classifier after the best factor."""
    if rules.kind >= SQUARED:
        return mean_loss(values, targets, weight, rules)
    return best_factor(values, targets, weight, rules)[1]


def learn_the_size(machine: KernelMachine, samples: Array, classes: Array, weight: Array) -> None:
    """Make the first pass of a classifier, then multiply the function by a factor.

    The factor is the best one for the last samples before the function has learned from these. An
    earlier multiplication would keep the noise of the first steps. The parameters are those of
    `KernelMachine.learn`.
    """
    rest = min(N_COMPARED, len(samples) * N_COMPARED // (N_LEARNED + N_COMPARED))
    cut = len(samples) - rest
    machine.learn(samples[:cut], classes[:cut], weight[:cut])
    factor, _ = best_factor(machine(samples[cut:]), classes[cut:], weight[cut:], machine.rules)
    machine.learn(samples[cut:], classes[cut:], weight[cut:])
    machine.finish()
    machine.multiply(factor)
