"""The hyperparameters of kernel Q-learning."""

from dataclasses import dataclass

from oda_rl.agents.hyperparameters import documented, setting, with_default
from oda_rl.agents.range_config import RangeConfig


@documented
@dataclass(frozen=True)
class KernelQConfig(RangeConfig):
    """Hyperparameters of `KernelQ`; each is a keyword argument of it.

    The defaults were chosen by trials on CartPole with seeds 100 to 103.
    """

    fixed = RangeConfig.fixed | frozenset(  # they are part of the kernel machine
        {"bandwidth", "adapt_bandwidth", "move_probability", "slowing", "ratio", "reach", "stepsize"}
        | {"stepsize_halving", "regularization", "batch_size", "parsimony", "max_points"}
    )

    gamma: float = with_default(RangeConfig, "gamma", 0.98)
    exploration_initial_eps: float = with_default(RangeConfig, "exploration_initial_eps", 0.3)
    exploration_final_eps: float = with_default(RangeConfig, "exploration_final_eps", 0.02)
    bandwidth: float = setting(
        0.3,
        "Of the Gaussian kernel, in parts of the ranges of the coordinates; the first one, if it "
        "adapts.",
        "[1e-6, 1e6]",
        group="The kernel",
    )
    adapt_bandwidth: bool = setting(
        True, "Whether the bandwidth moves, following the derivative of the temporal-difference error."
    )
    move_probability: float = setting(
        0.9,
        "Probability that a move goes where the error falls, and not the other way; 1 for always.",
        "[0.5, 1]",
    )
    slowing: float = setting(
        0.2, "A move is considered after this share of all steps so far.", "[0, 1e6]"
    )
    ratio: float = setting(1.15, "Of neighbours in the set of bandwidths.", "[1.001, 10]")
    reach: float = setting(
        3.0,
        "The set reaches from the first bandwidth divided by this to that times this. Where all values "
        "are about the same, as before a first reward, the error alone would widen the kernel for "
        "ever.",
        "[1, 1e6]",
    )
    stepsize: float = setting(
        1.5,
        "Of the mean gradient of a mini-batch. Below 2 it never overshoots; the less alike the "
        "observations of a mini-batch are, the larger it may be.",
        "(0, 1e6]",
        group="Learning values",
    )
    stepsize_halving: float | None = setting(
        None,
        "The stepsize falls as 1 / (1 + n / this), n the steps; if not given it is constant.",
        "(0, 1e300]",
    )
    regularization: float = setting(1e-6, "Lambda: how the norm of the values counts.", "[0, 1e6]")
    batch_size: int = setting(
        16, "Steps of a mini-batch: after so many the values are learned.", "[1, 1000000]"
    )
    parsimony: float = setting(
        0.02, "K of the budget K stepsize^(3/2) within which points are dropped.", "[0, 1e6]"
    )
    max_points: int = setting(300, "The dictionary never has more points.", "[1, 1000000]")

    def _check_together(self) -> None:
        super()._check_together()
        if not self.stepsize * self.regularization < 1.0:
            raise ValueError(
                "stepsize times regularization must be below 1, got "
                f"{self.stepsize} and {self.regularization}."
            )
