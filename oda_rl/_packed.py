"""Arrays in pickles, as few bytes as they can be without a loss."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Packed = tuple[str, tuple[int, ...], bytes]


def packed(array: NDArray[Any]) -> Packed:
    """The kind, shape and compressed content of an array of numbers."""
    return array.dtype.str, array.shape, zlib.compress(array.tobytes(), 1)


def unpacked(found: Packed) -> NDArray[Any]:
    """The array that `packed` was given, as one that may be changed."""
    kind, shape, content = found
    return np.frombuffer(zlib.decompress(content), kind).reshape(shape).copy()
