"""Lists of feature maps from coarse to fine, ready for `MultiResolutionODA(resolutions=...)`."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline

from oda_rl.resolutions.projection import Projection, principal
from oda_rl.resolutions.scattering import Scattering
from oda_rl.resolutions.wavelets import WaveletPyramid


def projection_pyramid(columns: Sequence[int | Sequence[int] | slice | None]) -> list[BaseEstimator]:
    """Growing sets of coordinates.

    Parameters
    ----------
    columns : sequence of int, list of int, slice or None
        For every resolution, coarse to fine: the first so many columns, these columns, or all of them.

    Returns
    -------
    list of Projection

    Examples
    --------
    >>> projection_pyramid([1, None])
    [Projection(columns=slice(0, 1, None)), Projection()]
    """
    _check_not_empty("columns", columns)
    return [
        Projection(slice(0, int(chosen)) if isinstance(chosen, int | np.integer) else chosen)
        for chosen in columns
    ]


def pca_pyramid(
    n_components: Sequence[int | float | None] = (2, 8, None), whiten: bool = False
) -> list[BaseEstimator]:
    """Growing numbers of principal components.

    Parameters
    ----------
    n_components : sequence of int, float or None, default=(2, 8, None)
        For every resolution, coarse to fine: how many components, the share of the variance that they
        are to keep, in (0, 1), or None for the data as they are.
    whiten : bool, default=False
        Whether components are scaled to unit variance.

    Returns
    -------
    list of sklearn.decomposition.PCA, and Projection for None

    Examples
    --------
    >>> pca_pyramid([2, None])
    [PCA(n_components=2, random_state=0), Projection()]
    """
    _check_not_empty("n_components", n_components)
    return [Projection() if n is None else principal(n, whiten) for n in n_components]


def wavelet_pyramid(
    shape: int | Sequence[int],
    levels: Sequence[int] | int | None = None,
    *,
    wavelet: str = "haar",
    mode: str = "periodization",
    kind: str = "approximation",
    channels: int = 1,
) -> list[BaseEstimator]:
    """A signal or image at resolutions each twice as fine as the one before.

    Parameters
    ----------
    shape : int, (length,) or (height, width)
        Of the signal or image in a row of features.
    levels : sequence of int or int, optional
        How often the resolution is halved, coarse to fine; a number stands for itself down to 0. By
        default from what leaves at least two points per axis down to 0, but at most the last three: 2, 1
        and 0 for 8 x 8 or 28 x 28.
    wavelet, mode, kind, channels
        As for `WaveletPyramid`.

    Returns
    -------
    list of WaveletPyramid
        Coarse to fine.

    Raises
    ------
    ValueError
        If `levels` do not fall, or a level is too high for `shape`.

    Examples
    --------
    >>> [map.level for map in wavelet_pyramid((8, 8))]
    [2, 1, 0]
    """
    smallest = _smallest(shape)
    if levels is None:
        levels = min(2, max(0, int(np.log2(smallest)) - 1))
    chosen = list(range(int(levels), -1, -1)) if isinstance(levels, int | np.integer) else list(levels)
    _check_falling("levels", chosen, 0, int(np.log2(smallest)), shape)
    return [
        WaveletPyramid(shape, level, wavelet=wavelet, mode=mode, kind=kind, channels=channels)
        for level in chosen
    ]


def scattering_pyramid(
    shape: int | Sequence[int],
    windows: Sequence[int] | None = None,
    *,
    n_components: int | float | None = 0.999,
    discriminant: bool = False,
    **settings: Any,
) -> list[BaseEstimator]:
    """Scattering coefficients averaged over windows that become smaller.

    Parameters
    ----------
    shape : int, (length,) or (height, width)
        Of the signal or image in a row of features.
    windows : sequence of int, optional
        J for every resolution, coarse to fine: averages over windows of 2^J points. By default the two
        largest that fit: 3 and 2 for 8 x 8, 4 and 3 for 16 x 16.
    n_components : int, float or None, default=0.999
        Principal components that are kept of the coefficients, many of which say the same: how many, or
        the share of the variance that they are to keep, in (0, 1). None keeps all coefficients.
    discriminant : bool, default=False
        Whether linear discriminant analysis follows, one feature fewer than there are classes: far
        cheaper distances, in which classes are round. Needs labels at `fit`, hence for classifiers only.
    **settings
        As for `Scattering`, such as `order` or `compression`.

    Returns
    -------
    list of Scattering, or of sklearn.pipeline.Pipeline of Scattering and what follows it
        Coarse to fine.

    Raises
    ------
    ValueError
        If `windows` do not fall, or are too wide for `shape`.

    Notes
    -----
    Coefficients differ much in size and within a class they go together, so that estimators should scale
    them: `scale="within"` for `ODAClassifier`. With `discriminant=True` that has been done
    (`scale=None`), and `compression="log"` helps where images are mostly empty.

    Examples
    --------
    >>> [map.J for map in scattering_pyramid((8, 8), n_components=None)]
    [3, 2]
    """
    widest = int(np.log2(_smallest(shape)))
    chosen = list(range(widest, max(0, widest - 2), -1)) if windows is None else list(windows)
    _check_falling("windows", chosen, 1, widest, shape)
    return [_followed(Scattering(shape, J, **settings), n_components, discriminant) for J in chosen]


def _followed(scattering: Scattering, n_components: int | float | None, discriminant: bool) -> Any:
    steps: list[tuple[str, Any]] = [("scattering", scattering)]
    if n_components is not None:
        steps.append(("pca", principal(n_components)))
    if discriminant:
        steps.append(("discriminant", LinearDiscriminantAnalysis()))
    return Pipeline(steps) if len(steps) > 1 else scattering


def _smallest(shape: int | Sequence[int]) -> int:
    lengths = np.atleast_1d(np.asarray(shape))
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.size not in (1, 2):
        raise ValueError(f"shape must be the length of a signal or (height, width), got {shape!r}.")
    if lengths.min() < 2:
        raise ValueError(f"shape must be at least 2 along every axis, got {shape!r}.")
    return int(lengths.min())


def _check_not_empty(name: str, values: Sequence[Any]) -> None:
    if len(values) == 0:
        raise ValueError(f"{name} must name at least one resolution, got none.")


def _check_falling(name: str, values: Sequence[int], least: int, most: int, shape: object) -> None:
    _check_not_empty(name, values)
    falling = all(a > b for a, b in pairwise(values))
    if not falling or not all(least <= value <= most for value in values):
        raise ValueError(
            f"{name} must fall from coarse to fine and lie between {least} and {most} for the shape "
            f"{shape!r}, got {list(values)}."
        )
