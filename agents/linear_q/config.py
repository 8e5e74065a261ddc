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
        0.9, "Lambda: how far back an error reaches.", "[0, 1]", group="Learning values"
    )
    update: Literal["sarsa", "watkins"] = setting(
        "sarsa",
        "Sarsa(lambda) learns the value of its own behaviour, Watkins' Q(lambda) that of the greedy "
        "one.",
    )
    learning_rate: float = setting(
        0.1, "Share of its error that a value is corrected by at a first visit.", "(0, 1]"
    )
    learning_rate_min: float = setting(
        0.01,
        "The stepsize at the end of the run, or the least one if it falls with the visits.",
        "[0, 1]",
    )
    learning_rate_fraction: float = setting(
        1.0, "Fraction of the run over which the stepsize falls along a line.", "[0, 1]"
    )
    initial_value: float | None = setting(
        None,
        "All values at the beginning; if not given, the largest reward of the warm-up for ever, or 0 "
        "if none is positive. What is more than can be earned makes the agent explore.",
        "[-1e12, 1e12]",
    )
    angles: tuple[tuple[int, int], ...] = setting(
        (),
        "Pairs of coordinates that are the cosine and the sine of an angle, counted from 0. The angle "
        "takes their place, after the other coordinates.",
        "[0, inf)",
    )

    def _check_together(self) -> None:
        super()._check_together()
        used = [i for pair in self.angles for i in pair]
        if len(set(used)) < len(used):
            raise ValueError(
                f"angles must be pairs of different coordinates, counted from 0; got {self.angles}."
            )


@documented
@dataclass(frozen=True)
class SparseConfig(LinearConfig):
    """Hyperparameters of the baselines that have a few active features at a time."""

    traces: Literal["replacing", "clearing", "accumulating"] = setting(
        "replacing",
        "A trace is set to 1 at each visit; so it is, and those of the other actions to 0; or it is "
        "raised by 1.",
        group="Traces and stepsizes of weights",
    )
    learning_rate_by: Literal["run", "visits"] = setting(
        "run", "The stepsize falls along a line over the run, or for each weight with its visits."
    )
    learning_rate_halving: float = setting(
        100.0,
        "By visits, the stepsize falls as (1 + visits / this)^-power, down to learning_rate_min.",
        "[1, inf]",
    )
    learning_rate_power: float = setting(0.8, "Power of that fall.", "[0, 1]")


@documented
@dataclass(frozen=True)
class UniformGridConfig(SparseConfig):
    """Hyperparameters of `UniformGridQ`; each is a keyword argument of it."""

    update: Literal["sarsa", "watkins"] = with_default(LinearConfig, "update", "watkins")
    hold: int = with_default(LinearConfig, "hold", 5)
    bins: int | tuple[int, ...] | None = setting(
        None,
        "Bins of every coordinate, or of each; if not given, up to 12 with 700 cells at most.",
        "[1, inf)",
        group="The grid",
    )


@documented
@dataclass(frozen=True)
class SOMConfig(SparseConfig):
    """Hyperparameters of `SOMQ`; each is a keyword argument of it."""

    update: Literal["sarsa", "watkins"] = with_default(LinearConfig, "update", "watkins")
    hold: int = with_default(LinearConfig, "hold", 5)
    n_cells: int | tuple[int, ...] = setting(
        144,
        "Cells at most, or the counts along each side of the lattice. A lattice with as many sides as "
        "there are coordinates, which one number makes, begins as a uniform grid; another one in "
        "disorder.",
        "[1, inf)",
        group="The map",
    )
    map_steps: int = setting(
        0,
        "Steps under random actions in which only the map learns, and unfolds; a uniform grid need not.",
        "[0, inf)",
    )
    map_every: int = setting(
        4, "Steps from one update of the map to the next: it is slower than the values.", "[1, inf)"
    )
    map_rate: float = setting(0.5, "Stepsize of the map when it begins to unfold.", "(0, 1]")
    map_rate_final: float = setting(
        0.005, "Stepsize of the map when it has; from there it falls to 0.", "(0, 1]"
    )
    map_fraction: float = setting(0.5, "Fraction of the run over which it does.", "[0, 1]")
    map_radius: float | None = setting(
        None,
        "Radius of the neighbourhood in steps of the lattice at the beginning; half of its longest "
        "side if not given.",
        "[0.01, inf]",
    )
    map_radius_final: float = setting(
        0.5, "Radius of the neighbourhood when the map has unfolded, and from there on.", "[0.01, inf]"
    )


@documented
@dataclass(frozen=True)
class TileCodingConfig(SparseConfig):
    """Hyperparameters of `TileCodingSarsa`; each is a keyword argument of it."""

    learning_rate: float = with_default(LinearConfig, "learning_rate", 0.3)
    learning_rate_min: float = with_default(LinearConfig, "learning_rate_min", 0.001)
    tilings: int = setting(
        8, "Tilings, each displaced against the others.", "[1, 1024]", group="The tiles"
    )
    tiles: int | tuple[int, ...] | None = setting(
        None,
        "Tiles of a tiling along every coordinate, or along each; if not given, up to 10 with 100,000 "
        "tiles at most.",
        "[1, inf)",
    )


@documented
@dataclass(frozen=True)
class FourierConfig(LinearConfig):
    """Hyperparameters of `FourierSarsa`; each is a keyword argument of it."""

    learning_rate: float = with_default(LinearConfig, "learning_rate", 0.01)
    learning_rate_min: float = with_default(LinearConfig, "learning_rate_min", 0.001)
    order: int = setting(
        3, "Half waves over the range of a coordinate, at most.", "[1, 100]", group="The basis"
    )
    coupled: int | None = setting(
        None,
        "Coordinates that one function of the basis depends on, at most; if not given, as many as give "
        "no more than 1000 functions.",
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
