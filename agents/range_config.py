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

    gamma: float = setting(0.99, "Discount factor.", "[0, 1)", group="What is maximised")
    exploration_initial_eps: float = setting(
        0.1, "Share of random actions when learning begins.", "[0, 1]", group="Exploration"
    )
    exploration_final_eps: float = setting(0.0, "Share of random actions at the end.", "[0, 1]")
    exploration_fraction: float = setting(
        0.5, "Fraction of the run over which the share of random actions falls.", "[0, 1]"
    )
    hold: int = setting(1, "A random action is held for 1 to this many steps.", "[1, inf)")
    observation_low: tuple[float, ...] | None = setting(
        None,
        "Lower ends of what counts as the range of each coordinate of an observation, in its own "
        "units; an infinite one, or all if not given, are the space's, or learned in the warm-up where "
        "that has none.",
        "[-inf, inf]",
        group="Observations",
    )
    observation_high: tuple[float, ...] | None = setting(
        None, "Upper ends; see observation_low.", "[-inf, inf]"
    )
    warmup_steps: int = setting(
        1000,
        "Steps under random actions that tell the rewards, and the range of coordinates without bounds.",
        "[2, inf)",
    )
    warmup_hold: int = setting(
        10, "In the warm-up a random action is held for 1 to this many steps.", "[1, inf)"
    )

    def _check_together(self) -> None:
        low, high = self.observation_low or (), self.observation_high or ()
        if len(low) == len(high) and any(map(ge, low, high)):
            raise ValueError(
                "observation_low must be below observation_high in each coordinate, "
                f"got {low} and {high}."
            )
