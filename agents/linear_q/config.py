"""The hyperparameters of the baselines, and presets for the classic tasks.

The defaults were chosen by trials on CartPole, MountainCar and Acrobot with seeds 100 to 111.
"""

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym

from oda_rl.agents.hyperparameters import documented, setting, with_default
from oda_rl.agents.range_config import RangeConfig


@documented
@dataclass(frozen=True)
class LinearConfig(RangeConfig):
    """Hyperparameters that all baselines share; each is a keyword argument of them."""

    fixed = RangeConfig.fixed | frozenset(
        ["angles", "learning_rate_by", "bins", "n_cells", "tilings", "tiles", "order", "coupled"]
    )
    fixed_by_learning = RangeConfig.fixed_by_learning | frozenset(["initial_value"])

    trace_decay: float = setting(
        0.9,
        "Lambda of the eligibility traces: how far back errors are propagated.",
        "[0, 1]",
        group="Value learning",
    )
    update: Literal["sarsa", "watkins"] = setting(
        "sarsa",
        "Sarsa(lambda) learns the values of the behaviour policy, Watkins' Q(lambda) those of the "
        "greedy policy.",
    )
    learning_rate: float = setting(
        0.1, "Initial stepsize: the fraction of its error by which a value is corrected.", "(0, 1]"
    )
    learning_rate_min: float = setting(
        0.01,
        "Final stepsize at the end of the decay, or its lower bound if it decays with the visits.",
        "[0, 1]",
    )
    learning_rate_fraction: float = setting(
        1.0, "Fraction of the run over which the stepsize decays linearly.", "[0, 1]"
    )
    initial_value: float | None = setting(
        None,
        "Initial value of all actions. By default the discounted return of the largest reward of "
        "the warm-up received at every step, or 0 if no reward was positive. Values above the "
        "achievable return encourage exploration.",
        "[-1e12, 1e12]",
    )
    angles: tuple[tuple[int, int], ...] = setting(
        (),
        "Pairs of indices of coordinates that are the cosine and the sine of an angle. The angle "
        "replaces them, and follows the other coordinates.",
        "[0, inf)",
    )

    def _check_together(self) -> None:
        super()._check_together()
        used = [i for pair in self.angles for i in pair]
        if len(set(used)) < len(used):
            raise ValueError(
                f"angles must be pairs of indices of coordinates, all different, got {self.angles}."
            )


@documented
@dataclass(frozen=True)
class SparseConfig(LinearConfig):
    """Hyperparameters of the baselines that have a few active features at a time."""

    traces: Literal["replacing", "clearing", "accumulating"] = setting(
        "replacing",
        "At a visit, a trace is set to 1 (replacing), set to 1 while those of the other actions "
        "are set to 0 (clearing), or increased by 1 (accumulating).",
        group="Traces and stepsizes",
    )
    learning_rate_by: Literal["run", "visits"] = setting(
        "run", "Whether the stepsize decays linearly over the run, or for each weight with its visits."
    )
    learning_rate_halving: float = setting(
        100.0,
        "With learning_rate_by='visits', the stepsize decays as (1 + visits / "
        "learning_rate_halving)^-learning_rate_power, down to learning_rate_min.",
        "[1, inf]",
    )
    learning_rate_power: float = setting(0.8, "Exponent of this decay.", "[0, 1]")


@documented
@dataclass(frozen=True)
class UniformGridConfig(SparseConfig):
    """Hyperparameters of `UniformGridQ`; each is a keyword argument of it."""

    update: Literal["sarsa", "watkins"] = with_default(LinearConfig, "update", "watkins")
    hold: int = with_default(LinearConfig, "hold", 5)
    bins: int | tuple[int, ...] | None = setting(
        None,
        "Number of bins along every coordinate, or along each of them. By default up to 12, with "
        "at most 700 cells in total.",
        "[1, inf)",
        group="Grid",
    )


