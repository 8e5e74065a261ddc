"""Wavelet transforms of signals and images at one resolution (PyWavelets), and pyramids of them."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from oda_rl._types import Array
from oda_rl._validation import check_at_least
from oda_rl.resolutions.base import BaseMap, falling

KINDS = ("approximation", "coefficients", "modulus")


@dataclass(eq=False, repr=False)
class WaveletPyramid(BaseMap):
    """Signals or images at one level of their wavelet transform.

    A list of these, from a high level to level 0, is a multi-resolution representation: a sequence of
    subspaces, each of which contains the coarser ones.

    Parameters
    ----------
    shape : int, (length,) or (height, width), optional
        Shape of the signal or image in a row of features; by default a signal as long as the row.
    level : int, default=1
        Number of times that the resolution is halved; 0 is the signal itself.
    wavelet : str, default="haar"
        Name of a discrete wavelet of PyWavelets.
    mode : str, default="periodization"
        Extension of signals beyond their ends, a mode of PyWavelets. With `"periodization"`, an
        orthogonal wavelet and even sizes, distances between features equal those between the projections
        of the signals, so that temperatures mean the same on all levels. Every other mode gives more
        coefficients. `kind="modulus"` is periodic in any case.
    kind : {"approximation", "coefficients", "modulus"}, default="approximation"
        `"approximation"`: the approximation coefficients at `level`, a factor of 2^level fewer per axis.
        `"coefficients"`: these and the details of all levels. `"modulus"`: the approximation and the
        moduli of the details of the undecimated transform, averaged over windows of 2^level points per
        axis. These features change little when the signal is shifted by less than a window.
    channels : int, default=1
        Numbers per point, such as 3 for colours, on the last axis of the row. Channels are transformed
        separately.

    Attributes
    ----------
    shape_ : tuple of int
        The shape used.
    n_features_in_ : int
        Length of the rows.

    Notes
    -----
    The approximation comes first, then the details from coarse to fine. Names such as
    `approximation2[0,1]` and `detail1_da[3,2]` give kind, level, direction and position. In
    `inverse_transform`, details that are not among the features are taken to be zero.

    `"modulus"` is one layer of a scattering transform with real wavelets; see `Scattering` for the full
    transform. It pads images by reflection to multiples of 2^level.

    References
    ----------
    Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing", sections V-B and V-C.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 3.0, 5.0, 5.0]])
    >>> half = WaveletPyramid(level=1).fit(X)
    >>> half.transform(X) / np.sqrt(2.0)
    array([[2., 5.]])
    >>> half.inverse_transform(half.transform(X))
    array([[2., 2., 5., 5.]])
    """

    shape: int | Sequence[int] | None = None
    level: int = 1
    _: KW_ONLY
    wavelet: str = "haar"
    mode: str = "periodization"
    kind: str = "approximation"
    channels: int = 1

    _fitted = "shape_"

    def _fit(self, samples: Array, y: ArrayLike | None) -> None:
        pywt = _pywt()
        check_at_least(0, level=self.level)
        for name, value, known in (
            ("kind", self.kind, KINDS),
            ("mode", self.mode, pywt.Modes.modes),
            ("wavelet", self.wavelet, pywt.wavelist(kind="discrete")),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}.")
        self.shape_ = signal_shape(self.shape, self.channels, samples.shape[1])
        most = most_halvings(self.shape_)
        if self.level > most:
            raise ValueError(
                f"level must be at most {most} for signals of shape {self.shape_} made of "
                f"{samples.shape[1]} feature(s), got {self.level}."
            )

    def _transform(self, samples: Array) -> Array:
        parts = self._parts(samples)
        return np.concatenate([part.reshape(len(samples), -1) for _, part in parts], axis=1)

    def _has_inverse(self) -> bool:
        return self.kind != "modulus"

    def _n_features_out(self) -> int:
        return sum(part.size for _, part in self._parts(np.zeros((1, self.n_features_in_))))

    def _inverse(self, given: Array) -> Array:
        """The signals; details that are not among the features are taken to be zero."""
        n, start = len(given), 0
        coefficients = self._decompose(np.zeros((n, self.n_features_in_)))
        for _, part in self._named(coefficients):
            stop = start + int(np.prod(part.shape[1:]))
            part[...] = given[:, start:stop].reshape(part.shape)
            start = stop
        found = _pywt().waverecn(coefficients, self.wavelet, mode=self.mode, axes=self._axes)
        inside = (slice(None), *(slice(length) for length in self.shape_))
        return np.ascontiguousarray(found[inside]).reshape(n, -1)

    def _names(self, input_features: Any) -> Sequence[str]:
        parts = self._parts(np.zeros((1, self.n_features_in_)))
        last = None if self.channels > 1 else -1
        return [name for label, part in parts for name in numbered(label, part.shape[1:last])]

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + len(self.shape_)))

    def _parts(self, samples: Array) -> list[tuple[str, Array]]:
        """Named blocks of features, (n_samples, *places, channels)."""
        if self.kind == "modulus" and self.level > 0:
            return self._named(self._undecimated(samples))
        return self._named(self._decompose(samples))

    def _named(self, coefficients: list[Any]) -> list[tuple[str, Array]]:
        """The arrays among the coefficients that are features, with their names."""
        parts = [(f"approximation{self.level}", coefficients[0])]
        if self.kind != "approximation":
            for level, details in zip(range(self.level, 0, -1), coefficients[1:], strict=True):
                parts += [(f"detail{level}_{key}", details[key]) for key in sorted(details)]
        return parts

    def _decompose(self, samples: Array) -> list[Any]:
        signals = samples.reshape(-1, *self.shape_, self.channels)
        return list(
            _pywt().wavedecn(signals, self.wavelet, mode=self.mode, level=self.level, axes=self._axes)
        )

    def _undecimated(self, samples: Array) -> list[Any]:
        signals = samples.reshape(-1, *self.shape_, self.channels)
        window = 2**self.level
        missing = [(0, -length % window) for length in self.shape_]
        signals = np.pad(signals, [(0, 0), *missing, (0, 0)], mode="symmetric")
        found = _pywt().swtn(
            signals, self.wavelet, level=self.level, axes=self._axes, trim_approx=True, norm=True
        )
        details = [{key: _mean(np.abs(d), window) for key, d in level.items()} for level in found[1:]]
        return [_mean(found[0], window), *details]


def _mean(signals: Array, window: int) -> Array:
    """Means over windows along all axes but the first and the last."""
    shape = [signals.shape[0]]
    for length in signals.shape[1:-1]:
        shape += [length // window, window]
    axes = tuple(range(2, len(shape), 2))
    return np.asarray(signals.reshape(*shape, signals.shape[-1]).mean(axis=axes))


def _pywt() -> Any:
    try:
        return import_module("pywt")
    except ImportError as error:
        raise ImportError(
            "WaveletPyramid needs PyWavelets, which is not installed: "
            "pip install 'oda_rl[multiresolution]' or pip install PyWavelets."
        ) from error


def wavelet_pyramid(
    shape: int | Sequence[int],
    levels: Sequence[int] | int | None = None,
    *,
    wavelet: str = "haar",
    mode: str = "periodization",
    kind: str = "approximation",
    channels: int = 1,
) -> list[BaseEstimator]:
    """Wavelet resolutions of a signal or image, each as a rule twice as fine as the one before.

    Parameters
    ----------
    shape : int, (length,) or (height, width)
        Shape of the signal or image in a row of features.
    levels : sequence of int or int, optional
        Numbers of times that the resolution is halved, coarse to fine; an int n stands for n down to 0.
        The default is the largest n up to 2 that leaves at least two points per axis: levels 2, 1 and 0
        for 8 x 8 or 28 x 28.
    wavelet, mode, kind, channels
        As for `WaveletPyramid`.

    Returns
    -------
    list of WaveletPyramid
        Coarse to fine.

    Raises
    ------
    ValueError
        If `levels` are not integers that strictly fall, or a level is too high for `shape`.

    Examples
    --------
    >>> [map.level for map in wavelet_pyramid((8, 8))]
    [2, 1, 0]
    """
    most = most_halvings(side_lengths(shape, 2))
    if levels is None:
        levels = min(2, most - 1)
    if np.iterable(levels):
        chosen = falling("levels", levels, 0, most, shape)
    elif isinstance(levels, Integral) and not isinstance(levels, bool) and 0 <= levels <= most:
        chosen = list(range(int(levels), -1, -1))
    else:
        raise ValueError(
            f"levels must lie between 0 and {most} for the shape {shape!r}, as an integer or as a list "
            f"of integers that decrease from coarse to fine, got {levels!r}."
        )
    return [
        WaveletPyramid(shape, level, wavelet=wavelet, mode=mode, kind=kind, channels=channels)
        for level in chosen
    ]


def signal_shape(shape: int | Sequence[int] | None, channels: int, n_features: int) -> tuple[int, ...]:
    """The shape of the signal or image that is stored in a row of `n_features`.

    `shape` is an int, (length,), (height, width), or None for a signal as long as the row. Each point
    has `channels` numbers. Raises a ValueError if these do not fit together.
    """
    check_at_least(1, channels=channels)
    if shape is None:
        if n_features % channels:
            raise ValueError(f"{n_features} feature(s) cannot be divided into {channels} channels.")
        return (n_features // channels,)
    found = side_lengths(shape)
    if int(np.prod(found)) * channels != n_features:
        raise ValueError(
            f"shape={shape!r} with {channels} channel(s) makes {int(np.prod(found)) * channels} "
            f"features, but the data have {n_features}."
        )
    return found


def numbered(prefix: str, shape: Sequence[int]) -> list[str]:
    """Names of the elements of an array: `prefix[row,column]`."""
    return [f"{prefix}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


def most_halvings(shape: Sequence[int]) -> int:
    """How often the shortest side of a signal or image can be halved with at least one point left."""
    return int(min(shape)).bit_length() - 1


def side_lengths(shape: int | Sequence[int], least: int = 1) -> tuple[int, ...]:
    """The shape of a signal or image as a tuple; raises a ValueError if a side is below `least`."""
    lengths = np.atleast_1d(np.asarray(shape))
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.size not in (1, 2):
        raise ValueError(f"shape must be the length of a signal or (height, width), got {shape!r}.")
    if lengths.min() < least:
        raise ValueError(f"shape must be at least {least} along every axis, got {shape!r}.")
    return tuple(lengths.tolist())
