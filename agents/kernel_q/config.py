"""The hyperparameters of kernel Q-learning."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from oda_rl.agents.config import check_ranges
from oda_rl.rkhs.functional_sgd import SQUARED
from oda_rl.rkhs.hyperparameters import Rules

_INFINITY = float("inf")
_TINY = 1e-12


@dataclass(frozen=True)
class KernelQConfig:
    """Hyperparameters of `KernelQ`; each is a keyword argument of it.

    The defaults were chosen by trials on CartPole with seeds 100 to 103.

    Raises
    ------
    ValueError
        If a value is outside its range; the message names the field, the value and the range.
    """

    gamma: float = 0.98
    """Discount factor, in [0, 1)."""
    bandwidth: float = 0.3
    """Of the Gaussian kernel, in parts of the ranges of the coordinates; the first one, if it adapts."""
    adapt_bandwidth: bool = True
    """Whether the bandwidth moves, following the derivative of the temporal-difference error."""
    move_probability: float = 1.0
    """Probability that a move goes where the error falls, and not the other way. The paper has 0.9; here
    a wrong move costs more than it tells."""
    slowing: float = 0.2
    """A move is considered after this share of all steps so far."""
    ratio: float = 1.15
    """Of neighbours in the set of bandwidths."""
    reach: float = 3.0
    """The set reaches from the first bandwidth divided by this to that times this. Where all values are
    about the same, as before a first reward, the error alone would widen the kernel for ever."""
    stepsize: float = 1.5
    """Of the mean gradient of a mini-batch. Below 2 it never overshoots; the less alike the observations
    of a mini-batch are, the larger it may be."""
    stepsize_halving: float | None = None
    """The stepsize falls as 1 / (1 + n / this), n the steps; if not given it is constant."""
    regularization: float = 1e-6
    """Lambda: how the norm of the values counts."""
    batch_size: int = 16
    """Steps of a mini-batch: after so many the values are learned."""
    parsimony: float = 0.02
    """K of the budget K stepsize^(3/2) within which points are dropped."""
    max_points: int = 300
    """The dictionary never has more points."""
    exploration_initial_eps: float = 0.3
    """Share of random actions when learning begins."""
    exploration_final_eps: float = 0.02
    """Share of random actions at the end."""
    exploration_fraction: float = 0.5
    """Fraction of the run over which the share of random actions falls."""
    hold: int = 1
    """A random action is held for 1 to this many steps."""
    observation_low: tuple[float, ...] | None = None
    """Lower ends of what counts as the range of each coordinate of an observation, in its own units; an
    infinite one, or all if not given, are the space's, or learned in the warm-up where that has none."""
    observation_high: tuple[float, ...] | None = None
    """Upper ends; see observation_low."""
    warmup_steps: int = 1000
    """Steps under random actions that tell the range of coordinates without bounds."""
    warmup_hold: int = 10
    """In the warm-up a random action is held for 1 to this many steps."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "gamma": (0.0, 1.0 - _TINY),
        "bandwidth": (1e-6, 1e6),
        "move_probability": (0.5, 1.0),
        "slowing": (0.0, 1e6),
        "ratio": (1.001, 10.0),
        "reach": (1.0, 1e6),
        "stepsize": (_TINY, 1e6),
        "stepsize_halving": (_TINY, 1e300),
        "regularization": (0.0, 1e6),
        "batch_size": (1, 1e6),
        "parsimony": (0.0, 1e6),
        "max_points": (1, 1e6),
        "exploration_initial_eps": (0.0, 1.0),
        "exploration_final_eps": (0.0, 1.0),
        "exploration_fraction": (0.0, 1.0),
        "hold": (1, _INFINITY),
        "warmup_steps": (2, _INFINITY),
        "warmup_hold": (1, _INFINITY),
    }

    def __post_init__(self) -> None:
        for name in ("observation_low", "observation_high"):
            if getattr(self, name) is not None:  # JSON has lists
                object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))
        check_ranges(self, self.ranges)
        if not isinstance(self.adapt_bandwidth, bool):
            raise ValueError(f"adapt_bandwidth must be True or False, got {self.adapt_bandwidth!r}.")
        if not self.stepsize * self.regularization < 1.0:
            raise ValueError(
                "stepsize times regularization must be below 1, got "
                f"{self.stepsize} and {self.regularization}."
            )

    def rules(self) -> Rules:
        """What the kernel machine goes by."""
        return Rules(
            kind=SQUARED,
            bandwidth=self.bandwidth,
            stepsize=self.stepsize,
            regularization=self.regularization,
            batch_size=int(self.batch_size),
            parsimony=self.parsimony,
            stepsize_halving=self.stepsize_halving,
            adapt=("bandwidth",) if self.adapt_bandwidth else (),
            fitness="loss",
            ratio=self.ratio,
            reach=self.reach,
            move_probability=self.move_probability,
            slowing=self.slowing,
            max_points=int(self.max_points),
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return asdict(self)
