"""How large the arrays of a learner are."""

from dataclasses import dataclass

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.state import N_DRAWS
from oda_rl.agents.codebook_rl.tree.layout import WIDTH
from oda_rl.agents.config import TwoTimescaleConfig


@dataclass(frozen=True)
class Sizes:
    """Sizes that follow from an environment's spaces and the hyperparameters.

    Parameters
    ----------
    n_observed : int
        Coordinates of an observation.
    n_joint : int
        Coordinates of an action that is part of a codevector's location; 0 if actions are numbered.
    n_actions : int
        Numbered actions; 1 if there are none.
    n_command : int
        Numbers that a compiled environment takes as an action.
    n_envs : int
        Environments that take turns.
    max_cells : int
        Cells at most.
    linear : bool
        Whether the value of a cell is a linear function, or a number.
    per_action : bool
        Whether there is a codebook for each action.
    near_branches : int, default=0
        Branches that an observation looks at, on a tree.
    """

    n_observed: int
    n_joint: int
    n_actions: int
    n_command: int
    n_envs: int
    max_cells: int
    linear: bool
    per_action: bool
    near_branches: int = 0

    @classmethod
    def of(
        cls, n_observed: int, actions: ActionCodec, n_envs: int, config: TwoTimescaleConfig
    ) -> "Sizes":
        """The sizes for these observations, actions and hyperparameters."""
        return cls(
            n_observed=n_observed,
            n_joint=len(actions.centre),
            n_actions=actions.n_actions,
            n_command=actions.commands.shape[1],
            n_envs=n_envs,
            max_cells=config.plan_growth(actions.is_joint).max_cells,
            linear=config.local_model == "linear",
            per_action=config.codebook == "per_action",
            near_branches=config.count_near_branches(actions.is_joint) if config.tree else 0,
        )

    @property
    def n_features(self) -> int:
        """Coordinates of a codevector."""
        return self.n_observed + self.n_joint

    @property
    def n_products(self) -> int:
        """Products of an observation's and an action's coordinates that the value of a cell knows."""
        return self.n_observed * self.n_joint if self.linear else 0

    @property
    def n_basis(self) -> int:
        """Numbers that give the value of an action in a cell."""
        return 1 + self.n_features + self.n_products if self.linear else 1

    @property
    def n_labels(self) -> int:
        """In a codebook for each action the action is the label."""
        return self.n_actions if self.per_action else 1

    @property
    def n_draws(self) -> int:
        """Uniform numbers that one choice of an action uses."""
        return N_DRAWS + self.n_joint

    @property
    def capacity(self) -> int:
        """Room of the codebook: splits may double the cells before some merge; whole vectors of 8.

        The same room must hold what branches of a tree have places for.
        """
        return max(-(-2 * self.max_cells // 8) * 8, self.near_branches * WIDTH)

    @property
    def payload(self) -> dict[str, tuple[int, str]]:
        """The payload of a cell; the kernels rely on this order."""
        rows = self.n_actions * self.n_basis
        return {
            "q": (rows, "mean"),
            "visits": (self.n_actions, "count"),
            "rate": (self.n_actions, "mean"),
            "trace": (rows * self.n_envs, "count"),
            "density": (1, "count"),
        }

    @property
    def trace_rows(self) -> slice:
        """Where the traces stand in the payload."""
        rows = self.n_actions * self.n_basis
        start = rows + 2 * self.n_actions
        return slice(start, start + rows * self.n_envs)
