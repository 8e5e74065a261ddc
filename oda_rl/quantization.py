"""The papers' baselines: stochastic and learning vector quantization, batch deterministic annealing."""

import time
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl._validation import numbers_of
from oda_rl.codebook.batch_annealing import BatchAnnealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import Divergence
from oda_rl.codebook.lloyd import quantize
from oda_rl.codebook.schedule import Cooling, PathPoint, Stepsize, first_and_last_temperature
from oda_rl.estimators.base import StreamEstimator
from oda_rl.estimators.codebook_estimator import FITTED, CodebookEstimator
from oda_rl.estimators.lvq import LVQ
from oda_rl.estimators.parameters import declared
from oda_rl.estimators.settings import check_order

__all__ = ["LVQ", "DeterministicAnnealing", "Pass", "StochasticVQ"]


class Pass(NamedTuple):
    """One pass of `StochasticVQ`: the distortion measured during it, samples and seconds so far."""

    distortion: float
    n_samples_seen: int
    seconds: float


@dataclass(eq=False, repr=False)
class StochasticVQ(CodebookEstimator, StreamEstimator):
    """Stochastic vector quantization: online learning at temperature zero, with a given K.

    The nearest codevector moves towards the sample. Each codevector has its own stepsize, which falls
    with the number of its samples. The result depends on where the codevectors start.

    Parameters
    ----------
    n_codevectors : int, default=8
        The number K of codevectors. There are fewer if there are fewer samples.
    stepsize : tuple of two floats, default=(1.0, 1.0)
        (a, b) of the stepsizes 1 / (a + b v), v the total weight of the codevector's samples so far.
    init : "random" or array-like of shape (n_codevectors, n_features), default="random"
        First codevectors, given or "random": samples chosen at random by `fit`, the first samples by
        `partial_fit`.
    max_passes : int, default=20
        The largest number of passes of `fit` over the data.
    tol : float, default=1e-4
        `fit` ends when a pass lowers the distortion by at most this fraction.
    divergence : str or Divergence, default="squared_euclidean"
        As for `ODAPartition`.
    random_state : int, RandomState instance or None, default=None
        Chooses the first codevectors and orders the samples.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        The codevectors.
    weights_, spreads_ : ndarray of shape (n_codevectors,) and (n_codevectors, n_features)
        Probabilities of the cells, and variances of their samples.
    labels_ : ndarray of shape (n_samples,)
        Cells of the samples of `fit`. Absent after `partial_fit`.
    inertia_ : float
        The sum of the divergences of these samples from their codevectors.
    n_codevectors_, n_samples_seen_ : int
        K, and the number of samples presented.
    n_fitted_ : int
        Samples of `fit` with a positive weight. Absent after `partial_fit`.
    history_ : list of Pass
        One record per pass of `fit`.

    Notes
    -----
    The gradient of a Bregman divergence is phi''(mu) (mu - x). The step here is along mu - x alone: it
    has the same direction and equilibrium, and keeps mu inside the domain.

    References
    ----------
    Mavridis and Baras, "Online Deterministic Annealing for Classification and Clustering", Definition 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.2], [4.0], [4.2]])
    >>> model = StochasticVQ(2, init=[[1.0], [3.0]], random_state=0).fit(X)
    >>> model.predict([[0.5], [3.9]])
    array([0, 1])
    """

    n_codevectors: int = 8
    _: KW_ONLY
    stepsize: tuple[float, float] = (1.0, 1.0)
    init: Literal["random"] | ArrayLike = "random"
    max_passes: int = 20
    tol: float = 1e-4
    divergence: str | Divergence = "squared_euclidean"
    random_state: Any = None

    def _fit(self, X: ArrayLike, y: object, sample_weight: ArrayLike | None) -> None:
        self._settings(begin=True)
        samples, weight = self._check_weighted(X, sample_weight, reset=True)
        relative = self._begin_weights(weight)
        rng = self._generator()
        begun = time.perf_counter()
        n = min(self.n_codevectors, len(samples))
        self._start(samples[rng.choice(len(samples), n, replace=False)])
        self.history_: list[Pass] = []
        before = np.inf
        for _ in range(self.max_passes):
            order = rng.permutation(len(samples))
            distortion = self._learn(samples[order], relative[order]) / len(samples)
            self.history_.append(Pass(distortion, self.n_samples_seen_, time.perf_counter() - begun))
            if before - distortion <= self.tol * distortion:
                break
            before = distortion
        labelled = self._with_unused(X, sample_weight, samples)
        self._set_codebook(self._location.T.copy(), samples, weight, labelled)
        self._n_repeated = self.n_samples_seen_ - len(samples)

    def _partial_fit(self, X: ArrayLike, y: object, sample_weight: ArrayLike | None) -> None:
        first = not hasattr(self, "_location")
        self._settings(begin=first)
        samples, weight = self._check_weighted(X, sample_weight, reset=first)
        weight = self._relative(weight)
        if first:
            self._start(samples[:0])
        missing = self.n_codevectors - self._location.shape[1] if self._is_random() else 0
        if missing > 0:
            self._append(samples[:missing], weight[:missing])
            samples, weight = samples[missing:], weight[missing:]
        self._learn(samples, weight)
        self.codevectors_ = self._location.T.copy()
        self.n_codevectors_ = len(self.codevectors_)
        self.weights_ = self._count / self._count.sum()
        self.spreads_ = self._spread.T.copy()
        self._forget_samples()

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        return declared(cls) | {
            "fitted": FITTED,
            "history": [("float in [0, inf)", "count", "float in [0, inf)")],
            "location": "float[d, K]",
            "count": "float[K] in [0, inf)",
            "spread": "float[d, K] in [0, inf)",
        }

    def _get_state(self) -> dict[str, Any]:
        stream = {"location": self._location, "count": self._count, "spread": self._spread}
        return super()._get_state() | stream

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        self._settings(begin=True)
        self.history_ = [Pass(*record) for record in state["history"]]
        self._location, self._count, self._spread = (state[n] for n in ("location", "count", "spread"))

    def _read_parameters(self) -> Stepsize:
        return Stepsize.of(self.stepsize)

    def _is_random(self) -> bool:
        return isinstance(self.init, str)

    def _start(self, chosen: Array) -> None:
        """Begin with the chosen samples, or with the codevectors given as `init`."""
        codevectors = chosen
        if not self._is_random():
            codevectors = np.atleast_2d(numbers_of(self.init, "init"))
            shape = (self.n_codevectors, self.n_features_in_)
            if codevectors.shape != shape:
                raise ValueError(f"init must have shape {shape}, got {codevectors.shape}.")
            self._divergence.check(codevectors, "init")
        self._location = np.ascontiguousarray(codevectors.T)
        self._count = np.zeros(len(codevectors))
        self._spread = np.zeros_like(self._location)
        self.n_codevectors_ = len(codevectors)
        self.n_samples_seen_ = self._n_repeated = 0

    def _append(self, samples: Array, weight: Array) -> None:
        self._location = np.ascontiguousarray(np.hstack([self._location, samples.T]))
        self._count = np.concatenate([self._count, weight])
        self._spread = np.ascontiguousarray(np.hstack([self._spread, np.zeros_like(samples.T)]))
        self.n_samples_seen_ += len(samples)

    def _learn(self, samples: Array, weight: Array) -> float:
        self.n_samples_seen_ += len(samples)
        a, b = map(float, self.stepsize)
        cells = self._location.shape[1], self._location, self._count, self._spread
        return quantize(self._divergence.kind, samples, weight, a, b, *cells)


