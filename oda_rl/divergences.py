"""Bregman divergences: what measures the dissimilarity between a sample and a codevector."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl import kernels


@dataclass(frozen=True)
class Divergence:
    """A Bregman divergence d(x, mu) and the domain on which it is defined.

    Bregman divergences are those dissimilarities whose best representative of a set is its mean
    (Definition 1 and Theorem 2 of Mavridis and Baras, "Multi-Resolution Online Deterministic
    Annealing"), which is why a codevector can be learned without a gradient.

    Parameters
    ----------
    name : str
        What a user writes to choose it.
    kind : int
        Its code in the compiled kernels.
    minimum : float
        The smallest admissible coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl.divergences import get_divergence
    >>> get_divergence("squared_euclidean")(np.array([[0.0, 1.0]]), np.array([[2.0, 1.0]]))
    array([[4.]])
    """

    name: str
    kind: int
    minimum: float = -np.inf

    def check(self, samples: NDArray[np.float64], name: str = "X") -> None:
        """Raise a ValueError that names the first column outside the domain.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
            The data.
        name : str, default="X"
            What the message calls them.

        Raises
        ------
        ValueError
            If a coordinate is not finite or below the divergence's minimum.
        """
        finite = np.isfinite(samples)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(
                f"{name} contains NaN or infinity: column {column} is {samples[row, column]} in row "
                f"{row}; all values must be finite."
            )
        outside = samples < self.minimum
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"{name} is outside the domain of the divergence {self.name!r}: column {column} is "
                f"{samples[row, column]} in row {row}; it must be at least {self.minimum}."
            )

    def __call__(
        self, samples: ArrayLike, codevectors: ArrayLike, name: str = "X"
    ) -> NDArray[np.float64]:
        """The divergence of every sample from every codevector.

        Parameters
        ----------
        samples : array-like of shape (n_samples, n_features)
            The first arguments.
        codevectors : array-like of shape (n_codevectors, n_features)
            The second arguments.
        name : str, default="X"
            What an error message calls the samples.

        Returns
        -------
        ndarray of shape (n_samples, n_codevectors)
            Non-negative divergences, up to rounding.

        Raises
        ------
        ValueError
            If a sample is outside the domain.
        """
        points = np.ascontiguousarray(np.atleast_2d(samples), dtype=np.float64)
        self.check(points, name)
        location = np.ascontiguousarray(np.atleast_2d(codevectors).T, dtype=np.float64)
        result = np.empty((len(points), location.shape[1]))
        for point, row in zip(points, result, strict=True):
            kernels.divergences(self.kind, point, location, location.shape[1], row)
        return result

    def critical_temperature(self, mean: ArrayLike, covariance: ArrayLike) -> float:
        """The temperature below which a cell with these moments splits in two.

        Parameters
        ----------
        mean : array-like of shape (n_features,)
            The cell's codevector.
        covariance : array-like of shape (n_features, n_features)
            The covariance of the data in the cell.

        Returns
        -------
        float
            The largest eigenvalue of phi''(mean) C, in the units of the divergence: for the squared
            Euclidean distance twice the largest variance. (Theorem 5, eq. 18, where T = lambda /
            (1 - lambda).)
        """
        root = np.sqrt([kernels.curvature(self.kind, float(m)) for m in np.ravel(mean)])
        whitened = root[:, None] * np.asarray(covariance, dtype=float) * root[None, :]
        return float(np.linalg.eigvalsh(whitened)[-1])


DIVERGENCES = {
    d.name: d
    for d in (
        Divergence("squared_euclidean", kernels.SQUARED_EUCLIDEAN),
        Divergence("kl", kernels.GENERALIZED_KL, minimum=0.0),
    )
}


def get_divergence(divergence: "str | Divergence") -> Divergence:
    """Look a divergence up by its name.

    Parameters
    ----------
    divergence : str or Divergence
        `"squared_euclidean"`, `"kl"` (the generalised I-divergence, for non-negative data), or a
        `Divergence`, which is returned as it is.

    Returns
    -------
    Divergence

    Raises
    ------
    ValueError
        If there is no divergence of that name.
    """
    if isinstance(divergence, Divergence):
        return divergence
    try:
        return DIVERGENCES[divergence]
    except (KeyError, TypeError):
        raise ValueError(
            f"divergence must be one of {sorted(DIVERGENCES)}, got {divergence!r}."
        ) from None
