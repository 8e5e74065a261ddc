"""The hyperparameters of the baselines.

The defaults were chosen by trials on CartPole, MountainCar and Acrobot with seeds 100 to 111.
"""

from dataclasses import asdict, dataclass
from operator import ge
from typing import Any, ClassVar, Literal

from oda_rl.agents.config import check_choices, check_ranges

_INFINITY = float("inf")
_TINY = 1e-12


@dataclass(frozen=True)
class LinearConfig:
    """Hyperparameters that all baselines share; each is a keyword argument of them.

    Raises
    ------
    ValueError
        If a value is outside its range; the message names the field, the value and the range.
    """

    gamma: float = 0.99
    """Discount factor, in [0, 1)."""
    trace_decay: float = 0.9
    """Lambda: how far back an error reaches, in [0, 1]."""
    update: Literal["sarsa", "watkins"] = "sarsa"
    """Sarsa(lambda) learns the value of its own behaviour, Watkins' Q(lambda) that of the greedy one."""
    learning_rate: float = 0.1
    """Share of its error that a value is corrected by at a first visit, in (0, 1]."""
    learning_rate_min: float = 0.01
    """The stepsize at the end of the run, or the least one if it falls with the visits."""
    learning_rate_fraction: float = 1.0
    """Fraction of the run over which the stepsize falls along a line."""
    initial_value: float | None = None
    """All values at the beginning; if not given, the largest reward of the warm-up for ever, or 0 if
    none is positive. What is more than can be earned makes the agent explore."""
    exploration_initial_eps: float = 0.1
    """Share of random actions when learning begins."""
    exploration_final_eps: float = 0.0
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
    angles: tuple[tuple[int, int], ...] = ()
    """Pairs of coordinates that are the cosine and the sine of an angle, counted from 0. The angle takes
    their place, after the other coordinates."""
    warmup_steps: int = 1000
    """Steps under random actions that tell the rewards, and the range of coordinates without bounds."""
    warmup_hold: int = 10
    """In the warm-up a random action is held for 1 to this many steps."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "gamma": (0.0, 1.0 - _TINY),
        "trace_decay": (0.0, 1.0),
        "learning_rate": (_TINY, 1.0),
        "learning_rate_min": (0.0, 1.0),
        "learning_rate_fraction": (0.0, 1.0),
        "exploration_initial_eps": (0.0, 1.0),
        "exploration_final_eps": (0.0, 1.0),
        "exploration_fraction": (0.0, 1.0),
        "hold": (1, _INFINITY),
        "warmup_steps": (2, _INFINITY),
        "warmup_hold": (1, _INFINITY),
    }
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"update": ("sarsa", "watkins")}

    def __post_init__(self) -> None:
        for name in ("observation_low", "observation_high"):
            if getattr(self, name) is not None:  # JSON has lists
                object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))
        object.__setattr__(self, "angles", tuple(tuple(pair) for pair in self.angles))
        check_ranges(self, self.ranges)
        check_choices(self, self.choices)
        if self.initial_value is not None:
            check_ranges(self, {"initial_value": (-1e12, 1e12)})
        self._check_coordinates()

    def _check_coordinates(self) -> None:
        low, high = self.observation_low, self.observation_high
        for name, ends in (("observation_low", low), ("observation_high", high)):
            if ends is not None and any(x != x for x in ends):
                raise ValueError(f"{name} must be numbers, got {ends}.")
        if low and high and len(low) == len(high) and any(map(ge, low, high)):
            raise ValueError(
                "observation_low must be below observation_high in each coordinate, "
                f"got {low} and {high}."
            )
        used = [i for pair in self.angles for i in pair]
        paired = all(len(pair) == 2 for pair in self.angles)
        if not paired or len(set(used)) < len(used) or any(i < 0 for i in used):
            raise ValueError(
                f"angles must be pairs of different coordinates, counted from 0; got {self.angles}."
            )

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return asdict(self)


@dataclass(frozen=True)
class SparseConfig(LinearConfig):
    """Hyperparameters of the baselines that have a few active features at a time."""

    traces: Literal["replacing", "clearing", "accumulating"] = "replacing"
    """A trace is set to 1 at each visit; so it is, and those of the other actions to 0; or it is raised
    by 1."""
    learning_rate_by: Literal["run", "visits"] = "run"
    """The stepsize falls along a line over the run, or for each weight with its visits."""
    learning_rate_halving: float = 100.0
    """By visits, the stepsize falls as (1 + visits / this)^-power, down to learning_rate_min."""
    learning_rate_power: float = 0.8
    """Power of that fall, in [0, 1]."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        **LinearConfig.ranges,
        "learning_rate_halving": (1.0, _INFINITY),
        "learning_rate_power": (0.0, 1.0),
    }
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **LinearConfig.choices,
        "traces": ("replacing", "clearing", "accumulating"),
        "learning_rate_by": ("run", "visits"),
    }


