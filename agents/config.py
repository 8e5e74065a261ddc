"""The hyperparameters of two-timescale learning."""

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Literal

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

    earlier = MappingProxyType({"gamma_halving": math.inf})
    has_critic: ClassVar[bool]

    gamma: float = setting(0.99, "Discount factor, at first.", "[0, 1)", group="What is maximised")
    gamma_halving: float | None = setting(
        None,
        "1 - gamma falls as 1 / (1 + steps / this), to 0.001; with an actor, steps in which its critic "
        "explains returns well. By default inf, which keeps it; 50,000 where an actor has a Box.",
        "(0, inf]",
    )
    criterion: Literal["discounted", "average"] = setting(
        "discounted",
        "Maximise the discounted sum of rewards, or, for tasks that never end, their average over time.",
    )
    average_rate: float = setting(
        0.001, "Stepsize of the average reward, if that is the criterion.", "(0, 1]"
    )
    minimise: bool = setting(False, "Take what the environment returns as a cost.")
    trace_decay: float = setting(
        0.9, "Lambda of the eligibility traces: how far back an error reaches.", "[0, 1]"
    )
    tree: bool = setting(
        False,
        "Divide the codebook into branches of at most 16 cells, and use the nearest ones only: for "
        "hundreds of cells and more. With a shared codebook and critical bifurcations.",
        group="The codebook",
    )
    near_branches: int | None = setting(
        None,
        "On a tree, the branches that an observation is compared with, at most; by default 3, and 4 "
        "for TwoTimescaleQ with continuous actions.",
        "[1, 64]",
    )
    max_cells: int | None = setting(
        None,
        "Cells at most; by default 125, 300 for TwoTimescaleQ with continuous actions, 1,000 on a tree.",
        "[1, inf)",
    )
    local_model: Literal["constant", "linear"] = setting(
        "linear", "The value of an action in a cell: a number, or a linear function of the observation."
    )
    softness: float = setting(
        2.0,
        "Aggregate states overlap as the association probabilities at this multiple of the annealing "
        "temperature; 0 takes the nearest cell alone.",
        "[0, inf]",
    )
    learning_rate: float = setting(
        0.1, "Fast stepsize at the first visit.", "(0, 1]", group="Learning values, the fast timescale"
    )
    learning_rate_min: float = setting(0.003, "The fast stepsize never falls below this.", "[0, 1]")
    learning_rate_halving: float = setting(
        100.0, "The fast stepsize falls as (1 + visits / this)^-power.", "[1, inf]"
    )
    learning_rate_power: float = setting(0.8, "Power of that fall; 0 keeps it constant.", "[0, 1]")
    growth_hold: int = setting(
        10,
        "While only the codebook grows, a random action is held for 1 to this many steps.",
        "[1, inf)",
        group="Before values are learned",
    )
    warmup_steps: int = setting(
        2000,
        "Steps under random actions that tell the scale of the observations.",
        "[2, inf)",
    )
    growth_steps: int | None = setting(
        None,
        "Steps under random actions in which only the codebook grows, at most; by default 10,000, and "
        "60,000 if actions are continuous.",
        "[0, inf)",
    )
    growth_cells: int | None = setting(
        None,
        "Growing alone ends at this many cells; by default 60, and 300 for TwoTimescaleQ with "
        "continuous actions, but not more than max_cells.",
        "[1, inf)",
    )
    observation_scale: tuple[float, ...] | None = setting(
        None,
        "A large change of each coordinate of an observation, in its own units; learned if not given.",
        "(0, inf)",
        group="Distances",
    )
    cooling: float = setting(
        0.8, "Factor from one temperature to the next.", "(0, 1)", group="Annealing, the slow timescale"
    )
    min_temperature: float = setting(
        1e-4, "The last temperature, as a fraction of the first critical one.", "(0, 1]"
    )
    samples_per_cell: int | None = setting(
        None, "Slow updates per cell at each temperature; by default 30, and 10 on a tree.", "[1, inf)"
    )
    slow_every: float = setting(
        4.0, "Environment steps between slow updates when learning begins.", "[1, inf]"
    )
    slow_doubling: float = setting(
        20_000.0,
        "Steps after which the slow updates have become half as frequent, and so on.",
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
        "The slow stepsize is divided by this power of the frequency of visits; 0 follows the visits.",
        "[0, 2]",
    )
    tol_merge: float = setting(
        0.3, "Cells closer than the square root of this times the temperature are one.", "[0, inf]"
    )
    min_weight: float = setting(1e-5, "Lighter cells are pruned.", "[0, 1]")
    perturbation: float = setting(
        0.5,
        "Half the way between the children of a split, in standard deviations of the cell.",
        "(0, inf)",
    )
    bifurcation: Literal["critical", "perturb"] = setting(
        "critical",
        "Split below a cell's critical temperature, or double all cells and merge those that stay.",
    )

    def _check_together(self) -> None:
        if self.max_cells is not None and self.max_cells < (self.growth_cells or 0):
            raise ValueError(
                f"max_cells must be at least growth_cells, got {self.max_cells} < {self.growth_cells}."
            )
        if self.tree and self.bifurcation != "critical":
            raise ValueError(f"tree=True needs bifurcation='critical', got {self.bifurcation!r}.")
        if self.near_branches is not None and not self.tree:
            raise ValueError(f"near_branches={self.near_branches!r} needs tree=True.")

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

    def find_trace_decay(self, table: bool) -> float:
        """Lambda, which may depend on whether there is a table of states."""
        return self.trace_decay

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

    trace_decay: float | None = setting(  # type: ignore[assignment]
        None,
        "Lambda of the eligibility traces, how far back an error reaches: by default 0.9, and 0 in a "
        "table of states, where too much is tried for traces to last.",
        "[0, 1]",
    )
    codebook: Literal["shared", "per_action"] = setting(
        "shared",
        "One codebook whose cells have a value for each action, or a codebook for each action.",
        group="Pairs of observations and actions",
    )
    action_weight: float = setting(
        0.1,
        "Half the range of a continuous action, in units of the scaled observations: how much actions "
        "count in the distance between pairs.",
        "(0, inf]",
    )
    learning_rate_by: Literal["cell", "global"] = setting(
        "cell",
        "Count the visits of each cell and action, or the average over all.",
        group="Stepsizes",
    )
    optimism: float = setting(
        1.0,
        "Q values start at this share of the largest reward for ever, or at 0 if no reward is positive.",
        "[0, inf)",
        group="Exploration",
    )
    exploration_initial_eps: float = setting(
        0.1,
        "Share of random actions when learning begins; a table of states goes where it has been least "
        "instead.",
        "[0, 1]",
    )
    exploration_final_eps: float = setting(0.01, "Share of random actions at the end.", "[0, 1]")
    exploration_fraction: float = setting(0.1, "Fraction of the run over which it falls.", "[0, 1]")
    hold: int = setting(
        2, "While values are learned, a random action is held for 1 to this many steps.", "[1, inf)"
    )

    growth_fraction: float = setting(
        0.2, "Growing alone ends at this fraction of the run at the latest.", "[0, 1]"
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.tree and self.codebook != "shared":
            raise ValueError(f"tree=True needs codebook='shared', got {self.codebook!r}.")

    def find_trace_decay(self, table: bool) -> float:
        """Lambda; the default depends on whether there is a table of states."""
        usual = 0.0 if table else 0.9
        return usual if self.trace_decay is None else self.trace_decay


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

    # Fixed values: all actions share one codebook, and are drawn from the actor's probabilities.
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
        "Random actions at first, and those of a lost actor, are held for 1 to this many steps.",
        "[1, inf)",
        group="Before anything is learned",
    )
    warmup_steps: int = setting(
        3000,
        "Steps under random actions that tell the scale of the observations, and by which the codebook "
        "grows; more where no reward differs from the others (which does not count where actions are "
        "continuous), and no episode comes to its end.",
        "[2, inf)",
    )
    growth_steps: int = setting(
        10_000,
        "Updates of the codebook by the observations of the warm-up, again and again, at most.",
        "[0, inf)",
    )
    softness: float = with_default(TwoTimescaleConfig, "softness", 4.0)
    learning_rate_halving: float = with_default(TwoTimescaleConfig, "learning_rate_halving", 3000.0)
    actor_rate: float | None = setting(
        None,
        "Stepsize of the actor, in those of the critic; it moves by errors in units of their mean size. "
        "By default 1, of an action of n parts 1 / n, and 0.5 if actions are continuous.",
        "[0, 1000]",
        group="The actor",
    )


CodebookConfig = TwoTimescaleConfig | TwoTimescaleACConfig


@dataclass(frozen=True)
class GrowthPlan:
    """Limits on the growth of a codebook: `steps` and `cells` of growing alone, and `max_cells` overall.

    `samples` is the number of slow updates per cell at each temperature.
    """

    steps: int
    cells: int
    max_cells: int
    samples: int


# With continuous actions, cells added late to a codebook of pairs disturb what was learned.
GROWTH = GrowthPlan(steps=10_000, cells=60, max_cells=125, samples=30)
JOINT_GROWTH = GrowthPlan(steps=60_000, cells=300, max_cells=300, samples=30)
# A tree has many cells: with 30 samples for each, they would be added too late to be of use.
TREE_CELLS, TREE_SAMPLES = 1000, 10
# Cells of pairs in a branch differ also in actions: it takes more branches for as many observations.
NEAR_BRANCHES, JOINT_NEAR_BRANCHES = 3, 4
GAMMA_HALVING = 50_000.0
# Preferences of a Beta distribution change a policy more than those of discrete actions.
ACTOR_RATE, CONTINUOUS_ACTOR_RATE = 1.0, 0.5
