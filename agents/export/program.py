"""Extract the greedy policy of an agent: the numbers that determine its decisions."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl.agents.encoding import refuse_large
from oda_rl.agents.explain.cells import (
    CodebookCells,
    GridCells,
    ProgramCells,
    check_learned,
    kind_of_cells,
)
from oda_rl.agents.linear_q.config import UniformGridConfig
from oda_rl.agents.policy_program import PolicyProgram

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Centres of grid cells are lowered by this, in widths of a cell: at a border the upper one is nearest.
TO_UPPER = 1e-6


def policy_program(model: "OnlineAlgorithm") -> PolicyProgram:
    """The greedy policy of an agent.

    Parameters
    ----------
    model : DistilledPolicy, TwoTimescaleAC, TwoTimescaleQ, SOMQ or UniformGridQ
        With discrete actions, or an actor for continuous ones; without a tree, a codebook for each
        action, or angles in its cells.

    Returns
    -------
    PolicyProgram

    Raises
    ------
    ValueError
        If its policy is not a single table of cells, or has not been learned yet.

    Examples
    --------
    >>> from oda_rl.agents import UniformGridQ
    >>> model = UniformGridQ(env="CartPole-v1", bins=2, seed=0).learn(3_000)
    >>> program = policy_program(model)
    >>> program.codevectors.shape, program.n_numbers
    ((16, 4), 108)
    """
    learner: Any = model.learner
    refuse_large(model.observations, "Export is not supported")
    kind = kind_of_cells(learner)
    if kind is ProgramCells and learner.n_learned > 0:
        found: PolicyProgram = learner.program
        return found
    points = model.actions.is_continuous
    if kind is None or (points and learner.sizes.n_joint > 0):
        raise ValueError(
            f"A {type(model).__name__} with actions in {model.action_space} cannot be exported; "
            "supported are TwoTimescaleAC, and TwoTimescaleQ, SOMQ and UniformGridQ with discrete "
            "actions."
        )
    check_learned(learner)
    if learner.n_cells == 0 or kind is ProgramCells:
        raise ValueError(
            "The agent has not learned anything yet that could be exported: call learn first."
        )
    cells: Any = kind(learner)
    fields = _of_codebook(cells) if kind is CodebookCells else _of_grid(cells)
    actions, decided = model.actions, None
    names = [f"action[{j}]" for j in range(len(actions.centre))]
    if not points:
        names = model.action_names
        decided = np.asarray(actions.decode_many(np.arange(actions.n_actions)), dtype=np.int64)
        decided = decided.reshape(len(decided), -1) if decided.ndim > 1 else decided
    return PolicyProgram(
        name=f"{type(model).__name__}, {model.env_id or 'environment unknown'}, "
        f"{model.num_timesteps:,} steps",
        features=cells.names(model.observation_names),
        action_names=names,
        actions=decided,
        bounds=actions.ends,
        **fields,
    )


def _of_codebook(cells: CodebookCells) -> dict[str, Any]:
    learner, sizes = cells.learner, cells.learner.sizes
    if learner.tree is not None or sizes.n_labels > 1:
        which = "a tree" if learner.tree is not None else "a codebook for each action"
        raise ValueError(
            f"An agent with {which} cannot be exported; only those with a single codebook are supported."
        )
    located = cells.book.codevectors
    parts = cells.book["q"].reshape(sizes.n_actions, sizes.n_basis, -1).T
    parts = learner.of_actions(parts.reshape(-1, sizes.n_actions)).reshape(*parts.shape[:2], -1)
    slopes = parts[:, 1:].transpose(0, 2, 1)
    values = parts[:, 0] + np.einsum("kaj,kj->ka", slopes, located[:, : slopes.shape[2]])
    temperature = learner.config.softness * learner.temperature
    low, high = learner.scale.ends
    return {
        "codevectors": np.ascontiguousarray(cells.codevectors),
        "low": low,
        "high": high,
        "scale": learner.scale.scale.copy(),
        "values": values,
        "slopes": np.ascontiguousarray(slopes / learner.scale.scale[: slopes.shape[2]]),
        "temperature": float(temperature),
    }


def _of_grid(cells: GridCells) -> dict[str, Any]:
    if not cells.polytopes:
        raise ValueError(
            "An agent with angles as coordinates cannot be exported; train it with angles=()."
        )
    values, ends = np.ascontiguousarray(cells.q), cells.learner.range
    # A point on the border of two grid cells, as whole numbers may be, belongs to the upper one.
    is_grid = isinstance(cells.learner.config, UniformGridConfig)
    lower = TO_UPPER / ends.inverse / cells.learner.features.size if is_grid else 0.0
    return {
        "codevectors": np.ascontiguousarray(cells.codevectors - lower),
        "low": ends.lower.copy(),
        "high": ends.upper.copy(),
        "scale": 1.0 / ends.inverse,
        "values": values,
        "slopes": np.empty((*values.shape, 0)),
        "temperature": 0.0,
    }