@dataclass(frozen=True)
class UniformGridConfig(SparseConfig):
    """Hyperparameters of `UniformGridQ`; each is a keyword argument of it."""

    update: Literal["sarsa", "watkins"] = "watkins"
    """Watkins' Q(lambda) learns the value of the greedy policy, Sarsa(lambda) that of its behaviour."""
    hold: int = 5
    """A random action is held for 1 to this many steps."""
    bins: int | tuple[int, ...] | None = None
    """Bins of every coordinate, or of each; if not given, up to 12 with 700 cells at most."""

    def __post_init__(self) -> None:
        check_counts(self, "bins", 1)
        super().__post_init__()


@dataclass(frozen=True)
class SOMConfig(SparseConfig):
    """Hyperparameters of `SOMQ`; each is a keyword argument of it."""

    update: Literal["sarsa", "watkins"] = "watkins"
    """Watkins' Q(lambda) learns the value of the greedy policy, Sarsa(lambda) that of its behaviour."""
    hold: int = 5
    """A random action is held for 1 to this many steps."""
    n_cells: int | tuple[int, ...] = 144
    """Cells at most, or the counts along each side of the lattice. A lattice with as many sides as there
    are coordinates, which one number makes, begins as a uniform grid; another one in disorder."""
    map_steps: int = 0
    """Steps under random actions in which only the map learns, and unfolds; a uniform grid need not."""
    map_every: int = 4
    """Steps from one update of the map to the next: it is slower than the values."""
    map_rate: float = 0.5
    """Stepsize of the map when it begins to unfold, in (0, 1]."""
    map_rate_final: float = 0.005
    """Stepsize of the map when it has; from there it falls to 0."""
    map_fraction: float = 0.5
    """Fraction of the run over which it does."""
    map_radius: float | None = None
    """Radius of the neighbourhood in steps of the lattice at the beginning; half of its longest side if
    not given."""
    map_radius_final: float = 0.5
    """Radius of the neighbourhood when the map has unfolded, and from there on."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        **SparseConfig.ranges,
        "map_steps": (0, _INFINITY),
        "map_every": (1, _INFINITY),
        "map_rate": (_TINY, 1.0),
        "map_rate_final": (_TINY, 1.0),
        "map_fraction": (0.0, 1.0),
        "map_radius_final": (0.01, _INFINITY),
    }

    def __post_init__(self) -> None:
        check_counts(self, "n_cells", 1)
        super().__post_init__()
        if self.map_radius is not None:
            check_ranges(self, {"map_radius": (0.01, _INFINITY)})


@dataclass(frozen=True)
class TileCodingConfig(SparseConfig):
    """Hyperparameters of `TileCodingSarsa`; each is a keyword argument of it."""

    learning_rate: float = 0.3
    """Share of its error that a value is corrected by at a first visit, in (0, 1]."""
    learning_rate_min: float = 0.001
    """The stepsize at the end of the run, or the least one if it falls with the visits."""
    tilings: int = 8
    """Tilings, each displaced against the others."""
    tiles: int | tuple[int, ...] | None = None
    """Tiles of a tiling along every coordinate, or along each; if not given, up to 10 with 100,000 tiles
    at most."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {**SparseConfig.ranges, "tilings": (1, 1024)}

    def __post_init__(self) -> None:
        check_counts(self, "tilings", 1)
        check_counts(self, "tiles", 1)
        super().__post_init__()


@dataclass(frozen=True)
class FourierConfig(LinearConfig):
    """Hyperparameters of `FourierSarsa`; each is a keyword argument of it."""

    learning_rate: float = 0.01
    """Share of its error that a value is corrected by at first, without traces, in (0, 1]."""
    learning_rate_min: float = 0.001
    """The stepsize at the end of the run."""
    order: int = 3
    """Half waves over the range of a coordinate, at most."""
    coupled: int | None = None
    """Coordinates that one function of the basis depends on, at most; if not given, as many as give no
    more than 1000 functions."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {**LinearConfig.ranges, "order": (1, 100)}

    def __post_init__(self) -> None:
        check_counts(self, "order", 1)
        check_counts(self, "coupled", 1)
        super().__post_init__()


def check_counts(config: Any, name: str, least: int) -> None:
    """Raise a ValueError if a field is no whole number, or a sequence of them, from `least` on."""
    value = getattr(config, name)
    if value is None:
        return
    if isinstance(value, list | tuple):
        object.__setattr__(config, name, tuple(value))
    counts = value if isinstance(value, list | tuple) else (value,)
    if not counts or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= least for n in counts
    ):
        raise ValueError(
            f"{name} must be a whole number from {least} on, or one for each side; got {value!r}."
        )
