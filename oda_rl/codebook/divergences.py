"""Bregman divergences: measures of dissimilarity between a sample and a codevector."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaExperimentalFeatureWarning
from numpy.typing import ArrayLike

from oda_rl._jit import lean_kernel
from oda_rl._types import Array
from oda_rl._validation import LARGEST, check_size
from oda_rl.codebook import association as kernels

# Numba's warning about functions passed to compiled code is of no use to users of a divergence.
warnings.filterwarnings(
    "ignore", message="First-class function type", category=NumbaExperimentalFeatureWarning
)

# Smaller variances lose digits, and products of them underflow to 0.
SMALLEST_SQUARE = 1e-150
# With more features than this, and fewer samples, eigenvectors are found as combinations of samples.
WIDE = 200

Scalar = Callable[..., float]


@dataclass(frozen=True)
class Divergence:
    """A Bregman divergence d(x, mu) and the domain on which it is defined.

    Bregman divergences are the dissimilarities for which the best representative of a set is its mean
    (Definition 1 and Theorem 2 of Mavridis and Baras, "Multi-Resolution Online Deterministic
    Annealing"). This is why a codevector can be learned without a gradient.

    Those of the package are looked up by name; to add one, see `Divergence.from_functions`.

    Parameters
    ----------
    name : str
        The name by which users choose it.
    kind : int or pair of compiled functions
        What selects it in compiled kernels; see `oda_rl.codebook.association`.
    minimum : float
        The lower bound of the coordinates.
    open_minimum : bool, default=False
        Whether the bound itself is outside the domain of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl.codebook.divergences import get_divergence
    >>> get_divergence("squared_euclidean")(np.array([[0.0, 1.0]]), np.array([[2.0, 1.0]]))
    array([[4.]])
    """

    name: str
    kind: Any
    minimum: float = -np.inf
    open_minimum: bool = False

    @classmethod
    def from_functions(
        cls,
        name: str,
        divergence: Scalar,
        curvature: Scalar,
        minimum: float = -np.inf,
        open_minimum: bool = False,
    ) -> "Divergence":
        """Define a divergence, a sum over the coordinates of d(x_j, mu_j).

        It must be a Bregman divergence, d(x, mu) = phi(x) - phi(mu) - phi'(mu) (x - mu): for others, a
        codevector should not converge to the mean. In compiled code, each call of a function takes some
        3 nanoseconds. Loops over such calls are not vectorised, unlike those of built-in divergences.

        Parameters
        ----------
        name : str
            The name in messages. The estimators' files store the name only.
        divergence : callable
            d(x, mu) of two numbers, written with the functions of `math`. Numba compiles it. If it is
            defined in a module, not at a prompt, it can be pickled, and its machine code is cached on
            disk.
        curvature : callable
            phi''(mu) of one number: the second derivative of the generator. Critical temperatures
            depend on it.
        minimum, open_minimum : float and bool
            The lower bound of the coordinates, and whether it is outside the domain.

        Returns
        -------
        Divergence

        Examples
        --------
        The divergence of the generator phi(x) = 1 / x, for positive data:

        >>> import numpy as np
        >>> def inverse(x, mu):
        ...     return 1.0 / x - 2.0 / mu + x / (mu * mu)
        >>> def inverse_curvature(mu):
        ...     return 2.0 / mu**3
        >>> mine = Divergence.from_functions("inverse", inverse, inverse_curvature, 0.0, True)
        >>> mine(np.array([[1.0, 2.0]]), np.array([[2.0, 2.0]]))
        array([[0.25]])
        >>> from oda_rl import ODAPartition
        >>> X = np.random.default_rng(0).gamma(9.0, size=(300, 2))
        >>> ODAPartition(4, divergence=mine, random_state=0).fit(X).n_codevectors_
        4
        """
        return cls(name, _compile(divergence, curvature), minimum, open_minimum)

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.kind, int):
            return Divergence, (self.name, self.kind, self.minimum, self.open_minimum)
        functions = (compiled.__wrapped__ for compiled in self.kind)
        return Divergence.from_functions, (self.name, *functions, self.minimum, self.open_minimum)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Divergence":
        return self  # it is immutable, and functions from a prompt could not be pickled

    @property
    def is_euclidean(self) -> bool:
        """Whether this is the squared Euclidean distance of the package, whatever its name."""
        return bool(self.kind == kernels.SQUARED_EUCLIDEAN)

    def bound_below(self, inside: float) -> float:
        """The lower end of a range of coordinates in the domain, about a coordinate `inside`.

        This is the minimum, or, as an open minimum is outside the domain, halfway from there.
        """
        return 0.5 * (self.minimum + inside) if self.open_minimum else self.minimum

    def contains(self, samples: Array) -> bool:
        """Whether `check` accepts samples: fast, for C-contiguous, writeable arrays of float64."""
        return bool(_are_inside(samples, self.minimum, self.open_minimum, LARGEST))

    def check(self, samples: Array, name: str = "X") -> None:
        """Raise a ValueError that names the first column outside the domain.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
            The data.
        name : str, default="X"
            The name of the data in the message.

        Raises
        ------
        ValueError
            If a coordinate is not finite, too large or below the divergence's minimum.
        """
        check_size(samples, name)
        if self.minimum == -np.inf:
            return
        outside = samples <= self.minimum if self.open_minimum else samples < self.minimum
        if outside.any():
            row, column = np.argwhere(outside)[0]
            bound = "greater than" if self.open_minimum else "at least"
            raise ValueError(
                f"{name} is outside the domain of the divergence "
                f"{self.name!r}: column {column} is {samples[row, column]} in row {row}; it must be "
                f"{bound} {self.minimum}."
            )

    def __call__(self, samples: ArrayLike, codevectors: ArrayLike, name: str = "X") -> Array:
        """The divergence of every sample from every codevector.

        Parameters
        ----------
        samples : array-like of shape (n_samples, n_features)
            The first arguments.
        codevectors : array-like of shape (n_codevectors, n_features)
            The second arguments.
        name : str, default="X"
            The name of the samples in error messages.

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
        return self.between(points, np.atleast_2d(codevectors))

    def between(self, samples: ArrayLike, codevectors: ArrayLike) -> Array:
        """Compute divergences (n_samples, n_codevectors) like a call, of samples known to be valid."""
        points = np.ascontiguousarray(samples, dtype=np.float64)
        location = np.ascontiguousarray(np.transpose(codevectors), dtype=np.float64)
        result = np.empty((len(points), location.shape[1]))
        kernels.all_divergences(self.kind, points, location, location.shape[1], result)
        return result

    def scale(self, codevector: ArrayLike) -> Array:
        """sqrt(phi'') at every coordinate of a codevector, a factor that makes differences comparable.

        Parameters
        ----------
        codevector : array-like of shape (n_features,)
            The codevector.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return np.sqrt([kernels.curvature(self.kind, float(mu)) for mu in np.asarray(codevector)])

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
        root = self.scale(np.ravel(mean))
        whitened = root[:, None] * np.asarray(covariance, dtype=float) * root[None, :]
        return float(np.linalg.eigvalsh(whitened)[-1])

    def moments(self, samples: Array, weight: Array) -> tuple[float, Array, Array, Array]:
        """The moments of the samples as a single cell.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
            Inside the domain.
        weight : ndarray of shape (n_samples,)
            Their weights.

        Returns
        -------
        critical : float
            The critical temperature (Theorem 5); 0 if samples differ by no more than rounding errors,
            or by so little that squares vanish.
        mean, axis, variances : ndarray of shape (n_features,)
            The mean, the leading eigenvector of phi'' C with length `critical`, and the variances.
        """
        mean = np.average(samples, axis=0, weights=weight)
        d = samples.shape[1]
        root = self.scale(mean)
        rounding = np.finfo(float).eps * float(np.abs(root * mean).max())
        if len(samples) < d > WIDE:  # the eigenvector is a combination of the samples
            away = (samples - mean) * np.sqrt(weight / weight.sum())[:, None]
            variances = (away**2).sum(axis=0)
            values, vectors = np.linalg.eigh((away * root) @ (away * root).T)
            leading = vectors[:, -1] @ (away * root)
            leading /= max(float(np.linalg.norm(leading)), SMALLEST_SQUARE)
        else:
            covariance = np.cov(samples, rowvar=False, aweights=weight, bias=True).reshape(d, d)
            variances = np.diag(covariance).copy()
            values, vectors = np.linalg.eigh(root[:, None] * covariance * root[None, :])
            leading = vectors[:, -1]
        critical = float(values[-1])
        if critical <= max(rounding**2, SMALLEST_SQUARE):
            critical = 0.0
        return critical, mean, critical * leading, variances


@lean_kernel
def _are_inside(samples: Array, minimum: float, is_open: bool, largest: float) -> bool:
    """Whether no value of `samples` is NaN, below `minimum`, or beyond `largest` in absolute value.

    If `is_open`, the minimum itself is outside.
    """
    for t in range(samples.shape[0]):
        for j in range(samples.shape[1]):
            x = samples[t, j]
            if not (abs(x) <= largest and x >= minimum) or (is_open and x == minimum):
                return False
    return True


DIVERGENCES = {
    d.name: d
    for d in (
        Divergence("squared_euclidean", kernels.SQUARED_EUCLIDEAN),
        Divergence("kl", kernels.GENERALIZED_KL, minimum=0.0),
        Divergence("itakura_saito", kernels.ITAKURA_SAITO, minimum=0.0, open_minimum=True),
    )
}


def _compile(divergence: Scalar, curvature: Scalar) -> tuple[Any, Any]:
    # `cfunc`s are first-class functions: kernels that take them are compiled once for all of them.
    return (
        _compile_one("float64(float64, float64)", divergence),
        _compile_one("float64(float64)", curvature),
    )


def _compile_one(signature: str, function: Scalar) -> Any:
    try:
        return numba.cfunc(signature, cache=True)(function)
    except RuntimeError:  # numba cannot cache a function that was defined at a prompt
        return numba.cfunc(signature)(function)


def get_divergence(divergence: "str | Divergence") -> Divergence:
    """Look a divergence up by its name.

    Parameters
    ----------
    divergence : str or Divergence
        `"squared_euclidean"`, `"kl"` (the generalised I-divergence, for non-negative data),
        `"itakura_saito"` (x / mu - log(x / mu) - 1, for positive data such as power spectra; it is scale
        invariant), or a `Divergence`, which is returned unchanged.

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
