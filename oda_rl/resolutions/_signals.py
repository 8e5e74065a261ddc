"""Rows of features as signals and images."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._validation import check_at_least

Array = NDArray[np.float64]


def signal_shape(shape: int | Sequence[int] | None, channels: int, n_features: int) -> tuple[int, ...]:
    """The shape of one signal or image that is stored in a row of `n_features`.

    Parameters
    ----------
    shape : int, (length,), (height, width) or None
        As the user gives it; None is a signal as long as the row.
    channels : int
        Numbers per point.
    n_features : int
        Length of the rows.

    Returns
    -------
    tuple of one or two ints

    Raises
    ------
    ValueError
        If they do not go together.
    """
    check_at_least(1, channels=channels)
    if shape is None:
        if n_features % channels:
            raise ValueError(f"{n_features} feature(s) are no signal of {channels} channels.")
        return (n_features // channels,)
    found = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
    if len(found) not in (1, 2) or min(found) < 1:
        raise ValueError(f"shape must be the length of a signal or (height, width), got {shape!r}.")
    if int(np.prod(found)) * channels != n_features:
        raise ValueError(
            f"shape={shape!r} with {channels} channel(s) makes {int(np.prod(found)) * channels} "
            f"features, the data have {n_features} feature(s)."
        )
    return found


def points(X: ArrayLike, n_components: int) -> Array:
    """Features to be mapped back, checked.

    Raises
    ------
    ValueError
        If they have another shape than (n_samples, n_components).
    """
    found = np.asarray(X, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != n_components:
        raise ValueError(f"X must have the shape (n_samples, {n_components}), got {found.shape}.")
    return found


def numbered(prefix: str, shape: Sequence[int]) -> list[str]:
    """Names of the elements of an array: `prefix[row,column]`."""
    return [f"{prefix}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]
