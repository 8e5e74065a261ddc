"""The limit of temperature zero when the samples are at hand: a hard quantizer out of a soft one."""

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook import hard_cells as batch
from oda_rl.codebook.divergences import Divergence

Array = NDArray[np.float64]

# Turns of a quench, and the relative gain at which one ends: for trial moves, and for the last word.
TRIAL_TURNS, TRIAL_TOLERANCE = 8, 1e-3
MAX_TURNS, TOLERANCE = 300, 1e-5
# Fruitless moves of a single codevector, to other samples each time, after which there are no more.
SINGLE_MOVES = 3


class Quench:
    """Takes codevectors to the limit of temperature zero, K fixed.

    Cells and means in turn (eq. 10 with hard associations) lead to a local minimum of the distortion.
    Out of it lead moves of whole codevectors: those whose cells are worth least go where the distortion
    is largest, several at a time and ever fewer, as long as that pays. An annealed codebook is soft:
    two of its codevectors may share what becomes one cell, and others have to cover too much.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features), C-contiguous float64
        The data, inside the domain of the divergence.
    sample_weight : ndarray of shape (n_samples,)
        Their weights.
    divergence : Divergence
        What the distortion is made of.
    rng : Generator
        Draws the samples to which codevectors move.
    max_trials : int, default=60
        Turns to be spent on moves; 0 for none.

    Examples
    --------
    >>> from oda_rl.codebook.divergences import get_divergence
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    >>> quench = Quench(X, np.ones(6), get_divergence("squared_euclidean"), np.random.default_rng(0))
    >>> codevectors, distortion = quench(np.array([[0.0], [1.0], [15.0]]))
    >>> np.sort(codevectors.ravel()), distortion
    (array([ 0.5, 10.5, 20.5]), 0.25)
    """

    def __init__(
        self,
        samples: Array,
        sample_weight: Array,
        divergence: Divergence,
        rng: np.random.Generator,
        max_trials: int = 60,
    ) -> None:
        # Squared distances of centred data may be computed by products without losing digits.
        centred = divergence.name == "squared_euclidean"
        self._shift = samples.mean(axis=0) if centred else np.zeros(samples.shape[1])
        self._samples = samples - self._shift if centred else samples
        self._weight = sample_weight
        self._divergence = divergence
        self._rng = rng
        self._max_trials = max_trials
        n = len(samples)
        self._cells = np.zeros(n, dtype=np.int64), np.empty(n), np.empty(n)

    def __call__(self, codevectors: Array) -> tuple[Array, float]:
        """Quench.

        Parameters
        ----------
        codevectors : ndarray of shape (n_codevectors, n_features)
            Where to start; not changed.

        Returns
        -------
        codevectors : ndarray of shape (n_codevectors, n_features)
            Where the distortion is least, as far as was found.
        distortion : float
            The mean divergence of the samples from the nearest of them.
        """
        location = np.ascontiguousarray((codevectors - self._shift).T)
        if self._max_trials > 0 and len(codevectors) > 1:
            distortion, _ = self._turn(location, TRIAL_TOLERANCE, MAX_TURNS)
            location = self._move(location, distortion, self._max_trials)
        distortion, _ = self._turn(location, TOLERANCE, MAX_TURNS)
        return location.T + self._shift, distortion

    @property
    def n_samples(self) -> int:
        """Samples it works with."""
        return len(self._samples)

    def distortion(self, codevectors: Array) -> float:
        """The mean divergence of the samples from the nearest codevector."""
        location = np.ascontiguousarray((codevectors - self._shift).T)
        k = location.shape[1]
        batch.assign_all(self._divergence.kind, self._samples, location, k, *self._cells)
        return float(batch.distortion(self._weight, self._cells[1]))

    def _turn(self, location: Array, tolerance: float, turns: int) -> tuple[float, int]:
        k = location.shape[1]
        distortion, spent = batch.quench(
            self._divergence.kind,
            self._samples,
            self._weight,
            k,
            location,
            tolerance,
            turns,
            *self._cells,
            np.empty(k),
        )
        return float(distortion), int(spent)

    def _move(self, location: Array, distortion: float, trials: int) -> Array:
        k = location.shape[1]
        n_moves, chances = max(1, k // 5), SINGLE_MOVES
        cells = tuple(array.copy() for array in self._cells)
        while chances > 0 and trials > 0:
            trial = location.copy()
            draws = self._rng.random(n_moves)
            if not batch.relocate(self._samples, self._weight, *cells, k, trial, n_moves, draws):
                break
            found, spent = self._turn(trial, TRIAL_TOLERANCE, TRIAL_TURNS)
            trials -= spent
            if found < distortion * (1.0 - 1e-6):
                location, distortion = trial, found
                cells = tuple(array.copy() for array in self._cells)
            elif n_moves > 1:
                n_moves //= 2
            else:
                chances -= 1
        return location
