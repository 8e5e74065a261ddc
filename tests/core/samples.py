"""Samples of several tests."""

import numpy as np

CENTRES = [(0.0, 0.0), (4.0, 0.0), (0.0, 3.0), (4.0, 4.0)]


def blobs(n=300, scale=0.2, seed=0):
    rng = np.random.default_rng(seed)
    samples = np.concatenate([rng.normal(c, scale, (n, 2)) for c in CENTRES])
    return rng.permutation(samples)