@documented
@dataclass(frozen=True)
class SOMConfig(SparseConfig):
    """Hyperparameters of `SOMQ`; each is a keyword argument of it."""

    update: Literal["sarsa", "watkins"] = with_default(LinearConfig, "update", "watkins")
    hold: int = with_default(LinearConfig, "hold", 5)
    n_cells: int | tuple[int, ...] = setting(
        144,
        "Maximum number of cells, or the sides of the lattice. A lattice with a side for each "
        "coordinate, as a single number makes it, starts as a uniform grid; any other starts in "
        "random order.",
        "[1, inf)",
        group="Map",
    )
    map_steps: int = setting(
        0,
        "Steps of random actions in which only the map learns and unfolds; not necessary if it "
        "starts as a uniform grid.",
        "[0, inf)",
    )
    map_every: int = setting(
        4, "Steps between updates of the map, which learns more slowly than the values.", "[1, inf)"
    )
    map_rate: float = setting(0.5, "Stepsize of the map at the start of map_steps.", "(0, 1]")
    map_rate_final: float = setting(
        0.005, "Stepsize of the map at the end of map_steps; it then decays linearly to 0.", "(0, 1]"
    )
    map_fraction: float = setting(
        0.5, "Fraction of the run over which the stepsize of the map decays to 0.", "[0, 1]"
    )
    map_radius: float | None = setting(
        None,
        "Radius of the neighbourhood at the start of map_steps, in steps of the lattice. By "
        "default half the longest side of the lattice.",
        "[0.01, inf]",
    )
    map_radius_final: float = setting(
        0.5, "Radius of the neighbourhood at the end of map_steps and afterwards.", "[0.01, inf]"
    )


@documented
@dataclass(frozen=True)
class TileCodingConfig(SparseConfig):
    """Hyperparameters of `TileCodingSarsa`; each is a keyword argument of it."""

    learning_rate: float = with_default(LinearConfig, "learning_rate", 0.3)
    learning_rate_min: float = with_default(LinearConfig, "learning_rate_min", 0.001)
    tilings: int = setting(
        8, "Number of tilings, each displaced against the others.", "[1, 1024]", group="Tiles"
    )
    tiles: int | tuple[int, ...] | None = setting(
        None,
        "Number of tiles of a tiling along every coordinate, or along each of them. By default up "
        "to 10, with at most 100,000 tiles in total.",
        "[1, inf)",
    )


@documented
@dataclass(frozen=True)
class FourierConfig(LinearConfig):
    """Hyperparameters of `FourierSarsa`; each is a keyword argument of it."""

    learning_rate: float = with_default(LinearConfig, "learning_rate", 0.01)
    learning_rate_min: float = with_default(LinearConfig, "learning_rate_min", 0.001)
    order: int = setting(
        3,
        "Order of the basis: the maximum number of half waves over the range of a coordinate.",
        "[1, 100]",
        group="Basis",
    )
    coupled: int | None = setting(
        None,
        "Maximum number of coordinates that a basis function depends on. By default as many as "
        "give no more than 1000 functions.",
        "[1, inf)",
    )


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
        "Bandwidth of the Gaussian kernel, as a fraction of the range of each coordinate; the "
        "initial one if adapt_bandwidth=True.",
        "[1e-6, 1e6]",
        group="Kernel",
    )
    adapt_bandwidth: bool = setting(
        True, "Whether the bandwidth adapts, following the derivative of the temporal-difference error."
    )
    move_probability: float = setting(
        0.9,
        "Probability that a change of the bandwidth goes in the direction in which the error "
        "falls instead of the opposite one.",
        "[0.5, 1]",
    )
    slowing: float = setting(
        0.2,
        "A change of the bandwidth is considered whenever this fraction of all steps so far "
        "has passed since the last time.",
        "[0, 1e6]",
    )
    ratio: float = setting(1.15, "Ratio of neighbouring values in the set of bandwidths.", "[1.001, 10]")
    reach: float = setting(
        3.0,
        "The set of bandwidths reaches from bandwidth / reach to bandwidth * reach. Where all "
        "values are about the same, as before a first reward, the error alone would widen the "
        "kernel without limit.",
        "[1, 1e6]",
    )
    stepsize: float = setting(
        1.5,
        "Stepsize of the mean gradient of a mini-batch. Below 2 it never overshoots; it can be "
        "larger if the observations of a mini-batch differ much.",
        "(0, 1e6]",
        group="Value learning",
    )
    stepsize_halving: float | None = setting(
        None,
        "The stepsize decays as 1 / (1 + n / stepsize_halving) after n steps. None keeps it constant.",
        "(0, 1e300]",
    )
    regularization: float = setting(
        1e-6, "Weight lambda of the regularisation by the norm of the value function.", "[0, 1e6]"
    )
    batch_size: int = setting(
        16, "Number of steps in a mini-batch, after which values are updated.", "[1, 10000]"
    )
    parsimony: float = setting(
        0.02,
        "After each mini-batch, points are dropped as long as the value function changes by "
        "no more than parsimony * stepsize^(3/2) in the norm of the space.",
        "[0, 1e6]",
    )
    max_points: int = setting(300, "Maximum number of points in the dictionary.", "[1, 1000000]")

    def _check_together(self) -> None:
        super()._check_together()
        if not self.stepsize * self.regularization < 1.0:
            raise ValueError(
                f"stepsize * regularization must be below 1, got stepsize={self.stepsize} and "
                f"regularization={self.regularization}."
            )


