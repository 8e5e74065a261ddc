"""Checks of parameters, with messages that name them."""

from math import inf


def check_at_least(lower: int, **values: int) -> None:
    """Raise a ValueError if a whole number is below `lower`."""
    for name, value in values.items():
        if not value >= lower:
            raise ValueError(f"{name} must be at least {lower}, got {value}.")


def check_non_negative(**values: float) -> None:
    """Raise a ValueError if a number is negative, infinite or NaN."""
    for name, value in values.items():
        if not 0.0 <= value < inf:
            raise ValueError(f"{name} must be a non-negative number, got {value}.")


def check_positive(**values: float) -> None:
    """Raise a ValueError if a number is not positive."""
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"{name} must be positive, got {value}.")
