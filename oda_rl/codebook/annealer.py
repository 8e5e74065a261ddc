"""The annealer: learns a codebook from samples while the temperature falls (Algorithm 1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._validation import Observed, check_at_least, check_non_negative, check_positive
from oda_rl.codebook import bifurcation as bifurcations
from oda_rl.codebook.annealer_state import StoredAnnealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.identities import Identities
from oda_rl.codebook.learning import Pace, anneal
from oda_rl.codebook.model_learning import Models
from oda_rl.codebook.schedule import Cooling, Level, Stepsize, begin_level

BIFURCATIONS = ("perturb", "critical", "literal")
# Above temperature zero, a cell moves only if that gains this many times its cost: if data have jumped.
MISSING_MARGIN = 10.0


@dataclass(eq=False, repr=False)
class Annealer(StoredAnnealer):
    """Flat progressive partitioning: the state machine around the learning rule.

    At each temperature the codevectors follow the learning rule (eqs. 12 and 13) until they converge.
    Then those that coincide are merged and idle ones pruned, the temperature falls, and cells for which
    it is now critical split (Algorithm 1 of "Multi-Resolution Online Deterministic Annealing").

    Parameters
    ----------
    codebook : Codebook
        With at least one cell of each label that will occur. It is changed in place.
    t_max, t_min : float
        The first temperature and the last, in the units of the divergence.
    cooling : Cooling, default=Cooling(0.9)
        The step from one temperature to the next.
    stepsize : Stepsize, default=Stepsize(1, 1)
        The stepsizes as a function of the number of updates.
    max_codevectors : int, default=100
        K_max. It is never exceeded when a temperature is finished.
    tol_converge : float, default=1e-3
        A temperature is finished when no codevector has moved by a divergence of more than
        `tol_converge` times the temperature between two checks (eps_c).
    tol_merge : float, default=0.05
        Codevectors closer than `tol_merge` times the temperature are merged (eps_n).
    min_weight : float, default=1e-4
        Lighter cells are pruned (eps_r).
    perturbation : float, default=0.1
        Half the distance between the children of a split, in standard deviations of the cell (delta).
    bifurcation : {"critical", "perturb", "literal"}, default="critical"
        As for `ODAPartition`; with `"literal"`, `perturbation` is in units of the square root of the
        temperature.
    check_every, max_samples : int, default=50 and 500
        Samples per cell between two checks for convergence, and the most at one temperature.
    memory : int, default=0
        The most samples per cell of the previous temperatures that still count in the stepsizes. If it
        is positive, a single cell, which is the same at every temperature, keeps all of them.
    min_samples : int, default=1
        Lower bound of `check_every` and `max_samples` times the number of cells.
    harden : bool, default=False
        Whether, once done, it learns at temperature zero (stochastic VQ), not at the last temperature.
    only_effective : bool, default=False
        Whether close codevectors merge unless one in their place would be critical (section II-D).
    seed : int, Generator or None, default=None
        Draws the directions of the perturbations.

    Attributes
    ----------
    temperature : float
        The present temperature.
    done : bool
        Whether annealing has ended, as at t_min or K_max. Learning goes on, without more codevectors.
    n_samples_seen, n_splits, n_merges : int
        Totals so far.
    history : list of Level
        One record per finished temperature.
    remembered : float
        The most samples per cell that count in the stepsizes; 0 is no limit.
    at_level_end : callable or None
        Called at the end of each temperature, before any split; if it returns True, annealing ends.
    settle : callable or None
        Takes the cells to equilibrium at a given temperature; returns whether that was possible.
    phase : ndarray of shape (2,)
        Averages at the present temperature: the expected distortion (eq. 2), and the logarithm of the
        sum in eq. 13.
    identities : Identities or None
        Numbers the cells; the codebook's payload must then have its field.

    Notes
    -----
    A field `"spread"` of the payload, with one column per feature, follows the variances of the cells.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 0.3, (500, 1)), rng.normal(3, 0.3, (500, 1))])
    >>> book = Codebook(1)
    >>> _ = book.add(X.mean(axis=0))
    >>> annealer = Annealer(book, t_max=40.0, t_min=1.0, seed=0)
    >>> while not annealer.done:
    ...     annealer.observe(rng.permutation(X))
    >>> np.sort(book.codevectors.round().ravel())
    array([-3.,  3.])
    """

    # Whether cells may be relocated once annealing is done, and whether K_max cells end the annealing
    moves_cells: ClassVar[bool] = True
    ends_when_full: ClassVar[bool] = True

    codebook: Codebook
    t_max: float
    t_min: float
    cooling: Cooling = field(default_factory=Cooling)
    stepsize: Stepsize = field(default_factory=Stepsize)
    max_codevectors: int = 100
    tol_converge: float = 1e-3
    tol_merge: float = 0.05
    min_weight: float = 1e-4
    perturbation: float = 0.1
    bifurcation: str = "critical"
    check_every: int = 50
    max_samples: int = 500
    memory: int = 0
    min_samples: int = 1
    harden: bool = False
    only_effective: bool = False
    seed: int | np.random.Generator | None = None

    def __post_init__(self) -> None:
        t_min, t_max = self.t_min, self.t_max = float(self.t_min), float(self.t_max)
        if not 0.0 < t_min <= t_max < np.inf:
            raise ValueError(
                f"t_min and t_max must satisfy 0 < t_min <= t_max, got t_min={t_min}, t_max={t_max}."
            )
        if self.bifurcation not in BIFURCATIONS:
            raise ValueError(f"bifurcation must be one of {BIFURCATIONS}, got {self.bifurcation!r}.")
        check_non_negative(**self._values("tol_converge", "tol_merge", "min_weight"))
        check_positive(perturbation=self.perturbation)
        check_at_least(1, **self._values("max_codevectors", "check_every", "max_samples", "min_samples"))
        check_at_least(0, memory=self.memory)
        if not callable(self.cooling) or not isinstance(self.stepsize, Stepsize):
            kinds = f"{self.cooling!r} and {self.stepsize!r}"
            raise ValueError(f"cooling must be a Cooling and stepsize a Stepsize, got {kinds}.")
        if len(self.codebook) == 0:
            raise ValueError("codebook must have at least one cell, got none.")
        self.temperature = t_max
        self.at_level_end: Callable[[], bool] | None = None
        self.settle: Callable[[float], bool] | None = None
        self.identities: Identities | None = None
        self.rng = np.random.default_rng(self.seed)
        self.done, self.remembered = False, 0.0
        self.n, self.distortion = 1, 0.0
        self.n_samples_seen = self.n_splits = self.n_merges = 0
        self.history: list[Level] = []
        self.phase = np.zeros(2)
        self._pairs = bifurcations.Pairs(self.codebook.n_features)
        bifurcations.seed_axes(self.codebook, self.rng)
        self._begin_level()

    def _values(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    # -- learning --------------------------------------------------------------------------------

    def observe(
        self,
        samples: ArrayLike,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        until_done: bool = False,
        targets: ArrayLike | None = None,
    ) -> None:
        """Learn from samples in their order, through as many temperatures as they suffice for.

        Parameters
        ----------
        samples : array-like of shape (n_samples, n_features)
            Inside the domain of the divergence; this is not checked here.
        labels : array-like of shape (n_samples,), whole numbers, optional
            A sample moves only the cells of its own label. By default, all labels are 0.
        sample_weight : array-like of shape (n_samples,), optional
            Multiplies the stepsize, of w samples at once if w > 1; the weights' mean should be one.
        until_done : bool, default=False
            Whether to stop at the sample with which the annealing is done.
        targets : array-like of shape (n_samples, n_outputs), optional
            The targets of local models, for annealers that train them.

        Raises
        ------
        ValueError
            If an argument is not an array of numbers, or has another shape.
        """
        book = self.codebook
        data = Observed.of(book.n_features, samples, labels, sample_weight, targets)
        start, n = 0, len(data.samples)
        while start < n and not (until_done and self.done):
            measuring = self._pairs.waiting
            used, finished = self._advance(*data.after(start), measuring)
            start += used
            self.n_samples_seen += used
            if finished and measuring:
                self._pairs.measure(book, self.stepsize.time(self.n))
                self.reference = book.location.copy()
            elif finished:
                self.end_level()

    def _advance(
        self,
        samples: NDArray[np.float64],
        targets: NDArray[np.float64] | None,
        labels: NDArray[np.int64],
        sample_weight: NDArray[np.float64],
        measuring: bool,
        models: Models | None = None,
    ) -> tuple[int, bool]:
        """Run the inner loop; returns the samples used, and whether the temperature is finished."""
        book = self.codebook
        used, self.n, self.distortion, finished = anneal(
            samples,
            labels,
            sample_weight,
            book.divergence.kind,
            self.pace(0 if measuring else self.level_length),
            self.n,
            self.distortion,
            book.n_cells,
            book.arrays,
            self.reference,
            book.payload[book.rows("spread")],
            models,
            self.phase,
        )
        return used, finished

    def pace(self, max_steps: int) -> Pace:
        """The temperature, the stepsizes and the checks of the inner loop."""
        limited = self.remembered > 0.0
        most = max(1.0, self.remembered * self.codebook.n_cells) if limited else math.inf
        now = 0.0 if self.done and self.harden else float(self.temperature)
        a, b, begun = float(self.stepsize.a), float(self.stepsize.b), self.level_begun - 1
        tolerance = float(self.tol_converge * self.temperature)
        return Pace(now, a, b, begun, self.check_interval, tolerance, max_steps, most)

    def end_level(self) -> None:
        """Finish the present temperature: merge, prune, cool, split.

        Call it if the learning rule runs in another loop than that of `observe`. If the cells are at
        equilibrium at the next temperature already, that is finished at once, too.
        """
        if self.done:
            moves = self._relocate()
            self.n_splits += moves
            self.n_merges += moves
            self._number_cells()
            (self._begin_level if moves > 0 else self._begin_check)()
            return
        while self._end_level():
            pass

    def _end_level(self) -> bool:
        """Finish the present temperature; returns whether the cells are at equilibrium at the next."""
        book = self.codebook
        merges = self._pairs.resolve(book, self.stepsize.time(self.n), self.temperature)
        if self.settle is not None:
            self.settle(self.temperature)
        merges += book.merge_close(self.tol_merge * self.temperature)
        if self.only_effective:
            merges += book.merge_ineffective(self.temperature)
        merges += book.merge_surplus(self.max_codevectors)
        pruned = book.prune_idle(self.min_weight)
        self.n_merges += merges
        cooled = self.cooling(self.temperature)
        stop = self.at_level_end is not None and self.at_level_end()
        full = self.ends_when_full and len(book) >= self.max_codevectors
        self.done = stop or full or cooled < self.t_min
        k, seen = len(book), self.n_samples_seen
        self._number_cells()
        met, standing = ((), False) if self.done else self._split(cooled)
        splits = len(book) - k
        record = self.temperature, k, self.distortion, seen, splits, merges, pruned, met
        self.history.append(Level(*record))
        self.n_splits += splits
        if self.done:
            (self._begin_level if self.harden else self._begin_check)()
        else:
            self.temperature = cooled
            self._begin_level()
            if self.bifurcation == "perturb":
                self._pairs.begin(book, self.stepsize.time(self.n))
        return standing and splits == 0

    def _relocate(self) -> int:
        """Move cells that contribute little to where they are missing; returns how many."""
        if self.harden:
            return bifurcations.relocate(self.codebook)
        if not self.moves_cells:
            return 0
        return bifurcations.relocate(self.codebook, MISSING_MARGIN, self.temperature)

    def use_stepsize(self, stepsize: Stepsize) -> None:
        """Change the stepsizes, at the beginning of a temperature; also used to judge its pairs."""
        self.stepsize = stepsize
        if self._pairs.waiting:
            self._pairs.begin(self.codebook, self.stepsize.time(self.n))

    def _split(self, cooled: float) -> tuple[tuple[float, ...], bool]:
        """Split cells for `cooled`; returns critical temperatures passed, and whether cells settled."""
        book = self.codebook
        if self.bifurcation == "critical":
            standing = self.settle is not None and self.settle(cooled)
            met = book.split_critical(cooled, self.max_codevectors, self.perturbation)
            self._number_cells()
            return tuple(float(value) for value in met), standing
        critical = book.critical_temperatures
        judged = self.bifurcation == "perturb"
        bifurcations.double(book, self.temperature, self.perturbation, self.rng, judged)
        return tuple(float(value) for value in np.sort(critical[critical > cooled])[::-1]), False

    def _number_cells(self) -> None:
        # The twins of a perturbation get numbers only once they have separated.
        if self.identities is not None:
            self.identities.update(self.codebook)

    # -- levels ----------------------------------------------------------------------------------

    def _begin_level(self) -> None:
        # As long as there is a single cell, it does not depend on the temperature.
        self.n, *_ = self._level(n_first=min(1, self.memory))
        self.level_begun = self.n
        self.distortion = 0.0
        self.phase[:] = 0.0
        self._begin_check()

    def _begin_check(self) -> None:
        self.reference = self.codebook.location.copy()
        _, self.check_interval, self.level_length = self._level(n_first=len(self.codebook))

    def _level(self, n_first: int) -> Any:
        per_cell = self.memory, self.check_every, self.max_samples
        return begin_level(self.n, len(self.codebook), n_first, *per_cell, self.min_samples)
