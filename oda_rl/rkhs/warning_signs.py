"""Warnings of settings and units with which a kernel machine hardly learns."""

import warnings

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.feature_scaling import deviations
from oda_rl.rkhs import functional_sgd as sgd
from oda_rl.rkhs.bandwidth import root_mean_variance
from oda_rl.rkhs.hyperparameters import BANDWIDTH
from oda_rl.rkhs.machine import KernelMachine

# Outputs are judged by the errors of about so many of the first samples, and units by a first chunk of
# at least so many.
N_JUDGED = 32
# A stream without any point in the dictionary is named after so many samples.
N_EMPTY = 500
# The largest factor between bandwidth and deviations, and the largest mean of outputs in deviations,
# that a stream soon makes up for.
FAR, OFFSET = 30.0, 2.0
# The largest ratio of first errors to Huber's width. One sample moves the function by stepsize * width
# at most: with a ratio of 5, R2 was .70 instead of .91 after 1,000 samples.
WIDTHS = 5.0


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=6)


def warn_of_small_outputs(machine: KernelMachine, standardised: bool) -> None:
    """Warn if outputs are so small that the points of most mini-batches are dropped at once.

    A mini-batch with errors e moves the function by stepsize * e / sqrt(batch_size) in the norm of the
    space, and points are dropped up to a change of parsimony * stepsize^(3/2). Initial errors are the
    outputs; `standardised` is whether these were divided by their deviation.
    """
    rules, error = machine.rules, machine.first_error(N_JUDGED)
    least = rules.parsimony * np.sqrt(rules.stepsize * rules.batch_size)
    if not 0.0 < error < least:
        return
    if standardised:
        _warn(
            f"parsimony={rules.parsimony:g} is too large for anything to be learned with "
            f"stepsize={rules.stepsize:g} and batch_size={rules.batch_size}: it should be well below "
            f"{1.0 / np.sqrt(rules.stepsize * rules.batch_size):.2g}."
        )
    else:
        _warn(
            f"y is about {error:.2g} in the first samples, too small to be learned: divide y by its "
            f"standard deviation, or lower parsimony, with which y should be well above {least:.2g}."
        )


def warn_of_a_narrow_width(machine: KernelMachine) -> None:
    """Warn if Huber's loss is linear for nearly all errors, so that the function hardly moves.

    The first errors are judged by their median, which bears outliers: beyond the width w, the loss of an
    error e is w (e - w / 2).
    """
    if machine.rules.kind != sgd.HUBER:
        return
    width = machine.rules.huber_width
    loss = float(np.median(machine.first_losses(N_JUDGED))) / machine.n_outputs
    ratio = loss / width**2 + 0.5
    if ratio > WIDTHS:
        _warn(
            f"huber_width is about {ratio:.3g} times smaller than the errors of the first samples, so "
            "that little is learned from each: give a huber_width of about the standard deviation of y, "
            'or call fit with huber_width="auto".'
        )


def warn_of_an_empty_dictionary(machine: KernelMachine) -> None:
    """Warn if all points have been dropped although there are errors."""
    if machine.n_points == 0 and machine.records[-1, sgd.LOSS] > 0.0:
        _warn(
            "nothing was learned, as parsimony drops all points: lower parsimony, or give a bandwidth "
            "of the order of distances between samples in X / scale, instead of "
            f"bandwidth_={machine.value_of('bandwidth'):.2g}."
        )


def warn_of_the_end_of_the_set(machine: KernelMachine, before: int) -> None:
    """Warn if the state of the bandwidth has become the first or last of its set; it was `before`."""
    state, values = int(machine.chains.state[BANDWIDTH]), machine.chains.sets[BANDWIDTH]
    if state != before and state in (0, len(values) - 1):
        _warn(
            f"the bandwidth has reached {values[state]:.2g}, the end of the set of values around the "
            f"initial bandwidth of {machine.rules.bandwidth:.2g}: give an initial bandwidth of the "
            "order of distances between samples in X / scale."
        )


def warn_of_units(samples: Array, outputs: Array | None, weight: Array, bandwidth: float) -> None:
    """Warn if the bandwidth does not fit the first samples of a stream, or outputs are far from zero.

    `samples` (n, n_features) are scaled, and have weights (n,); `outputs` (n, n_outputs) are those of a
    regressor.
    """
    if np.count_nonzero(weight) < N_JUDGED:
        return
    deviation = root_mean_variance(samples, weight)
    if deviation > 0.0 and not 1.0 / FAR <= deviation / bandwidth <= FAR:
        _warn(
            f"the features have standard deviations of about {deviation:.2g}, and the initial bandwidth "
            f"is {bandwidth:.2g}: give scale or bandwidth, or call fit, which finds them."
        )
    if outputs is None:
        return
    mean, (own, varying) = np.average(outputs, axis=0, weights=weight), deviations(outputs, weight)
    offset = np.where(varying, np.abs(mean) / np.where(varying, own, 1.0), 0.0)
    worst = offset.argmax()
    if offset[worst] > OFFSET:
        _warn(
            f"y has a mean of {mean[worst]:.2g} and a standard deviation of {own[worst]:.2g} in the "
            "first samples: subtract the mean, as the function is zero far away, or call fit."
        )
