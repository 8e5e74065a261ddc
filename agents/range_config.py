"""Hyperparameters shared by the baselines and the kernel learner."""

from dataclasses import dataclass
from operator import ge

from oda_rl.agents.hyperparameters import Config, documented, setting


@documented
@dataclass(frozen=True)
class RangeConfig(Config):
    """Hyperparameters of the learners that scale observations by their ranges.

    Raises
    ------
    ValueError
        If a value is not accepted; the message names the field, the value and what is accepted.
    """

    fixed = frozenset(["observation_low", "observation_high", "warmup_steps"])
    fixed_by_learning = frozenset(["warmup_hold"])

    gamma: float = setting(0.99, "Discount factor.", "[0, 1)", group="Objective")
    exploration_initial_eps: float = setting(
        0.1, "Fraction of random actions when learning begins.", "[0, 1]", group="Exploration"
    )
    exploration_final_eps: float = setting(0.0, "Final fraction of random actions.", "[0, 1]")
    exploration_fraction: float = setting(
        0.5, "Fraction of the run over which the fraction of random actions decays.", "[0, 1]"
    )
    hold: int = setting(1, "Each random action is repeated for 1 to hold steps.", "[1, inf)")
    observation_low: tuple[float, ...] | None = setting(
        None,
        "Lower end of the range of each coordinate of an observation, in its own units. If None "
        "or infinite, the lower bound of the observation space or, without one, the lowest value "
        "of the warm-up.",
        "[-inf, inf]",
        group="Observations",
    )
    observation_high: tuple[float, ...] | None = setting(
        None, "Upper end of the range of each coordinate; see observation_low.", "[-inf, inf]"
    )
    warmup_steps: int = setting(
        1000,
        "Warm-up: steps of random actions from which the size of rewards and the ranges of unbounded "
        "coordinates are estimated.",
        "[2, inf)",
    )
    warmup_hold: int = setting(
        10, "In the warm-up, each random action is repeated for 1 to warmup_hold steps.", "[1, inf)"
    )

    def _check_together(self) -> None:
        low, high = self.observation_low or (), self.observation_high or ()
        if len(low) == len(high) and any(map(ge, low, high)):
            raise ValueError(
                "observation_low must be below observation_high in each coordinate, "
                f"got {low} and {high}."
            )
