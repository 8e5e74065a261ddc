"""Evolution strategy with covariance matrix adaptation: gradient-free search under noise."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class CovarianceAdaptation:
    """CMA-ES: draws points about a mean, then adapts mean and covariance to the better half of them.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        The starting point, in units in which all coordinates have about the same influence.
    sigma : float
        Standard deviation of the first points along each coordinate.
    rng : numpy.random.Generator
        Draws the points.

    Attributes
    ----------
    mean : ndarray of shape (n,)
        The best guess.
    n_points : int
        Points per generation, 4 + 3 ln n, rounded down.

    References
    ----------
    N. Hansen: "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772, Figure 6 and Table 1, with
    positive weights only.
    """

    def __init__(self, mean: Array, sigma: float, rng: np.random.Generator) -> None:
        n = len(mean)
        self.mean, self.sigma, self.rng = mean.copy(), sigma, rng
        self.n_points = 4 + int(3 * np.log(n))
        parents = self.n_points // 2
        weights = np.log(0.5 * (self.n_points + 1)) - np.log(np.arange(1, parents + 1))
        self.weights = weights / weights.sum()
        self.mass = mass = 1.0 / (self.weights**2).sum()
        self.c_path = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self.c_sigma = (mass + 2) / (n + mass + 5)
        self.c_one = 2 / ((n + 1.3) ** 2 + mass)
        self.c_many = min(1 - self.c_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
        self.damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + self.c_sigma
        self.expected = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # length of a normal vector
        self.covariance = np.eye(n)
        self.path, self.path_sigma = np.zeros(n), np.zeros(n)
        self.generation = 0

    def ask(self) -> Array:
        """Draw the points of a generation, (n_points, n)."""
        values, self.axes = np.linalg.eigh(self.covariance)
        self.lengths = np.sqrt(np.maximum(values, 1e-20))
        drawn = self.rng.standard_normal((self.n_points, len(self.mean)))
        self.steps = (drawn * self.lengths) @ self.axes.T
        return self.mean + self.sigma * self.steps

    def tell(self, worth: Array) -> None:
        """Update the distribution; `worth` (n_points,) are the points' scores, larger is better."""
        best = self.steps[np.argsort(-worth, kind="stable")[: len(self.weights)]]
        step = self.weights @ best
        self.mean = self.mean + self.sigma * step
        self.generation += 1
        white = self.axes @ ((self.axes.T @ step) / self.lengths)
        c, n = self.c_sigma, len(self.mean)
        self.path_sigma = (1 - c) * self.path_sigma + np.sqrt(c * (2 - c) * self.mass) * white
        length = np.linalg.norm(self.path_sigma)
        usual = length / np.sqrt(1 - (1 - c) ** (2 * self.generation))
        is_steady = usual < (1.4 + 2 / (n + 1)) * self.expected
        c = self.c_path
        self.path = (1 - c) * self.path + is_steady * np.sqrt(c * (2 - c) * self.mass) * step
        lost = (1 - is_steady) * c * (2 - c)
        kept = 1 - self.c_one - self.c_many + self.c_one * lost
        self.covariance = (
            kept * self.covariance
            + self.c_one * np.outer(self.path, self.path)
            + self.c_many * (best.T * self.weights) @ best
        )
        self.sigma *= float(np.exp(self.c_sigma / self.damping * (length / self.expected - 1)))
