"""The hyperparameters of two-timescale learning."""

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Literal

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.hyperparameters import Config, documented, setting, with_default


@dataclass(frozen=True)
class _AnnealedConfig(Config):
    """Hyperparameters shared by the agents that learn over the cells of a growing codebook."""

    fixed = frozenset(
        {"codebook", "action_weight", "learning_rate_by", "local_model", "tree", "near_branches"}
        | {"bifurcation", "observation_scale", "warmup_steps", "min_temperature"}
    )
    fixed_by_learning = frozenset(
        ["optimism", "growth_steps", "growth_fraction", "growth_cells", "growth_hold"]
    )
    has_critic: ClassVar[bool]
    # Defaults that None stands for: without a table of Q values, and with one
    usual: ClassVar[MappingProxyType[str, tuple[float, float]]] = MappingProxyType(
        {"gamma": (0.99, 0.997), "trace_decay": (0.9, 0.0)}
    )

    gamma: float | None = setting(
        None,
        "Initial discount factor. Default: 0.99, or 0.997 in a table of Q values.",
        "[0, 1)",
        group="Objective",
    )
    gamma_halving: float | None = setting(
        None,
        "1 - gamma decays as 1 / (1 + steps / gamma_halving), down to 0.001; TwoTimescaleAC counts "
        "only steps in which the critic explains returns well. Default: inf, or 50,000 for "
        "TwoTimescaleAC with continuous actions.",
        "(0, inf]",
    )
    minimise: bool = setting(False, "Whether the environment returns costs to minimise, not rewards.")
    trace_decay: float | None = setting(
        None,
        "Lambda of the eligibility traces: how far back errors are propagated. Default: 0.9, or 0 in "
        "a table of Q values, where frequent exploration cuts the traces.",
        "[0, 1]",
    )
    tree: bool = setting(
        False,
        "Divide the codebook into branches of at most 16 cells, and use only the nearest ones. For "
        "hundreds of cells or more; requires codebook='shared' and bifurcation='critical'.",
        group="Codebook",
    )
    near_branches: int | None = setting(
        None,
        "With tree=True, the maximum number of branches that an observation is compared with. "
        "Default: 3, or 4 for TwoTimescaleQ with continuous actions.",
        "[1, 64]",
    )
    max_cells: int | None = setting(
        None,
        "Maximum number of cells. Default: 125, or 300 for TwoTimescaleQ with continuous actions; "
        "1,000 with tree=True.",
        "[1, inf)",
    )
    local_model: Literal["constant", "linear"] = setting(
        "linear", "Value of an action within a cell: constant, or linear in the observation."
    )
    softness: float = setting(
        2.0,
        "Overlap of cells, which are weighted by association probabilities at this multiple of the "
        "annealing temperature; 0 uses only the nearest cell.",
        "[0, inf]",
    )
    learning_rate: float = setting(
        0.1, "Fast stepsize at the first visit.", "(0, 1]", group="Value learning (fast timescale)"
    )
    learning_rate_min: float = setting(0.003, "Lower bound of the fast stepsize.", "[0, 1]")
    learning_rate_halving: float = setting(
        100.0, "The fast stepsize decays as (1 + visits / learning_rate_halving)^-power.", "[1, inf]"
    )
    learning_rate_power: float = setting(0.8, "The power in this decay; 0 keeps it constant.", "[0, 1]")
    growth_hold: int = setting(
        10,
        "Before value learning, each random action is repeated for 1 to growth_hold steps.",
        "[1, inf)",
        group="Before value learning",
    )
    warmup_steps: int = setting(
        2000,
        "Warm-up: steps of random actions from which the observation scale is estimated.",
        "[2, inf)",
    )
    growth_steps: int | None = setting(
        None,
        "After the warm-up, the maximum number of steps of random actions in which only the codebook "
        "grows. Default: 10,000, or 60,000 with continuous actions.",
        "[0, inf)",
    )
    growth_cells: int | None = setting(
        None,
        "Number of cells at which this growth phase ends. Default: 60, or 300 for TwoTimescaleQ with "
        "continuous actions; at most max_cells.",
        "[1, inf)",
    )
    observation_scale: tuple[float, ...] | None = setting(
        None,
        "A large change of each coordinate of an observation, in its own units; None estimates it.",
        "(0, inf)",
        group="Distances",
    )
    cooling: float = setting(
        0.8, "Factor from one temperature to the next.", "(0, 1)", group="Annealing (slow timescale)"
    )
    min_temperature: float = setting(
        1e-4, "Final temperature, as a fraction of the first critical temperature.", "(0, 1]"
    )
    samples_per_cell: int | None = setting(
        None, "Slow updates per cell at each temperature. Default: 30, or 10 with tree=True.", "[1, inf)"
    )
    slow_every: float = setting(
        4.0, "Environment steps between slow updates when learning begins.", "[1, inf]"
    )
    slow_doubling: float = setting(
        20_000.0,
        "The interval between slow updates grows linearly, and has doubled after this many steps.",
        "[1, inf]",
    )
    slow_a: float = setting(
        5.0,
        "The slow stepsize is 1 / (slow_a K + slow_b n) for K cells at update n of a temperature.",
        "[1, inf)",
    )
    slow_b: float = setting(0.3, "See slow_a.", "[0, inf)")
    flattening: float = setting(
        1.0,
        "The slow stepsize is divided by this power of the visit frequency; 0 follows the visits.",
        "[0, 2]",
    )
    tol_merge: float = setting(
        0.3, "Cells with a squared distance below this times the temperature are merged.", "[0, inf)"
    )
    min_weight: float = setting(1e-5, "Cells with a smaller weight are pruned.", "[0, 1]")
    perturbation: float = setting(
        0.5,
        "Half the distance between the children of a split, in standard deviations of the cell.",
        "(0, 5]",
    )
    bifurcation: Literal["critical", "perturb"] = setting(
        "critical",
        "Split cells below their critical temperature, or duplicate all cells and merge unmoved copies.",
    )

    def _check_together(self) -> None:
        if self.max_cells is not None and self.max_cells < (self.growth_cells or 0):
            raise ValueError(
                f"max_cells must be at least growth_cells={self.growth_cells}, got {self.max_cells}."
            )
        if self.tree and self.bifurcation != "critical":
            raise ValueError(f"tree=True needs bifurcation='critical', got {self.bifurcation!r}.")
        if self.near_branches is not None and not self.tree:
            raise ValueError(f"near_branches must be None unless tree=True, got {self.near_branches!r}.")

    def plan_growth(self, joint: bool) -> "GrowthPlan":
        """How far the codebook grows; `joint` if it has pairs of observations and continuous actions."""
        most = JOINT_GROWTH if joint else GROWTH
        if self.tree:
            most = replace(most, max_cells=TREE_CELLS, samples=TREE_SAMPLES)
        max_cells = self.max_cells or max(most.max_cells, self.growth_cells or 0)
        return GrowthPlan(
            steps=most.steps if self.growth_steps is None else self.growth_steps,
            cells=self.growth_cells or min(most.cells, max_cells),
            max_cells=max_cells,
            samples=self.samples_per_cell or most.samples,
        )

    @classmethod
    def learns_actor(cls, actions: ActionCodec, table: bool) -> bool:
        """Whether there is an actor with a critic; in a table, only for actions of several parts."""
        return cls.has_critic and (not table or actions.has_parts)

    def find(self, name: str, table: bool) -> float:
        """The value of `name`, whose default may depend on whether there is a table of Q values."""
        value = getattr(self, name)
        return float(self.usual[name][table] if value is None else value)

    def find_gamma_halving(self, continuous: bool) -> float:
        """Steps after which 1 - gamma has halved; the default depends on the kind of actions."""
        usual = GAMMA_HALVING if continuous and self.has_critic else math.inf
        return usual if self.gamma_halving is None else self.gamma_halving

    def count_near_branches(self, joint: bool) -> int:
        """Number of branches that an observation is compared with on a tree."""
        return self.near_branches or (JOINT_NEAR_BRANCHES if joint else NEAR_BRANCHES)


