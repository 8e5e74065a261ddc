# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernel: whether samples are in the domain of a divergence."""

from oda_rl._jit import lean_kernel


@lean_kernel
def are_inside(samples, minimum, is_open, largest):
    """Whether no value of `samples` is NaN, below `minimum`, or beyond `largest` in absolute value.

    `samples` are (n_samples, n_features). If `is_open`, the minimum itself is outside.
    """
    for t in range(samples.shape[0]):
        for j in range(samples.shape[1]):
            x = samples[t, j]
            if not (abs(x) <= largest and x >= minimum) or (is_open and x == minimum):
                return False
    return True
