"""Progressive partitioning: a scikit-learn clusterer that can also learn from a stream."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from oda_rl._schema import Rules, Schema, Sized
from oda_rl.codebook.annealer import BIFURCATIONS
from oda_rl.codebook.continuing import continue_from
from oda_rl.codebook.divergences import Divergence
from oda_rl.codebook.identities import IDENTITIES, are_numbered
from oda_rl.codebook.schedule import PathPoint
from oda_rl.estimators.codebook_estimator import FITTED, PartitionJudge
from oda_rl.estimators.drift import UNDIVIDED
from oda_rl.estimators.feature_scaling import OF_SCALE, scale_by
from oda_rl.estimators.parameters import SCALES, choice, declared
from oda_rl.estimators.partition_stream import StreamPartition
from oda_rl.estimators.session_schema import run_schema
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.shapes import SCHEMA, Shapes
from oda_rl.estimators.stream_watch import Watch, watch_schema
from oda_rl.estimators.targets import Data


@dataclass(eq=False, repr=False)
class ODAPartition(StreamPartition):
    """Progressive partitioning by online deterministic annealing.

    The codebook begins with one codevector and grows as the temperature falls: cells split at their
    critical temperatures. So one fit gives a whole path of quantizers, from one cell to
    `max_codevectors`, with distortions like those of k-means from the best of several starts. Samples
    are learned from one at a time; `partial_fit` continues the annealing.

    Parameters
    ----------
    max_codevectors : int, default=8
        Annealing stops at this number of codevectors (K_max), which is never exceeded.
    t_max : float or "auto", default="auto"
        First temperature, in the units of the divergence. `"auto"` is a little above the critical
        temperature of the data as a whole (for the squared Euclidean distance: 2.2 times the largest
        variance along any direction). In a stream it is estimated from the first `n_warmup` samples.
    t_min : float or "auto", default="auto"
        Annealing stops below this temperature. `"auto"` is 1e-4 times `t_max`.
    cooling : float, default=0.9
        Factor of the schedule at each step (gamma), in (0, 1).
    schedule : {"temperature", "lambda"}, default="temperature"
        What falls geometrically: T, or lambda with T = lambda / (1 - lambda).
    bifurcation : {"critical", "perturb", "literal"}, default="critical"
        How splits are found. `"critical"` follows the covariance of every cell along its leading
        direction, and splits the cell there when T falls below the critical temperature (Theorem 5).
        `"perturb"` gives every codevector a twin at every temperature and merges the pairs that do not
        separate. `"literal"` is Algorithm 1 as printed in the paper: twins are merged if they come
        within `tol_merge` (for example 0.1), whatever the critical temperatures. With `finish=False`
        nothing else is done.
    init : array-like of shape (n, n_features) or None, default=None
        Initial codevectors, of equal weight, in the units of the data; by default the mean of the data.
    divergence : {"squared_euclidean", "kl", "itakura_saito"} or Divergence, default="squared_euclidean"
        A Bregman divergence; for one of your own see `oda_rl.divergences.Divergence.from_functions`.
    scale : array-like of shape (n_features,), "standard", "auto" or None, default=None
        The scale of each feature, in its own units: divergences, distortions and temperatures are those
        of X / scale; codevectors and variances are in the units of X. `"standard"`: the standard
        deviations, in a stream those of the first `n_warmup` samples. `"auto"`: the same if a few
        features have nearly all of the variance and the deviations differ by a factor of ten or more;
        else None.
    finish : bool, default=True
        Whether codebooks are taken to temperature zero with K fixed. `fit` does so at the end, and for
        `history_` when it is accessed; `partial_fit` uses the samples after the annealing is done.
    target_distortion : float or None, default=None
        Annealing stops when the distortion is at most this.
    max_samples : int or None, default=None
        `fit` stops after this number of presentations of samples, repetitions included.
    stepsize : tuple of two floats, default=(1.0, 1.0)
        (a, b) of the stepsizes 1 / (a + b n) of the learning rule, n the samples at this temperature.
    samples_per_cell : int, default=50
        Largest number of samples per codevector at one temperature. (In all, the limit is at least 200,
        or 8000 with twins, so that their growth can be distinguished from noise.) Every half as many
        samples it is checked whether the temperature is finished.
    tol_converge : float, default=1e-3
        A temperature is finished when no codevector moves by more than this times the temperature
        (eps_c).
    tol_merge : float, default=1e-3
        Codevectors closer than this times the temperature are merged (eps_n). Close codevectors are also
        merged if one codevector in their place would not be critical, so that K is the number of
        effective codevectors. `fit` takes the cells to their equilibrium at each temperature, unless
        there are many.
    min_weight : float, default=1e-5
        Cells with a smaller probability are pruned (eps_r).
    perturbation : float, default=0.1
        Least offset of children, in standard deviations of the cell (delta).
    n_warmup : int, default=100
        Samples of a stream that are gathered first; until then there is one codevector, their mean.
    forgetting : {"adwin", None}, default="adwin"
        Whether a stream is watched for changes: if ADWIN finds that samples are further from the
        codevectors than before, learning restarts from the latest samples, and `drifts_` records it.
        None never forgets; use it for ordered streams.
    rehearse : bool, default=True
        Whether nine of the latest 200 samples of a stream are presented again with each sample until the
        annealing is done; it then needs a tenth of the samples. Not for correlated samples (episodes).
    random_state : int, RandomState instance or None, default=None
        Orders the samples of `fit`, and draws perturbations.
    verbose : int, default=0
        0 prints nothing, 1 at most one line per second, 2 a line for every temperature. Both 1 and 2
        also print a line when code is compiled, at the first use.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        In the units of the data.
    weights_ : ndarray of shape (n_codevectors,)
        Probabilities of the cells; they sum to one.
    spreads_ : ndarray of shape (n_codevectors, n_features)
        Variances of the samples of every cell about its codevector.
    cell_ids_ : ndarray of shape (n_codevectors,), int64
        Persistent cell numbers below `max_codevectors`. They stay with their cells while a stream
        changes the codebook; `predict` returns indices of `codevectors_`, whose order may change.
    scale_ : ndarray of shape (n_features,) or None
        The scale as an array; None if features are not scaled.
    codevector_labels_ : ndarray of shape (n_codevectors,), int64
        Zeros, since there are no classes.
    n_clusters_ : int
        Number of clusters in the data, at most K: see `predict_clusters`. Anneal to a larger K than
        the number of clusters you expect. After `fit`, clusters are computed at the first access.
    labels_ : ndarray of shape (n_samples,), int64
        Clusters of the samples of `fit`, below `n_clusters_`, as by `predict_clusters`. Missing after
        `partial_fit`. The cells of the samples are `predict(X)`.
    cluster_centers_, inertia_ : ndarray and float
        The codevectors by scikit-learn's name; the sum of the divergences of the samples of `fit`.
    n_codevectors_, n_features_in_ : int
        K, and the number of features.
    temperature_ : float
        The present temperature; infinite before a stream has warmed up.
    converged_ : bool
        Whether the annealing is done: K_max, t_min or the target distortion has been reached.
    n_samples_seen_ : int
        Samples presented so far, repetitions included.
    n_fitted_ : int
        Samples of `fit` with a positive weight. Missing after `partial_fit`.
    history_ : list of PathPoint, one per temperature
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had them.

    See Also
    --------
    oda_rl.quantization.StochasticVQ : The same learning rule at temperature zero, K given.
    oda_rl.quantization.DeterministicAnnealing : The batch algorithm.
    sklearn.cluster.MiniBatchKMeans : K-means from batches.

    Notes
    -----
    Scale the features to similar variances if none of them should dominate. Unless `forgetting` is
    None, a stream is fitted, too, at 256, 1,024 and 2,048 samples since learning began, where that is
    better for the latest. Before there are `n_warmup` samples, and ten for each cell, it is fitted at 32
    and each doubling, with a cell for ten samples; learning then begins again with all samples.

    References
    ----------
    Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A Hierarchical and Progressive
    Learning Architecture", section II and Algorithm 1; Mavridis and Baras, "Online Deterministic
    Annealing for Classification and Clustering", sections III and IV.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODAPartition
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.2, (200, 2)) for m in [(0, 0), (4, 0), (0, 3)]])
    >>> model = ODAPartition(max_codevectors=3, random_state=0).fit(X)
    >>> sorted(model.codevectors_.round().astype(int).tolist())
    [[0, 0], [0, 3], [4, 0]]
    >>> path = {point.n_codevectors: point.distortion for point in model.history_}
    >>> [f"{k}: {distortion:.2f}" for k, distortion in path.items()]
    ['1: 5.63', '2: 1.57', '3: 0.08']
    >>> stream = ODAPartition(max_codevectors=3, random_state=0)
    >>> for x in rng.permutation(X):
    ...     _ = stream.partial_fit(x[None, :])
    >>> stream.n_samples_seen_
    600
    """

    max_codevectors: int = 8
    _: KW_ONLY
    t_max: float | Literal["auto"] = "auto"
    t_min: float | Literal["auto"] = "auto"
    cooling: float = 0.9
    schedule: str = "temperature"
    bifurcation: str = "critical"
    init: ArrayLike | None = None
    divergence: str | Divergence = "squared_euclidean"
    scale: ArrayLike | str | None = None
    finish: bool = True
    target_distortion: float | None = None
    max_samples: int | None = None
    stepsize: tuple[float, float] = (1.0, 1.0)
    samples_per_cell: int = 50
    tol_converge: float = 1e-3
    tol_merge: float = 1e-3
    min_weight: float = 1e-5
    perturbation: float = 0.1
    n_warmup: int = 100
    forgetting: str | None = "adwin"
    rehearse: bool = True
    random_state: Any = None
    verbose: int = 0
    _own_constraints: ClassVar[dict[str, Any]] = {
        "bifurcation": [choice(*BIFURCATIONS)],
        "init": ["array-like", None],
        "scale": SCALES,
    }

    # -- learning --------------------------------------------------------------------------------

    def _fit(self, X: ArrayLike, y: object, sample_weight: ArrayLike | None) -> None:
        data = self._take_in(X, sample_weight, begin=True)
        samples, weight = data.samples, data.weight
        relative = self._begin_weights(weight)
        if isinstance(self.scale, str):
            self._use_scale(scale_by(self.scale, samples, weight))
        scaled = self._scaled(samples)
        codevectors = self._run.fit(scaled, relative)
        labelled = self._with_unused(X, sample_weight, samples)
        cells = self._set_codebook(self._unscaled(codevectors), samples, weight, labelled)
        annealer = self._run.annealer
        assert annealer is not None
        self._counted = self._count_clusters(annealer, len(samples))
        if annealer.done and self.finish:
            continue_from(annealer, scaled, weight, cells)
        self._n_repeated = self._run.n_seen - len(samples)
        self._publish()
        self._cluster(samples, weight, labelled)
        self._expect_no_change(data, UNDIVIDED)

    def _partial_fit(self, X: ArrayLike, y: object, sample_weight: ArrayLike | None) -> None:
        self._watched(self._take_in(X, sample_weight, begin=not hasattr(self, "_run")))

    def _take_in(self, X: ArrayLike, sample_weight: ArrayLike | None, begin: bool) -> Data:
        """Check samples and weights; `begin` a new run, or update the settings of the present one."""
        settings = self._settings(begin)
        samples, weight = self._check_weighted(X, sample_weight, reset=begin)
        if begin:
            self._begin(settings, samples.shape[1], self._generator())
            self._watch = Watch()
        else:
            self._run.resume(settings)
        return Data(samples, np.zeros(len(samples), dtype=np.int64), weight)

    # -- using -----------------------------------------------------------------------------------

    @property
    def history_(self) -> list[PathPoint]:
        """One record per finished temperature."""
        check_is_fitted(self, "codevectors_")
        path = self._run.history
        if self.scale_ is None:
            return path
        return [point._replace(codevectors=self._unscaled(point.codevectors)) for point in path]

    # -- inside ----------------------------------------------------------------------------------

    def _read_parameters(self) -> Settings:
        return Settings.of(self)

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        fitted = {
            **FITTED,
            "scale_?": OF_SCALE,
            "cell_ids_": "count[K]",
            "codevector_labels_": "int[K] in [0, 0]",
            "temperature_": "float in (0, inf]",
            "converged_": "bool",
            "n_clusters_": "count in [1, K] as clusters",
        }
        run = Rules(run_schema("d", "1", identities=IDENTITIES), are_numbered)
        watch = Sized(watch_schema("clusterer", {"codevectors": "float[judged, d]"}), C=1)
        found = {"fitted": fitted, "history": (), "shapes?": SCHEMA, "run": run, "watch": watch}
        found["counted"] = ("count", "count in [1, inf)")
        return declared(cls) | found

    def _get_state(self) -> dict[str, Any]:
        self._set_lazy_attributes()
        found: dict[str, Any] = {"run": self._run.get_state(), "watch": self._watch.get_state()}
        found["counted"] = list(self._counted)
        if self._shapes is not None:
            found["shapes"] = self._shapes._asdict()
        return super()._get_state() | found

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        scale = self.scale_
        self._begin(self._settings(begin=True), self.n_features_in_, np.random.default_rng())
        self._use_scale(scale)
        self._run.set_state(state["run"])
        self._counted = tuple(state["counted"])
        self._watch = Watch.restored(
            state["watch"], lambda judge: PartitionJudge(**judge), self._relearn_at
        )
        self._shapes = Shapes(**state["shapes"]) if "shapes" in state else None
        self._publish()
