"""The hyperparameters of the agents, as the command line and the model file know them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class TwoTimescaleConfig:
    """Hyperparameters of `TwoTimescaleQ`; each is a keyword argument of it.

    The defaults were chosen by trials on CartPole, MountainCar, Acrobot and Pendulum, seeds from 100.

    Notes
    -----
    The fast stepsize alpha falls as the power `learning_rate_power` of the visits, down to
    `learning_rate_min`. The slow one, beta, is 1 / (slow_a K + slow_b n) at the n-th update of a
    temperature, and updates become rarer: their n grows with the logarithm of time. So per step of the
    environment beta falls as 1 / (t log t), and beta / alpha tends to 0 for every power below 1 (the
    condition of Theorem 6 of the paper that `TwoTimescaleQ` names).

    - *Decaying*, for convergence: a power in (0.5, 1) and `learning_rate_min=0`; the stepsizes' sum is
      infinite, that of their squares is not.
    - *Constant*, to follow a task that changes: `learning_rate_power=0`, `slow_b=0`, and a large
      `slow_doubling`; `slow_every` then sets the ratio of the two timescales.

    Raises
    ------
    ValueError
        If a value is outside its range; the message names the field, the value and the range.
    """

    gamma: float = 0.99
    """Discount factor, in [0, 1)."""
    criterion: Literal["discounted", "average"] = "discounted"
    """Maximise the discounted sum of rewards, or, for tasks that never end, their average over time."""
    average_rate: float = 0.001
    """Stepsize of the average reward, if that is the criterion."""
    minimise: bool = False
    """Take what the environment returns as a cost."""
    trace_decay: float = 0.9
    """Lambda of Watkins' Q(lambda): how far back an error reaches, in [0, 1]."""
    codebook: Literal["shared", "per_action"] = "shared"
    """One codebook whose cells have a value for each action, or a codebook for each action."""
    tree: bool = False
    """Divide the codebook into branches of at most 16 cells, and look at the nearest ones only: for
    hundreds of cells and more. With a shared codebook and critical bifurcations."""
    near_branches: int | None = None
    """On a tree, the branches that an observation looks at, at most; by default 3, and 4 if actions are
    continuous."""
    local_model: Literal["constant", "linear"] = "linear"
    """The value of an action in a cell: a number, or a linear function of the observation."""
    softness: float = 2.0
    """Aggregate states overlap as the association probabilities at this multiple of the annealing
    temperature; 0 takes the nearest cell alone."""
    learning_rate: float = 0.1
    """Fast stepsize at the first visit, in (0, 1]."""
    learning_rate_min: float = 0.003
    """The fast stepsize never falls below this."""
    learning_rate_halving: float = 100.0
    """The fast stepsize falls as (1 + visits / this)^-power."""
    learning_rate_power: float = 0.8
    """Power of that fall, in [0, 1]; 0 keeps it constant."""
    learning_rate_by: Literal["cell", "global"] = "cell"
    """Count the visits of each cell and action, or the average over all."""
    optimism: float = 1.0
    """Q values start at this share of the largest reward for ever, or at 0 if no reward is positive."""
    exploration_initial_eps: float = 0.1
    """Share of random actions when learning begins."""
    exploration_final_eps: float = 0.01
    """Share of random actions at the end."""
    exploration_fraction: float = 0.1
    """Fraction of the run over which the share of random actions falls."""
    hold: int = 2
    """While values are learned, a random action is held for 1 to this many steps."""
    growth_hold: int = 10
    """While only the codebook grows, a random action is held for 1 to this many steps."""
    warmup_steps: int = 2000
    """Steps under random actions that tell the scale of the observations."""
    growth_steps: int | None = None
    """Steps under random actions in which only the codebook grows, at most; by default 10,000, and
    60,000 if actions are continuous."""
    growth_fraction: float = 0.2
    """Growing alone ends at this fraction of the run at the latest."""
    growth_cells: int | None = None
    """Growing alone ends at this many cells; by default 60, and 300 if actions are continuous, but not
    more than max_cells."""
    max_cells: int | None = None
    """Cells at most; by default 125, and 300 if actions are continuous; 1,000 on a tree."""
    observation_scale: tuple[float, ...] | None = None
    """A large change of each coordinate of an observation, in its own units; learned if not given."""
    action_weight: float = 0.1
    """Half the range of a continuous action, in units of the scaled observations: how much actions count
    in the distance between pairs."""
    cooling: float = 0.8
    """Factor from one temperature to the next, in (0, 1)."""
    min_temperature: float = 1e-4
    """The last temperature, as a fraction of the first critical one."""
    samples_per_cell: int | None = None
    """Slow updates per cell at each temperature; by default 30, and 10 on a tree."""
    slow_every: float = 4.0
    """Environment steps between slow updates when learning begins."""
    slow_doubling: float = 20_000.0
    """Steps after which the slow updates have become half as frequent, and so on."""
    slow_a: float = 5.0
    """The slow stepsize is 1 / (slow_a K + slow_b n) for K cells at update n of a temperature."""
    slow_b: float = 0.3
    """See slow_a."""
    flattening: float = 1.0
    """The slow stepsize is divided by this power of the frequency of visits; 0 follows the visits."""
    tol_merge: float = 0.3
    """Cells closer than the square root of this times the temperature are one."""
    min_weight: float = 1e-5
    """Lighter cells are pruned."""
    perturbation: float = 0.5
    """Half the way between the children of a split, in standard deviations of the cell."""
    bifurcation: Literal["critical", "perturb"] = "critical"
    """Split below a cell's critical temperature, or double all cells and merge those that stay."""

    def __post_init__(self) -> None:
        if self.observation_scale is not None:  # JSON has lists
            object.__setattr__(self, "observation_scale", tuple(self.observation_scale))
        check_ranges(self, _RANGES)
        check_choices(self, _CHOICES)
        scale = self.observation_scale
        if scale is not None and not all(0.0 < number < _INFINITY for number in scale):
            raise ValueError(f"observation_scale must be positive numbers, got {scale}.")
        if self.max_cells is not None and self.max_cells < (self.growth_cells or 0):
            raise ValueError(
                f"max_cells must be at least growth_cells, got {self.max_cells} < {self.growth_cells}."
            )
        self._check_tree()

    def _check_tree(self) -> None:
        """Raise a ValueError if an option does not go with a tree, or goes with nothing else."""
        for name, wanted in (("codebook", "shared"), ("bifurcation", "critical")):
            if self.tree and getattr(self, name) != wanted:
                raise ValueError(f"tree=True needs {name}={wanted!r}, got {getattr(self, name)!r}.")
        if self.near_branches is not None and not self.tree:
            raise ValueError(f"near_branches={self.near_branches!r} needs tree=True.")
        if self.near_branches is not None and self.near_branches != int(self.near_branches):
            raise ValueError(f"near_branches must be a whole number, got {self.near_branches!r}.")

    def plan_growth(self, joint: bool) -> "GrowthPlan":
        """How far the codebook grows, if actions are continuous or not."""
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

    def count_near_branches(self, joint: bool) -> int:
        """The branches that an observation looks at on a tree, if actions are continuous or not."""
        return self.near_branches or (JOINT_NEAR_BRANCHES if joint else NEAR_BRANCHES)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return asdict(self)


