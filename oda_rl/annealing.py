"""The public path of the annealer."""

from oda_rl.codebook.annealer import Annealer, Level

__all__ = ["Annealer", "Level"]
