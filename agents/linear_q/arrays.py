"""The arrays of a baseline's learner: those that its compiled code takes, and their schema in files."""

from typing import Any

import numpy as np

from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl.agents.linear_q import kernels
from oda_rl.agents.linear_q.config import FourierConfig, SOMConfig, SparseConfig
from oda_rl.agents.linear_q.encoding import Scratch
from oda_rl.agents.linear_q.features import count_features
from oda_rl.agents.schema import range_schema, rows_schema, shared_schema


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


def linear_schema(config: Any, actions: Any, observations: Any) -> Schema:
    """The schema of `LinearLearner.get_state`, with F features and W weights."""
    n_angles = len(config.angles)
    n_plain = observations.n_features - 2 * n_angles
    periodic = np.arange(n_plain + n_angles) >= n_plain
    n_features = count_features(config, periodic, observations.counts)
    dense, n_weights = isinstance(config, FourierConfig), n_features * actions.n_actions
    by_visits = isinstance(config, SparseConfig) and config.learning_rate_by == "visits"
    weights = {"weight": "float[W]"}
    if by_visits:
        weights |= {"gain": "float[W] in (0, 1]", "visits": "float[W] in [0, inf)"}
    if isinstance(config, SOMConfig):
        weights["location"] = "float[c, F]"
    own = {
        "index": "int[E, active] in [0, F)",
        "trace": "float[E, W] in [0, inf)",
        "listed": "int[E, listed] in [0, W)",
        "n_listed": "int[E] in [0, listed]",
        "action": f"int[E] in [0, {actions.n_actions})",
        "held": "count[E]",
    }
    if dense:
        own |= {"trace": "float[E, W]", "feature": "float[E, F]"}
    memory: Schema = rows_schema(kernels.Memory, **own)
    entries = {
        **shared_schema(
            range_schema(config.warmup_steps), memory if dense else Rules(memory, _traces_are_listed)
        ),
        "counters": f"count[{kernels.N_COUNTERS}]",
        "figures": f"float[{kernels.N_FIGURES}] in [-inf, inf]",
        "weights": weights,
    }
    return Sized(entries, c=n_plain + n_angles, F=n_features, W=n_weights)


def _traces_are_listed(memory: Any, sizes: Sizes) -> None:
    """A rule: the traces that are not zero are listed, each once."""
    for trace, listed, n in zip(memory["trace"], memory["listed"], memory["n_listed"], strict=True):
        right = np.array_equal(np.sort(listed[:n]), np.flatnonzero(trace))
        expect(right, "listed", "does not match trace", "each entry with a trace exactly once")
