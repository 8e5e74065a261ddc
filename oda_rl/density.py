"""The public path of densities over cells."""

from oda_rl.estimators.density import log_density, log_volumes

__all__ = ["log_density", "log_volumes"]
