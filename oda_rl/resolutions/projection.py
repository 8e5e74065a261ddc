"""Projections on chosen columns, given directions or principal components, and pyramids of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA

from oda_rl._types import Array
from oda_rl.resolutions.base import BaseMap, listed


@dataclass(eq=False, repr=False)
class Projection(BaseMap):
    """Some coordinates of the data, or coordinates along given directions.

    Parameters
    ----------
    columns : sequence of int, boolean mask or slice, optional
        The features to keep, in this order.
    matrix : array-like of shape (n_components, n_features), optional
        Directions: the new features are `X @ matrix.T`. At most one of `columns` and `matrix` may be
        given; without either the data stay unchanged.

    Attributes
    ----------
    matrix_ : ndarray of shape (n_components, n_features)
        The directions; rows of the unit matrix if columns were chosen.
    mean_ : ndarray of shape (n_features,)
        Mean of the data, in their units. Of all points with the given coordinates, `inverse_transform`
        returns the one nearest to the mean.
    n_features_in_ : int
        Number of features of the data.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 10.0], [3.0, 20.0]])
    >>> line = Projection(columns=[1]).fit(X)
    >>> line.transform(X)
    array([[10.],
           [20.]])
    >>> line.inverse_transform([[15.0]])
    array([[ 2., 15.]])
    """

    columns: Sequence[int] | NDArray[Any] | slice | None = None
    matrix: ArrayLike | None = None

    _fitted = "mean_"

    def _fit(self, samples: Array, y: ArrayLike | None) -> None:
        n_features = samples.shape[1]
        if self.columns is not None and self.matrix is not None:
            raise ValueError("at most one of columns and matrix may be given, got both.")
        if self.matrix is not None:
            self.matrix_ = _directions(self.matrix, n_features)
        else:
            self.matrix_ = np.eye(n_features)[self._chosen(n_features)]
        self.mean_ = samples.mean(axis=0)

    def _transform(self, samples: Array) -> Array:
        if self.matrix is None:
            return np.array(samples[:, self._chosen(samples.shape[1])], order="C")
        return np.asarray(samples @ self.matrix_.T)

    def _n_features_out(self) -> int:
        return len(self.matrix_)

    def _inverse(self, coordinates: Array) -> Array:
        """The points with these coordinates that are nearest to the mean of the data."""
        if self.matrix is None:  # exact, without the rounding of a pseudo-inverse
            found = np.tile(self.mean_, (len(coordinates), 1))
            found[:, self._chosen(len(self.mean_))] = coordinates
            return found
        offset = coordinates - self.mean_ @ self.matrix_.T
        return np.asarray(self.mean_ + offset @ np.linalg.pinv(self.matrix_).T)

    def _names(self, input_features: Any) -> Sequence[str]:
        names = self._names_in(input_features)
        if self.matrix is None:
            return [names[j] for j in self._chosen(len(names))]
        return [f"projection{i}" for i in range(len(self.matrix_))]

    def _chosen(self, n_features: int) -> NDArray[np.int64]:
        every = np.arange(n_features)
        if self.columns is None:
            return every
        if isinstance(self.columns, slice):
            chosen = every[self.columns]
        else:
            index = np.asarray(self.columns)
            if index.ndim != 1 or index.dtype.kind not in "iub":
                raise ValueError(
                    f"columns must be integers, a boolean mask or a slice, got {self.columns!r}."
                )
            try:
                chosen = every[index]
            except IndexError as error:
                raise ValueError(
                    f"columns={self.columns!r} do not fit data of {n_features} feature(s): {error}."
                ) from error
        if len(chosen) == 0:
            raise ValueError(f"columns={self.columns!r} select none of the {n_features} feature(s).")
        return chosen


def principal(n_components: Any, whiten: bool = False) -> PCA:
    """An unfitted PCA of scikit-learn, whose fit is deterministic.

    `n_components` is a number of components, or the share of the variance that they are to keep, in
    (0, 1); anything else raises a ValueError. With `whiten`, components are scaled to unit variance.
    """
    if isinstance(n_components, int | np.integer) and not isinstance(n_components, bool):
        if n_components >= 1:
            return PCA(int(n_components), whiten=whiten, random_state=0)
    elif isinstance(n_components, float) and 0.0 < n_components < 1.0:
        return PCA(float(n_components), whiten=whiten, svd_solver="full")
    raise ValueError(
        "n_components must be an integer of at least 1, or a fraction of the variance between 0 and "
        f"1, got {n_components!r}."
    )


def _directions(matrix: ArrayLike, n_features: int) -> Array:
    directions = np.array(matrix, dtype=np.float64)
    if directions.ndim != 2 or directions.shape[1] != n_features or len(directions) == 0:
        raise ValueError(
            f"matrix must have shape (n_components, {n_features}), as the data have {n_features} "
            f"feature(s), got {directions.shape}."
        )
    if not np.isfinite(directions).all():
        raise ValueError("matrix must be finite, but contains NaN or infinity.")
    return directions


def projection_pyramid(columns: Sequence[int | Sequence[int] | slice | None]) -> list[BaseEstimator]:
    """Resolutions with growing sets of coordinates.

    Parameters
    ----------
    columns : sequence of int, list of int, slice or None
        For every resolution, coarse to fine: a number of leading columns, a list or slice of columns, or
        None for all of them.

    Returns
    -------
    list of Projection

    Examples
    --------
    >>> projection_pyramid([1, None])
    [Projection(columns=slice(0, 1, None)), Projection()]
    """
    return [
        Projection(slice(0, int(chosen)) if isinstance(chosen, int | np.integer) else chosen)
        for chosen in listed("columns", columns)
    ]


def pca_pyramid(
    n_components: Sequence[int | float | None] = (2, 8, None), whiten: bool = False
) -> list[BaseEstimator]:
    """Resolutions with growing numbers of principal components.

    Parameters
    ----------
    n_components : sequence of int, float or None, default=(2, 8, None)
        For every resolution, coarse to fine: the number of components, the share of the variance that
        they are to keep, in (0, 1), or None for the unchanged data.
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
    chosen = listed("n_components", n_components)
    return [Projection() if n is None else principal(n, whiten) for n in chosen]