@documented
@dataclass(frozen=True)
class TwoTimescaleConfig(_AnnealedConfig):
    """Hyperparameters of `TwoTimescaleQ`; each is a keyword argument of it.

    The defaults were chosen by trials on CartPole, MountainCar, Acrobot and Pendulum, seeds from 100.

    Notes
    -----
    The fast stepsize alpha falls as the power `learning_rate_power` of the visits, down to
    `learning_rate_min`. The slow stepsize beta is 1 / (slow_a K + slow_b n) at the n-th update of a
    temperature. These updates become rarer: n grows with the logarithm of time. So per step of the
    environment beta falls as 1 / (t log t), and beta / alpha tends to 0 for every power below 1 (the
    condition of Theorem 6 of the paper cited in `TwoTimescaleQ`).

    - *Decaying*, for convergence: a power in (0.5, 1) and `learning_rate_min=0`. The sum of the
      stepsizes is then infinite, and that of their squares finite.
    - *Constant*, to follow a task that changes: `learning_rate_power=0`, `slow_b=0`, and a large
      `slow_doubling`. Then `slow_every` sets the ratio of the two timescales.

    Raises
    ------
    ValueError
        If a value is not accepted; the message names the field, the value and what is accepted.
    """

    has_critic: ClassVar[bool] = False
    actor_rate: ClassVar[float | None] = None

    codebook: Literal["shared", "per_action"] = setting(
        "shared",
        "One codebook whose cells hold a value for each action, or a codebook for each action.",
        group="Actions in the codebook",
    )
    action_weight: float | None = setting(
        None,
        "Half the range of a continuous action in units of the scaled observations: the weight of "
        "actions in the distance between pairs of observation and action. Default: 0.1, or 1 if in the "
        "warm-up actions had no effect on the next observation, and rewards were curved in them.",
        "(0, 1e6]",
    )
    learning_rate_by: Literal["cell", "global"] = setting(
        "cell", "Count the visits of each cell and action, or their average over all.", group="Stepsizes"
    )
    optimism: float = setting(
        1.0,
        "Initial Q values, as a fraction of the return from the largest reward at every step, or if "
        "most rewards differ the largest mean of a stretch of random actions; 0 if that is negative.",
        "[0, 1e6]",
        group="Exploration",
    )
    exploration_initial_eps: float = setting(
        0.1,
        "Initial fraction of random actions; in a table, of those that lead to little visited states.",
        "[0, 1]",
    )
    exploration_final_eps: float = setting(0.01, "Final fraction of random actions.", "[0, 1]")
    exploration_fraction: float = setting(0.1, "Fraction of the run over which this decays.", "[0, 1]")
    hold: int = setting(
        2, "During value learning, each random action is repeated for 1 to hold steps.", "[1, inf)"
    )
    growth_fraction: float = setting(
        0.2, "Fraction of the run, of at least five warm-ups, after which growth ends.", "[0, 1]"
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.tree and self.codebook != "shared":
            raise ValueError(f"tree=True needs codebook='shared', got {self.codebook!r}.")


@documented
@dataclass(frozen=True)
class TwoTimescaleACConfig(_AnnealedConfig):
    """Hyperparameters of `TwoTimescaleAC`; each is a keyword argument of it.

    The defaults were chosen by trials on CartPole, friction cart-pole, Acrobot and MountainCar, seeds
    from 100. Nothing in a run depends on how long it will be.

    Raises
    ------
    ValueError
        If a value is not accepted; the message names the field, the value and what is accepted.
    """

    # All actions share one codebook, and are drawn from the actor's probabilities.
    has_critic: ClassVar[bool] = True
    codebook: ClassVar[str] = "shared"
    learning_rate_by: ClassVar[str] = "cell"
    optimism: ClassVar[float] = 1.0
    exploration_initial_eps: ClassVar[float] = 0.0
    exploration_final_eps: ClassVar[float] = 0.0
    exploration_fraction: ClassVar[float] = 0.0
    hold: ClassVar[int] = 1
    action_weight: ClassVar[float] = 1.0
    growth_fraction: ClassVar[float] = math.inf

    growth_hold: int = setting(
        10,
        "In the warm-up, and while no reward is found, actions repeat for 1 to growth_hold steps.",
        "[1, inf)",
        group="Before value learning",
    )
    warmup_steps: int | None = setting(  # type: ignore[assignment]
        None,
        "Steps of random actions for observation scale and codebook; more while no episode terminated, "
        "and discrete actions had one reward. Default: 600 to 3,000, a tenth of a run of up to 30,000.",
        "[2, inf)",
    )
    growth_steps: int = setting(
        10_000,
        "Maximum number of codebook updates in repeated passes over the warm-up observations.",
        "[0, inf)",
    )
    softness: float = with_default(TwoTimescaleConfig, "softness", 4.0)
    learning_rate_halving: float = with_default(TwoTimescaleConfig, "learning_rate_halving", 3000.0)
    actor_rate: float | None = setting(
        None,
        "Ratio of the actor's stepsize to the critic's; errors are normalised by their mean size. "
        "Default: 1 / n for n discrete parts of an action, or 0.5 with continuous actions.",
        "[0, 1000]",
        group="Actor",
    )


CodebookConfig = TwoTimescaleConfig | TwoTimescaleACConfig


@dataclass(frozen=True)
class GrowthPlan:
    """Limits on the growth of a codebook."""

    steps: int  # of growing alone
    cells: int  # when growing alone ends
    max_cells: int  # overall
    samples: int  # slow updates per cell at each temperature


# With continuous actions, cells added late to a codebook of pairs disturb what was learned.
GROWTH = GrowthPlan(steps=10_000, cells=60, max_cells=125, samples=30)
JOINT_GROWTH = GrowthPlan(steps=60_000, cells=300, max_cells=300, samples=30)
# A tree has many cells: with 30 samples for each, they would be added too late to be of use.
TREE_CELLS, TREE_SAMPLES = 1000, 10
# Cells of pairs in a branch differ also in actions: it takes more branches for as many observations.
NEAR_BRANCHES, JOINT_NEAR_BRANCHES, GAMMA_HALVING = 3, 4, 50_000.0
# Usually the state decides far more than the action. If actions do not change it, only they matter.
ACTION_WEIGHT, DECISIVE_ACTION_WEIGHT = 0.1, 1.0
