"""The wavelet scattering transform of signals and images (kymatio)."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline

from oda_rl._types import Array
from oda_rl._validation import check_at_least
from oda_rl.resolutions.base import BaseMap, falling
from oda_rl.resolutions.projection import principal
from oda_rl.resolutions.wavelets import most_halvings, numbered, side_lengths, signal_shape

AVERAGES = ("local", "global")
COMPRESSIONS = ("sqrt", "log")
LOG_FLOOR = 1e-3  # part of the largest coefficient; smaller ones hardly count under the logarithm
CHUNK = 256  # rows transformed at once: the transform needs some hundred arrays of their padded size


@dataclass(eq=False, repr=False)
class Scattering(BaseMap):
    """Wavelet scattering coefficients: features that hardly change when a signal is shifted a little.

    The transform, by kymatio, takes the moduli of wavelet coefficients once or twice in a row, and then
    averages over windows of 2^J points.

    Parameters
    ----------
    shape : int, (length,) or (height, width), optional
        Shape of the signal or image in a row of features; by default a signal as long as the row.
    J : int, default=2
        Windows and the largest wavelets are 2^J points wide, which must not exceed the signal.
    order : {1, 2}, default=2
        Layers of wavelets. With J = 1 images have no second layer.
    orientations : int, default=8
        Directions of the wavelets of images.
    per_octave : int, default=1
        Wavelets per octave in the first layer, for signals.
    average : {"local", "global"}, default="local"
        One number per window, or the average over all windows, which discards all positions.
    compression : {None, "sqrt", "log"}, default=None
        Function applied to every coefficient at the end: none, the square root, or the logarithm above a
        thousandth of the largest coefficient in `fit`. Helps if few coefficients are large.
    channels : int, default=1
        Numbers per point, such as 3 for colours, on the last axis of the row. Channels are transformed
        separately.

    Attributes
    ----------
    shape_ : tuple of int
        The shape used.
    floor_ : float
        Added to the coefficients before the logarithm of `compression="log"`.
    n_features_in_ : int
        Length of the rows.

    Notes
    -----
    Features are ordered by path, then by window, then by channel. Names such as `scattering4[0,1]` give
    the path and the position of the window.

    There is no inverse: in the units of the data, a codevector of scattering coefficients can only be
    shown as the mean of its samples. Images of 16 x 16 take 0.6 ms each with the defaults. The
    coefficients are many and redundant; a PCA after the transform speeds up learning
    (`scattering_pyramid`).

    References
    ----------
    Bruna and Mallat, "Invariant scattering convolution networks", 2013; Mavridis and Baras,
    "Multi-Resolution Online Deterministic Annealing", section V-C.

    Examples
    --------
    >>> import numpy as np
    >>> bump = np.exp(-(np.linspace(-8.0, 8.0, 64) ** 2))
    >>> X = np.stack([bump, np.roll(bump, 3)])
    >>> features = Scattering(J=5).fit_transform(X)
    >>> def distance(a, b):
    ...     return np.linalg.norm(a - b) / np.linalg.norm(a)
    >>> bool(distance(*X) > 5 * distance(*features))
    True
    """

    shape: int | Sequence[int] | None = None
    J: int = 2
    _: KW_ONLY
    order: int = 2
    orientations: int = 8
    per_octave: int = 1
    average: str = "local"
    compression: str | None = None
    channels: int = 1

    _fitted = "floor_"

    def _fit(self, samples: Array, y: ArrayLike | None) -> None:
        check_at_least(1, J=self.J, orientations=self.orientations, per_octave=self.per_octave)
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {self.order!r}.")
        if self.average not in AVERAGES:
            raise ValueError(f"average must be one of {AVERAGES}, got {self.average!r}.")
        if self.compression is not None and self.compression not in COMPRESSIONS:
            raise ValueError(
                f"compression must be None or one of {COMPRESSIONS}, got {self.compression!r}."
            )
        self.shape_ = signal_shape(self.shape, self.channels, samples.shape[1])
        widest = most_halvings(self.shape_)
        if widest < self.J:
            raise ValueError(
                f"J must be at most {widest} for signals of shape {self.shape_} made of "
                f"{samples.shape[1]} feature(s), got {self.J}, which makes windows of {2**self.J} "
                "points."
            )
        self._filters()
        self.floor_ = 0.0
        if self.compression == "log":
            largest = float(self._coefficients(samples).max())
            self.floor_ = LOG_FLOOR * (largest if largest > 0.0 else 1.0)

    def _transform(self, samples: Array) -> Array:
        found = self._coefficients(samples)
        if self.compression == "sqrt":
            # averages of moduli are positive up to rounding, the average of the signal need not be
            found = np.sign(found) * np.sqrt(np.abs(found))
        elif self.compression == "log":
            found = np.sign(found) * np.log1p(np.abs(found) / self.floor_)
        return np.ascontiguousarray(found.reshape(len(found), -1))

    def _names(self, input_features: Any) -> Sequence[str]:
        paths, *places = self._coefficients(np.zeros((1, self.n_features_in_))).shape[1:]
        if self.channels == 1:
            places = places[:-1]
        names = [name for i in range(paths) for name in numbered(f"scattering{i}", places)]
        return [name.removesuffix("[]") for name in names]

    def _filters(self) -> Any:
        dimensions = len(self.shape_)
        detail = self.per_octave if dimensions == 1 else self.orientations
        return _kymatio(self.shape_, self.J, self.order, detail)

    def _coefficients(self, samples: Array) -> Array:
        """Uncompressed coefficients (n_samples, paths, *windows, channels), globally without windows."""
        signals = samples.reshape(-1, *self.shape_, self.channels)
        signals = np.ascontiguousarray(np.moveaxis(signals, -1, 1))
        transform = self._filters()
        chunks = [transform(signals[start : start + CHUNK]) for start in range(0, len(signals), CHUNK)]
        found = np.moveaxis(np.concatenate(chunks), 1, -1)
        if self.average == "global":
            found = found.mean(axis=tuple(range(2, found.ndim - 1)))
        return np.asarray(found)


@lru_cache(maxsize=16)
def _kymatio(shape: tuple[int, ...], J: int, order: int, detail: int) -> Any:
    """A transform with its filters; cached, as filters take longer to compute than the transform."""
    try:
        # Importing kymatio itself also imports its 3-D transform, which newer SciPy does not support.
        module = import_module(f"kymatio.scattering{len(shape)}d.frontend.numpy_frontend")
    except ImportError as error:
        raise ImportError(
            "Scattering needs kymatio, which cannot be imported: pip install 'oda_rl[scattering]' or "
            f"pip install kymatio ({error})."
        ) from error
    if len(shape) == 1:
        return module.ScatteringNumPy1D(J=J, shape=shape, Q=detail, max_order=order)
    return module.ScatteringNumPy2D(J=J, shape=shape, L=detail, max_order=order)


def scattering_pyramid(
    shape: int | Sequence[int],
    windows: Sequence[int] | None = None,
    *,
    n_components: int | float | None = 0.999,
    discriminant: bool = False,
    **settings: Any,
) -> list[BaseEstimator]:
    """Resolutions of scattering coefficients, averaged over smaller and smaller windows.

    Parameters
    ----------
    shape : int, (length,) or (height, width)
        Shape of the signal or image in a row of features.
    windows : sequence of int, optional
        J for every resolution, coarse to fine: averages over windows of 2^J points. By default the two
        largest that fit: 3 and 2 for 8 x 8, 4 and 3 for 16 x 16.
    n_components : int, float or None, default=0.999
        Number of principal components of the coefficients, many of which are redundant, or the share of
        the variance that they are to keep, in (0, 1). None keeps all coefficients.
    discriminant : bool, default=False
        Whether linear discriminant analysis follows. It gives one feature fewer than there are classes,
        makes distances far cheaper to compute and classes round. It needs labels at `fit`, hence it is
        for classifiers only: trees of other estimators refuse it.
    **settings
        Further parameters of `Scattering`, such as `order` or `compression`.

    Returns
    -------
    list of Scattering, or of sklearn.pipeline.Pipeline of Scattering and what follows it
        Coarse to fine.

    Raises
    ------
    ValueError
        If `windows` are not integers that strictly fall, or are too wide for `shape`.

    Notes
    -----
    Coefficients differ much in size and are correlated within a class, so that estimators should scale
    them: `scale="within"` for `ODAClassifier`. With `discriminant=True` they are scaled already
    (`scale=None`). `compression="log"` then helps for images that are mostly empty.

    Examples
    --------
    >>> [map.J for map in scattering_pyramid((8, 8), n_components=None)]
    [3, 2]
    """
    widest = most_halvings(side_lengths(shape, 2))
    largest = range(widest, max(0, widest - 2), -1)
    chosen = falling("windows", largest if windows is None else windows, 1, widest, shape)
    return [_followed(Scattering(shape, J, **settings), n_components, discriminant) for J in chosen]


def _followed(scattering: Scattering, n_components: int | float | None, discriminant: bool) -> Any:
    steps: list[tuple[str, Any]] = [("scattering", scattering)]
    if n_components is not None:
        steps.append(("pca", principal(n_components)))
    if discriminant:
        steps.append(("discriminant", LinearDiscriminantAnalysis()))
    return Pipeline(steps) if len(steps) > 1 else scattering
