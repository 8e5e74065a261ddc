"""Temperatures and stepsizes: what falls, and how fast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cooling:
    """A geometric temperature schedule.

    Parameters
    ----------
    factor : float, default=0.9
        What the parameter is multiplied by at each step (gamma in the papers), in (0, 1).
    parameter : {"temperature", "lambda"}, default="temperature"
        Which parameter falls geometrically: T itself, or lambda, with T = lambda / (1 - lambda). The
        two differ: lambda 0.9 falls to 0.72 with a factor of 0.8, which is T 9 to 2.57.

    Raises
    ------
    ValueError
        If the factor or the parameter's name is not as above.

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
        """The temperature that follows `temperature`."""
        if self.parameter == "temperature":
            return self.factor * temperature
        fraction = self.factor * temperature / (1.0 + temperature)
        return fraction / (1.0 - fraction)


@dataclass(frozen=True)
class Stepsize:
    """Stepsizes (a + b n)^-power of a stochastic approximation.

    They satisfy the conditions of Robbins and Monro (the sum diverges, the sum of squares does not) for
    b > 0 and a power in (1/2, 1]; b = 0 is a constant stepsize.

    Parameters
    ----------
    a, b : float, default=1
        Offset and growth. `a` is at least 1, so that no stepsize is above 1; `b` is not negative.
    power : float, default=1
        In (0, 1].

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
    power: float = 1.0

    def __post_init__(self) -> None:
        if self.a < 1.0:
            raise ValueError(f"a must be at least 1, got {self.a}.")
        if self.b < 0.0:
            raise ValueError(f"b must not be negative, got {self.b}.")
        if not 0.0 < self.power <= 1.0:
            raise ValueError(f"power must be in (0, 1], got {self.power}.")

    def __call__(self, n: float) -> float:
        """The stepsize at update `n`; the first update is n = 1."""
        return float((self.a + self.b * n) ** -self.power)

    def is_slower_than(self, other: "Stepsize") -> bool:
        """Whether this stepsize over `other`'s tends to 0, as the slow timescale needs.

        (Theorem 2 of Mavridis and Baras, "Annealing Optimization for Progressive Learning with
        Stochastic Approximation": beta(n) / alpha(n) -> 0.)
        """
        own = self.power if self.b > 0 else 0.0
        others = other.power if other.b > 0 else 0.0
        return own > others
