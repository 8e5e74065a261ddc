# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled losses and their gradients with respect to the outputs f(x)."""

import math

from oda_rl._jit import lean_kernel

HINGE, LOGISTIC, SQUARED, HUBER = 0, 1, 2, 3


@lean_kernel
def loss(kind, values, target, width, slope):
    """The loss at the outputs `values`; `slope` becomes its gradient.

    `target` holds the index of the class for the hinge (Crammer and Singer's) and the logistic loss, and
    the wanted outputs for the squared, (f - y)^2 / 2, and Huber's, which is linear beyond `width`.
    """
    n = values.shape[0]
    total = 0.0
    if kind == HINGE:
        own = int(target[0])
        rival = -1
        for c in range(n):
            slope[c] = 0.0
            if c != own and (rival < 0 or values[c] > values[rival]):
                rival = c
        if rival >= 0:
            total = 1.0 + values[rival] - values[own]
            if total <= 0.0:
                return 0.0
            slope[rival] = 1.0
            slope[own] = -1.0
    elif kind == LOGISTIC:
        own = int(target[0])
        largest = values[0]
        for c in range(1, n):
            largest = max(largest, values[c])
        for c in range(n):
            slope[c] = math.exp(values[c] - largest)
            total += slope[c]
        for c in range(n):
            slope[c] /= total
        slope[own] -= 1.0
        total = math.log(total) + largest - values[own]
    else:
        for c in range(n):
            error = values[c] - target[c]
            slope[c] = error
            if kind == HUBER and abs(error) > width:
                slope[c] = math.copysign(width, error)
                total += width * (abs(error) - 0.5 * width)
            else:
                total += 0.5 * error * error
    return total
