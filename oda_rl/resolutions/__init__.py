"""Feature maps from coarse to fine, the resolutions of the layers of `MultiResolutionODA`."""

from oda_rl.resolutions.maps import FeatureMap, as_map
from oda_rl.resolutions.projection import Projection, pca_pyramid, projection_pyramid
from oda_rl.resolutions.scattering import Scattering, scattering_pyramid
from oda_rl.resolutions.states import get_state, restore
from oda_rl.resolutions.univariate import EffectMap, RankMap, ScoreMap
from oda_rl.resolutions.wavelets import WaveletPyramid, wavelet_pyramid

__all__ = [
    "EffectMap",
    "FeatureMap",
    "Projection",
    "RankMap",
    "Scattering",
    "ScoreMap",
    "WaveletPyramid",
    "as_map",
    "get_state",
    "pca_pyramid",
    "projection_pyramid",
    "restore",
    "scattering_pyramid",
    "wavelet_pyramid",
]
