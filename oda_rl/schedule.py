"""Public import path of temperatures and stepsizes."""

from oda_rl.codebook.schedule import Cooling, Stepsize

__all__ = ["Cooling", "Stepsize"]