@dataclass(frozen=True)
class GrowthPlan:
    """How far a codebook grows: alone for `steps` or until it has so many `cells`, and at all.

    `samples` are the slow updates per cell at each temperature.
    """

    steps: int
    cells: int
    max_cells: int
    samples: int


# Where actions are continuous, cells that come late to a codebook of pairs disturb what was learned.
GROWTH = GrowthPlan(steps=10_000, cells=60, max_cells=125, samples=30)
JOINT_GROWTH = GrowthPlan(steps=60_000, cells=300, max_cells=300, samples=30)
# A tree is for many cells; with as many samples for each, they would come too late to be of use.
TREE_CELLS, TREE_SAMPLES = 1000, 10
# Cells for several actions lie above one another in a branch: more branches have as many observations.
NEAR_BRANCHES, JOINT_NEAR_BRANCHES = 3, 4


def check_ranges(config: Any, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise a ValueError that names the first field which is no number in its range, nor left open."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is None and config.__dataclass_fields__[name].default is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"{name} must be a number from {low} to {high}, got {value!r}.")


def check_choices(config: Any, choices: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise a ValueError that names the first field which is none of its choices."""
    for name, allowed in choices.items():
        if getattr(config, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(config, name)!r}.")


_INFINITY = float("inf")
_TINY = 1e-12
_RANGES: dict[str, tuple[float, float]] = {
    "gamma": (0.0, 1.0 - _TINY),
    "average_rate": (_TINY, 1.0),
    "trace_decay": (0.0, 1.0),
    "softness": (0.0, _INFINITY),
    "learning_rate": (_TINY, 1.0),
    "learning_rate_min": (0.0, 1.0),
    "learning_rate_halving": (1.0, _INFINITY),
    "learning_rate_power": (0.0, 1.0),
    "optimism": (0.0, _INFINITY),
    "exploration_initial_eps": (0.0, 1.0),
    "exploration_final_eps": (0.0, 1.0),
    "exploration_fraction": (0.0, 1.0),
    "hold": (1, _INFINITY),
    "growth_hold": (1, _INFINITY),
    "warmup_steps": (2, _INFINITY),
    "growth_steps": (0, _INFINITY),
    "growth_fraction": (0.0, 1.0),
    "growth_cells": (1, _INFINITY),
    "max_cells": (1, _INFINITY),
    "near_branches": (1, 64),
    "action_weight": (_TINY, _INFINITY),
    "cooling": (_TINY, 1.0 - _TINY),
    "min_temperature": (_TINY, 1.0),
    "samples_per_cell": (1, _INFINITY),
    "slow_every": (1.0, _INFINITY),
    "slow_doubling": (1.0, _INFINITY),
    "slow_a": (1.0, _INFINITY),
    "slow_b": (0.0, _INFINITY),
    "flattening": (0.0, 2.0),
    "tol_merge": (0.0, _INFINITY),
    "min_weight": (0.0, 1.0),
    "perturbation": (_TINY, _INFINITY),
}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "local_model": ("constant", "linear"),
    "criterion": ("discounted", "average"),
    "codebook": ("shared", "per_action"),
    "tree": (False, True),
    "learning_rate_by": ("cell", "global"),
    "bifurcation": ("critical", "perturb"),
}