@dataclass(eq=False, repr=False)
class DeterministicAnnealing(CodebookEstimator):
    """Deterministic annealing in batches (Rose 1998), with mass constraints.

    Every iteration uses all samples. At each temperature, associations and means are updated in turn
    until they converge; a cell splits when the temperature falls below the critical temperature of its
    covariance. Once there are `max_codevectors`, the temperature falls on to `t_min` with K fixed.

    Parameters
    ----------
    max_codevectors : int, default=8
        K_max, the largest number of codevectors.
    t_max, t_min : float or "auto", default="auto"
        First and last temperature, in the units of the divergence; as for `ODAPartition`.
    cooling : float, default=0.9
        The factor of the schedule at each step.
    schedule : {"temperature", "lambda"}, default="temperature"
        The parameter that falls geometrically, as for `ODAPartition`.
    tol_converge, tol_merge : float, default=1e-4 and 1e-3
        In units of the temperature: the largest divergence by which converged codevectors may move in an
        iteration, and the divergence below which two codevectors are merged.
    perturbation : float, default=0.1
        Least offset of the children of a split, in standard deviations of the cell.
    max_iter : int, default=100
        The largest number of iterations at one temperature.
    divergence : str or Divergence, default="squared_euclidean"
        As for `ODAPartition`.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        The codevectors.
    weights_, spreads_ : ndarray of shape (n_codevectors,) and (n_codevectors, n_features)
        Probabilities of the cells, and variances of their samples.
    labels_ : ndarray of shape (n_samples,)
        Cells of the samples.
    n_codevectors_, n_samples_seen_ : int
        K, and the number of samples presented: the number of samples times that of iterations.
    n_fitted_ : int
        Samples of `fit` with a positive weight.
    n_iter_ : int
        The number of iterations at all temperatures together.
    temperature_ : float
        The last temperature.
    history_ : list of PathPoint
        One record per temperature, as for `ODAPartition`, with distortions of the soft codevectors.

    References
    ----------
    K. Rose, "Deterministic annealing for clustering, compression, classification, regression, and
    related optimization problems", Proceedings of the IEEE 86 (1998).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.2], [4.0], [4.2]])
    >>> DeterministicAnnealing(2).fit(X).codevectors_.round(1).tolist()
    [[4.1], [0.1]]
    """

    max_codevectors: int = 8
    _: KW_ONLY
    t_max: float | Literal["auto"] = "auto"
    t_min: float | Literal["auto"] = "auto"
    cooling: float = 0.9
    schedule: str = "temperature"
    tol_converge: float = 1e-4
    tol_merge: float = 1e-3
    perturbation: float = 0.1
    max_iter: int = 100
    divergence: str | Divergence = "squared_euclidean"

    def _fit(self, X: ArrayLike, y: object, sample_weight: ArrayLike | None) -> None:
        cooling = self._settings(begin=True)
        samples, weight = self._check_weighted(X, sample_weight, reset=True)
        shares = weight / weight.sum()
        critical, mean, _, _ = self._divergence.moments(samples, shares)
        book = Codebook(samples.shape[1], divergence=self._divergence)
        book.add(mean)
        annealer = BatchAnnealer(
            book,
            *first_and_last_temperature(self.t_max, self.t_min, critical),
            cooling,
            max_codevectors=self.max_codevectors,
            tol_converge=self.tol_converge,
            tol_merge=self.tol_merge,
            min_weight=0.0,
            perturbation=self.perturbation,
            seed=0,
        )
        annealer.max_iter = self.max_iter
        self.history_ = annealer.run(samples, shares)
        last: PathPoint = self.history_[-1]
        labelled = self._with_unused(X, sample_weight, samples)
        self._set_codebook(last.codevectors, samples, weight, labelled)
        self.n_codevectors_ = last.n_codevectors
        self.temperature_ = last.temperature
        self.n_samples_seen_ = last.n_samples_seen
        self.n_iter_ = self.n_samples_seen_ // len(samples)
        self._n_repeated = self.n_samples_seen_ - len(samples)

    def _read_parameters(self) -> Cooling:
        check_order(self.t_max, self.t_min)
        return Cooling(self.cooling, self.schedule)

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        number = "float in [0, inf)"
        point = (number, "count", number, "count", number, [number], "float[k, d]", number, number)
        more = {"temperature_": "float in (0, inf)", "n_iter_": "count"}
        return declared(cls) | {"fitted": FITTED | more, "history": [point]}

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        self._settings(begin=True)
        self.history_ = [PathPoint(*record) for record in state["history"]]
