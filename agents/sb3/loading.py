"""Compile or load a learner's kernels before anything has been learned."""

from functools import cache
from typing import Any

import numpy as np


@cache
def load_kernels(learner_class: Any, joint: bool = False, table: bool = False) -> None:
    """Compile or load the kernels of a learner, with continuous actions if `joint`, or with a `table`.

    The first call of a kernel compiles it, or reads it from the cache. An interrupt at that moment
    leaves numba half loaded, so this is done before anything has been learned.
    """
    learner = learner_class.smallest(joint=joint, table=table)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (64, 1))
    points = np.round(points) if table else points
    learner.begin(0, points[0])
    for t, point in enumerate(points):
        learner.step(0, point, 0.0, False, t % 8 == 7)
    learner.greedy(points)
