# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: how a stream after a fit widens the bounds at which inputs are clipped.

`low`, `high` (n_inputs + n_outputs,) are the bounds of a `Scaling` and `deviation` its deviations; those
of outputs are not used. `step` (n_inputs,) is how far the next sample may move a bound; with 0 the
bounds of an input are fixed. Samples begin with inputs in the units of the bounds.
"""

from oda_rl._jit import kernel, lean_kernel

# A sample beyond a bound moves it by at most a step. First this is so many standard deviations: rare
# outliers should remain close to the other samples, however far out they are.
FIRST_STEP = 0.25
# Each sample beyond the bounds makes the step this many times larger, and each sample inside smaller,
# but not smaller than the first. So steps grow if more than an eighth of the samples are outside.
FASTER, SLOWER = 2.0, 0.9


@lean_kernel
def admit_sample(sample, low, high, deviation, step):
    """Widen the bounds by the inputs of a sample, and clip these, in place."""
    for j in range(step.shape[0]):
        if step[j] > 0.0:
            x = sample[j]
            if low[j] <= x <= high[j]:
                step[j] = max(SLOWER * step[j], FIRST_STEP * deviation[j])
                continue
            low[j] = max(low[j] - step[j], min(low[j], x))
            high[j] = min(high[j] + step[j], max(high[j], x))
            step[j] *= FASTER
            sample[j] = min(max(x, low[j]), high[j])


@kernel
def admit_samples(samples, low, high, deviation, step):
    """Do the same with samples (n_samples, n_inputs + n_outputs), one after the other."""
    for t in range(samples.shape[0]):
        admit_sample(samples[t], low, high, deviation, step)