# Found by short searches on seeds 100 to 111. The ranges of CartPole are those of the states in which
# the pole can still be balanced. Acrobot is described by angles instead of their cosines and sines,
# except for the Fourier basis.
_CART_POLE: dict[str, Any] = {
    "observation_low": (-2.4, -3.0, -0.2095, -3.5),
    "observation_high": (2.4, 3.0, 0.2095, 3.5),
    "warmup_steps": 100,
}
_ACROBOT: dict[str, Any] = {"angles": ((0, 1), (2, 3))}

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "CartPole": {
        "UniformGridQ": {"bins": (2, 2, 5, 5), **_CART_POLE},
        "SOMQ": {"n_cells": (2, 2, 5, 5), "gamma": 0.995, **_CART_POLE},
        "TileCodingSarsa": {"tiles": (3, 3, 6, 6), "learning_rate": 0.5, **_CART_POLE},
        "FourierSarsa": {"order": 3, **_CART_POLE},
        "KernelQ": {"stepsize": 8.0, **_CART_POLE},
    },
    "MountainCar": {
        "UniformGridQ": {"bins": 12},
        "SOMQ": {"n_cells": (12, 12)},
        "TileCodingSarsa": {
            "tiles": 10,
            "gamma": 0.995,
            "trace_decay": 0.95,
            "traces": "clearing",
            "learning_rate": 0.8,
            "learning_rate_min": 0.08,
            "exploration_initial_eps": 0.0,
        },
        "FourierSarsa": {"order": 5},
    },
    "Acrobot": {
        "UniformGridQ": {"bins": (4, 4, 3, 3), "update": "sarsa", "hold": 1, **_ACROBOT},
        "SOMQ": {"n_cells": (4, 4, 3, 3), "update": "sarsa", **_ACROBOT},
        "TileCodingSarsa": {"tiles": 6, **_ACROBOT},
        "FourierSarsa": {"order": 4},
    },
}
"""By name of the environment, without namespace, version and "Friction", and name of the algorithm."""


def preset(algorithm: str, env_id: str) -> dict[str, Any]:
    """The preset for an environment, of any version and namespace, as keyword arguments.

    Empty if there is no preset: the defaults then apply.

    >>> preset("FourierSarsa", "oda_rl/MountainCar-v0")
    {'order': 5}
    """
    name = gym.envs.registration.parse_env_id(env_id)[1].removesuffix("Friction")
    return dict(PRESETS.get(name, {}).get(algorithm, {}))
