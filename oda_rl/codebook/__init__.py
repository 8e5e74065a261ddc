"""The codebook, splits and mergers of its cells, the learning rule, and the annealer."""

from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import get_divergence
from oda_rl.codebook.schedule import Cooling, Stepsize

__all__ = ["Annealer", "Codebook", "Cooling", "Stepsize", "get_divergence"]
