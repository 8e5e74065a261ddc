"""The annealer: learns a codebook from samples while the temperature falls (Algorithm 1)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl import kernels
from oda_rl.codebook import Codebook
from oda_rl.schedule import Cooling, Stepsize

BIFURCATIONS = ("perturb", "critical")


class Level(NamedTuple):
    """What happened at one temperature: a record of `Annealer.history`."""

    temperature: float
    n_codevectors: int
    distortion: float
    n_samples_seen: int
    n_splits: int
    n_merges: int
    n_pruned: int


class Annealer:
    """Flat progressive partitioning: the state machine around the learning rule.

    At each temperature the codevectors follow the learning rule (eqs. 12 and 13) until they stand still.
    Then those that coincide are merged and idle ones pruned, the temperature falls, and cells for which
    it is now critical split in two. (Algorithm 1 of Mavridis and Baras, "Multi-Resolution Online
    Deterministic Annealing", with the weights rho in the association probabilities.)

    Parameters
    ----------
    codebook : Codebook
        With at least one cell of each label that will be seen. It is changed in place.
    t_max, t_min : float
        The first temperature and the last, in the units of the divergence. Above twice the largest
        variance a codebook with the squared Euclidean distance stays at one cell.
    cooling : Cooling, default=Cooling(0.9)
        The step from one temperature to the next.
    stepsize : Stepsize, default=Stepsize(1, 1)
        At update n of a temperature; its `power` must be 1.
    max_codevectors : int, default=100
        K_max. It is never exceeded when a temperature is finished.
    tol_converge : float, default=1e-3
        A temperature is finished when no codevector has moved by a divergence of more than
        `tol_converge` times the temperature between two checks (eps_c).
    tol_merge : float, default=0.05
        Codevectors closer than `tol_merge` times the temperature are one (eps_n).
    min_weight : float, default=1e-4
        Lighter cells are pruned (eps_r).
    perturbation : float, default=0.1
        Half the way between the children of a split, in standard deviations of the cell (delta).
    bifurcation : {"critical", "perturb"}, default="critical"
        `"critical"` splits a cell along its leading axis when the temperature falls below the critical
        one (Theorem 5); `"perturb"` doubles every cell at every temperature and merges the pairs that
        do not separate, as the papers do.
    check_every, max_samples : int, default=50 and 500
        Samples per cell between two checks for convergence, and at most at one temperature.
    seed : int, Generator or None, default=None
        Draws the directions of the perturbations.

    Attributes
    ----------
    temperature : float
        The present temperature.
    done : bool
        Whether t_min or K_max has been reached. Samples are still learned from, at the last
        temperature, but nothing splits any more.
    n_samples_seen, n_splits, n_merges : int
        Totals so far.
    history : list of Level
        One record per finished temperature.

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

    def __init__(
        self,
        codebook: Codebook,
        t_max: float,
        t_min: float,
        cooling: Cooling | None = None,
        stepsize: Stepsize | None = None,
        max_codevectors: int = 100,
        tol_converge: float = 1e-3,
        tol_merge: float = 0.05,
        min_weight: float = 1e-4,
        perturbation: float = 0.1,
        bifurcation: str = "critical",
        check_every: int = 50,
        max_samples: int = 500,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if not 0.0 < t_min <= t_max < np.inf:
            raise ValueError(f"0 < t_min <= t_max is needed, got t_min={t_min}, t_max={t_max}.")
        if bifurcation not in BIFURCATIONS:
            raise ValueError(f"bifurcation must be one of {BIFURCATIONS}, got {bifurcation!r}.")
        for name, value in (
            ("tol_converge", tol_converge),
            ("tol_merge", tol_merge),
            ("min_weight", min_weight),
        ):
            if not 0.0 <= value < np.inf:
                raise ValueError(f"{name} must be a non-negative number, got {value}.")
        if not perturbation > 0.0:
            raise ValueError(f"perturbation must be positive, got {perturbation}.")
        for name, count in (
            ("max_codevectors", max_codevectors),
            ("check_every", check_every),
            ("max_samples", max_samples),
        ):
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}.")
        if len(codebook) == 0:
            raise ValueError("codebook must have at least one cell to start from.")
        self.codebook = codebook
        self.t_max = t_max
        self.t_min = t_min
        self.temperature = t_max
        self.cooling = cooling or Cooling()
        self.stepsize = stepsize or Stepsize()
        if self.stepsize.power != 1.0:
            raise ValueError(f"stepsize must have power 1, got {self.stepsize.power}.")
        self.max_codevectors = max_codevectors
        self.tol_converge = tol_converge
        self.tol_merge = tol_merge
        self.min_weight = min_weight
        self.perturbation = perturbation
        self.bifurcation = bifurcation
        self.check_every = check_every
        self.max_samples = max_samples
        self.rng = np.random.default_rng(seed)
        self.done = False
        self.n = 1
        self.distortion = 0.0
        self.n_samples_seen = 0
        self.n_splits = 0
        self.n_merges = 0
        self.history: list[Level] = []
        self._seed_axes()
        self._begin_level()

    # -- learning --------------------------------------------------------------------------------

    def observe(
        self,
        samples: NDArray[np.float64],
        labels: NDArray[np.int64] | None = None,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Learn from samples in their order, through as many temperatures as they last for.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features), C-contiguous float64
            Inside the domain of the divergence; this is not checked here.
        labels : ndarray of shape (n_samples,), int64, optional
            A sample moves only the cells of its own label. Without, all have label 0.
        sample_weight : ndarray of shape (n_samples,), optional
            Multiplies the stepsize.
        """
        book = self.codebook
        if labels is None:
            labels = np.zeros(len(samples), dtype=np.int64)
        if sample_weight is None:
            sample_weight = np.ones(len(samples))
        share = np.empty(book.capacity)
        distance = np.empty(book.capacity)
        start = 0
        while start < len(samples):
            used, self.n, self.distortion, finished = kernels.anneal(
                samples[start:],
                labels[start:],
                sample_weight[start:],
                book.divergence.kind,
                self.temperature,
                self.stepsize.a,
                self.stepsize.b,
                self.n,
                self.distortion,
                self.check_interval,
                self.tol_converge * self.temperature,
                self.level_length,
                book.n_cells,
                book.location,
                book.weight,
                book.label,
                book.axis,
                self.reference,
                distance,
                share,
            )
            start += used
            self.n_samples_seen += used
            if finished:
                self.end_level()
                if share.shape[0] != book.capacity:
                    share = np.empty(book.capacity)
                    distance = np.empty(book.capacity)

    def end_level(self) -> None:
        """Finish the present temperature: merge, prune, cool, split.

        Whoever runs the learning rule in a loop of their own calls this when a temperature is finished.
        """
        book = self.codebook
        if self.done:
            self._begin_check()
            return
        merges = book.merge_close(self.tol_merge * self.temperature)
        merges += self._merge_surplus()
        pruned = book.prune_idle(self.min_weight)
        self.n_merges += merges
        cooled = self.cooling(self.temperature)
        self.done = len(book) >= self.max_codevectors or cooled < self.t_min
        n_codevectors = len(book)
        splits = 0
        if not self.done:
            splits = self._double() if self.bifurcation == "perturb" else self._split(cooled)
        self.history.append(
            Level(
                temperature=self.temperature,
                n_codevectors=n_codevectors,
                distortion=self.distortion,
                n_samples_seen=self.n_samples_seen,
                n_splits=splits,
                n_merges=merges,
                n_pruned=pruned,
            )
        )
        self.n_splits += splits
        if self.done:
            self._begin_check()
        else:
            self.temperature = cooled
            self._begin_level()

    # -- bifurcation -----------------------------------------------------------------------------

    def _split(self, temperature: float) -> int:
        """Split the cells that are critical at `temperature`, hottest first, while there is room."""
        book = self.codebook
        critical = book.critical_temperatures
        order = np.argsort(-critical, kind="stable")
        chosen = order[critical[order] > temperature][: self.max_codevectors - len(book)]
        for i in chosen:
            direction = book.axis[:, i] / critical[i]
            self._split_along(i, direction, critical[i])
        return len(chosen)

    def _double(self) -> int:
        """Give every cell a twin in a random direction; those that do not separate merge again."""
        book = self.codebook
        critical = book.critical_temperatures
        for i, direction in enumerate(self._directions(len(book))):
            self._split_along(i, direction, critical[i])
        return len(critical)

    def _split_along(self, i: int, direction: NDArray[np.float64], critical: float) -> None:
        # The axis lives where phi'' is one: there the cell's standard deviation is sqrt(T_c).
        book = self.codebook
        deviation = np.sqrt(critical if critical > 0.0 else self.temperature)
        offset = self.perturbation * deviation * direction
        for j, mu in enumerate(book.location[:, i]):
            offset[j] /= np.sqrt(kernels.curvature(book.divergence.kind, mu))
        book.split(i, offset)

    def _merge_surplus(self) -> int:
        """Merge the closest cells of one label until K_max is kept; nothing else is lost."""
        book = self.codebook
        surplus = max(0, len(book) - self.max_codevectors)
        for _ in range(surplus):
            distance = book.divergence(book.codevectors, book.codevectors)
            distance[book.labels[:, None] != book.labels[None, :]] = np.inf
            np.fill_diagonal(distance, np.inf)
            i, k = divmod(int(distance.argmin()), len(book))
            book.merge(min(i, k), max(i, k))
        return surplus

    # -- levels ----------------------------------------------------------------------------------

    def _directions(self, n: int) -> NDArray[np.float64]:
        directions = self.rng.normal(size=(n, self.codebook.n_features))
        return directions / np.linalg.norm(directions, axis=1, keepdims=True)

    def _seed_axes(self) -> None:
        # An axis of length zero has no direction to grow along.
        book = self.codebook
        blank = book.critical_temperatures == 0.0
        book.axis[:, : len(book)][:, blank] = 1e-12 * self._directions(int(blank.sum())).T

    def _begin_level(self) -> None:
        self.n = 1
        self.distortion = 0.0
        self._begin_check()

    def _begin_check(self) -> None:
        # At the last temperature only this is called: the stepsizes go on falling.
        book = self.codebook
        self.reference = book.location.copy()
        self.check_interval = self.check_every * len(book)
        self.level_length = self.n + self.max_samples * len(book)

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """All that has been learned but the codebook itself: plain numbers, lists and one array."""
        return {
            "temperature": self.temperature,
            "done": self.done,
            "n": self.n,
            "distortion": self.distortion,
            "n_samples_seen": self.n_samples_seen,
            "n_splits": self.n_splits,
            "n_merges": self.n_merges,
            "check_interval": self.check_interval,
            "level_length": self.level_length,
            "history": [list(level) for level in self.history],
            "rng": self.rng.bit_generator.state,
            "reference": self.reference[:, : len(self.codebook)].copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `get_state` was called; the codebook must have been restored before."""
        self.temperature = float(state["temperature"])
        self.done = bool(state["done"])
        self.distortion = float(state["distortion"])
        for name in (
            "n",
            "n_samples_seen",
            "n_splits",
            "n_merges",
            "check_interval",
            "level_length",
        ):
            setattr(self, name, int(state[name]))
        self.history = [Level(*record) for record in state["history"]]
        self.rng.bit_generator.state = state["rng"]
        self.reference = self.codebook.location.copy()
        self.reference[:, : len(self.codebook)] = state["reference"]
