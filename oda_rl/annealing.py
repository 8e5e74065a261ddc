"""Public import path of the annealer."""

from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.schedule import Level

__all__ = ["Annealer", "Level"]
