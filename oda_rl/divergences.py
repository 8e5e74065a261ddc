"""Public import path of the Bregman divergences."""

from oda_rl.codebook.divergences import Divergence, get_divergence

__all__ = ["Divergence", "get_divergence"]
