"""Have compiled code ready before anything has been learned."""

from functools import cache

import numpy as np
from gymnasium import spaces

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.config import TwoTimescaleConfig


@cache
def load_kernels(dtype: str, learner_class: type[TwoTimescaleLearner] = TwoTimescaleLearner) -> None:
    """Have the compiled code ready for observations of this dtype.

    The first call of a kernel compiles it, or reads it from the cache. An interrupt at that moment
    leaves numba half loaded; this is for a moment when nothing has been learned yet.

    Parameters
    ----------
    dtype : str
        Name of the dtype of the observations.
    learner_class : type, default=TwoTimescaleLearner
        Whose code.
    """
    tree = learner_class is not TwoTimescaleLearner
    config = TwoTimescaleConfig(
        warmup_steps=4, growth_steps=1, growth_cells=2, max_cells=2, samples_per_cell=1, tree=tree
    )
    bound = np.ones(1)
    actions = ActionCodec(spaces.Discrete(2))
    learner = learner_class(1, actions, 1, -bound, bound, config, seed=0)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (64, 1)).astype(dtype)
    learner.begin(0, points[0])
    for t, point in enumerate(points):
        learner.step(0, point, 0.0, False, t % 8 == 7)
    learner.greedy(points)
