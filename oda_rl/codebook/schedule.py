# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Schedules of temperatures and stepsizes, and the records of annealing levels."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import lean_kernel

# The first temperature, relative to the critical one of the data; the last, relative to the first.
FIRST_TEMPERATURE = 1.1
LAST_TEMPERATURE = 1e-4


def _cool(temperature, factor, by_lambda):
    """The next temperature, with T or lambda multiplied by `factor`; see `Cooling`."""
    if not by_lambda:
        return factor * temperature
    fraction = factor * temperature / (1.0 + temperature)
    return fraction / (1.0 - fraction)


def begin_level(n, n_cells, n_first, memory, between_checks, at_most, min_samples):
    """Begin a temperature; returns (n, samples between two checks, the n at which it ends).

    `n` is the index of the next update, from 1, which determines the stepsize. If there are more than
    `n_first` cells, at most `memory` updates per cell of those before still count in it.
    `between_checks` and `at_most` are samples per cell, and come to at least `min_samples` in all.
    """
    if n_cells > n_first:
        n = 1 + min(n - 1, memory * n_cells)
    return n, max(min_samples, between_checks * n_cells), n + max(min_samples, at_most * n_cells)


# Versions for compiled code.
cool = lean_kernel(_cool)
begin_level_compiled = lean_kernel(begin_level)


@dataclass(frozen=True)
class Cooling:
    """A geometric temperature schedule.

    Parameters
    ----------
    factor : float, default=0.9
        The factor of the parameter at each step (gamma in the papers), in (0, 1).
    parameter : {"temperature", "lambda"}, default="temperature"
        The parameter that falls geometrically: T itself, or lambda, with T = lambda / (1 - lambda). With
        a factor of 0.8, for example, lambda falls from 0.9 to 0.72, which means T from 9 to 2.57.

    Raises
    ------
    ValueError
        If the factor is not in (0, 1), or the parameter is not one of the two.

    Examples
    --------
    >>> Cooling(0.5)(4.0)
    2.0
    >>> round(Cooling(0.8, "lambda")(9.0), 2)
    2.57
    """

    factor: float = 0.9
    parameter: str = "temperature"

    def __post_init__(self) -> None:
        if not 0.0 < self.factor < 1.0:
            raise ValueError(f"factor must be in (0, 1), got {self.factor}.")
        if self.parameter not in ("temperature", "lambda"):
            raise ValueError(f"parameter must be 'temperature' or 'lambda', got {self.parameter!r}.")

    def __call__(self, temperature: float) -> float:
        """The temperature after `temperature`."""
        return float(_cool(temperature, self.factor, self.parameter == "lambda"))


@dataclass(frozen=True)
class Stepsize:
    """Stepsizes 1 / (a + b n) of a stochastic approximation.

    They satisfy the conditions of Robbins and Monro (the sum diverges, the sum of squares does not) for
    b > 0; b = 0 is a constant stepsize.

    Parameters
    ----------
    a, b : float, default=1
        Offset and growth. `a` is at least 1, so that no stepsize is above 1; `b` is not negative.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> Stepsize(a=1.0, b=1.0)(1)
    0.5
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.a < np.inf:
            raise ValueError(f"a must be finite and at least 1, got {self.a}.")
        if not 0.0 <= self.b < np.inf:
            raise ValueError(f"b must be finite and non-negative, got {self.b}.")

    @classmethod
    def of(cls, given: Any) -> "Stepsize":
        """Stepsizes from a pair (a, b); raises a ValueError that calls it `stepsize`."""
        try:
            a, b = map(float, given)
            return cls(a, b)
        except (TypeError, ValueError) as error:
            raise ValueError(f"stepsize must be two numbers (a, b), got {given!r}: {error}") from error

    def __call__(self, n: float) -> float:
        """The stepsize at update `n`; the first update is n = 1."""
        return 1.0 / (self.a + self.b * n)

    def time(self, n: float) -> float:
        """The sum of the stepsizes up to update `n`, up to a constant, by the integral over n."""
        a, b = self.a, self.b
        return float(np.log(a + b * n) / b) if b > 0.0 else n / a


def first_and_last_temperature(
    t_max: float | str, t_min: float | str, critical: float
) -> tuple[float, float]:
    """The first and last temperature of the annealing, from the user's settings.

    `critical` is the critical temperature of the data as one cell. If it is 0, all samples are the same,
    and there is one cell at every temperature; then both are 1.
    """
    if not critical > 0.0:
        return 1.0, 1.0
    first = FIRST_TEMPERATURE * critical if t_max == "auto" else float(t_max)
    last = LAST_TEMPERATURE * first if t_min == "auto" else float(t_min)
    return (max(first, last) if t_max == "auto" else first), last


class Level(NamedTuple):
    """What happened at one temperature: a record of `Annealer.history`.

    At its end `n_merges` codevectors were merged with others, and `n_pruned` removed as they had hardly
    any weight; `n_codevectors` were left, and `distortion` was their mean divergence from the samples.
    On the way to the next temperature `n_splits` were added, at `critical_temperatures`.
    """

    temperature: float
    n_codevectors: int
    distortion: float
    n_samples_seen: int
    n_splits: int
    n_merges: int
    n_pruned: int
    critical_temperatures: tuple[float, ...] = ()


class PathPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODAPartition.history_`.

    `distortion` is the mean divergence from the nearest of `codevectors`, the codebook of that
    temperature; `seconds` is the time since the fit began; `critical_temperatures` are those of the
    cells that split on the way to the next temperature. `expected_distortion` is
    D = E sum_i p_i d(x, mu_i) (eq. 2) and `entropy` is H = -E sum_i p_i log p_i (eq. 3, without the
    entropy of the samples, which does not depend on the codebook), both of the soft codebook;
    `free_energy` is the combination of them that annealing minimises.
    """

    temperature: float
    n_codevectors: int
    distortion: float
    n_samples_seen: int
    seconds: float
    critical_temperatures: tuple[float, ...]
    codevectors: NDArray[np.float64]
    expected_distortion: float = np.nan
    entropy: float = np.nan

    @property
    def free_energy(self) -> float:
        """F = (1 - lambda) D - lambda H with lambda = T / (1 + T) (eq. 4)."""
        part = self.temperature / (1.0 + self.temperature)
        return (1.0 - part) * self.expected_distortion - part * self.entropy
