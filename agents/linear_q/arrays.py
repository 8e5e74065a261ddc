"""The arrays that the compiled code of a baseline takes in addition to its weights."""

from typing import Any

import numpy as np

from oda_rl.agents.linear_q import kernels
from oda_rl.agents.linear_q.encoding import Scratch


def make_memory(features: Any, n_actions: int, n_envs: int) -> kernels.Memory:
    """The memory of environments that have not begun, for these features of observations."""
    n_weights = features.n_features * n_actions
    dense, sparse = _widths(features)
    return kernels.Memory(
        index=np.zeros((n_envs, sparse), dtype=np.int64),
        feature=np.zeros((n_envs, dense)),
        known=np.zeros(n_envs, dtype=np.bool_),
        action=np.zeros(n_envs, dtype=np.int64),
        command=np.zeros((n_envs, 1)),
        held=np.zeros(n_envs, dtype=np.int64),
        exploratory=np.zeros(n_envs, dtype=np.bool_),
        trace=np.zeros((n_envs, n_weights)),
        listed=np.zeros((n_envs, 1 if features.is_dense else n_weights), dtype=np.int64),
        n_listed=np.zeros(n_envs, dtype=np.int64),
        level=np.zeros((n_envs, n_actions)),
    )


def make_scratch(features: Any, n_actions: int, n_coordinates: int) -> Scratch:
    """Scratch arrays for one step."""
    dense, sparse = _widths(features)
    width = max(features.n_features, int(features.size[0]) * n_coordinates)
    return Scratch(
        u=np.zeros(n_coordinates),
        index=np.zeros(sparse, dtype=np.int64),
        feature=np.zeros(dense),
        values=np.zeros(n_actions),
        spare=np.zeros((4, width) if features.is_dense else (1, features.location.shape[1])),
    )


def _widths(features: Any) -> tuple[int, int]:
    """Lengths of an observation's dense features and sparse indices; 1 for those that are not used."""
    return (features.n_features, 1) if features.is_dense else (1, features.n_active)
