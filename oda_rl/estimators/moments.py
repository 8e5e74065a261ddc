# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""A compiled kernel: moments of labelled samples, one sample after the other."""

from oda_rl._jit import lean_kernel


@lean_kernel
def observe(samples, labels, sample_weight, count, mean, scatter, bounds):
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
