"""Progressive classification as a scikit-learn classifier that also learns from a stream."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from oda_rl._schema import Schema
from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification.annealing import ClassPoint, ClassSettings, history
from oda_rl.estimators.classification.fine_tuning import VARIANTS
from oda_rl.estimators.classification.fitting import fit_classes
from oda_rl.estimators.classification.judging import ClassJudge, class_watch_schema
from oda_rl.estimators.classification.session import ClassSession
from oda_rl.estimators.classification.stream import StreamClassifier
from oda_rl.estimators.drift import loss_of_largest_class
from oda_rl.estimators.feature_scaling import SCALES
from oda_rl.estimators.parameters import AUTO, COUNT, choice, declared
from oda_rl.estimators.session_schema import class_session_schema
from oda_rl.estimators.stream_watch import Watch
from oda_rl.estimators.targets import Data

CONSTRAINTS = {
    "max_codevectors": [COUNT, AUTO],
    "mode": [choice("conditional", "majority", "lvq")],
    "rule": [choice("bayes", "nearest")],
    "scale": [choice(*SCALES), None],
    "local_model": [choice("auto", "linear"), None],
    "neighbors": [choice("auto"), None],
    "fine_tune": [choice(*VARIANTS), None],
}


@dataclass(eq=False, repr=False)
class ODAClassifier(StreamClassifier):
    """Progressive classification by online deterministic annealing.

    Every class has a codebook of its own, which begins with one codevector and grows as the temperature
    falls (Algorithm 4: a sample moves only codevectors of its class). The codebooks estimate the density
    of every class, and hence the class probabilities. `fit` stops at the temperature that does best on
    held-out samples. Learning is online, one sample at a time; `partial_fit` continues the annealing and
    accepts new classes at any time.

    Parameters
    ----------
    max_codevectors : int or "auto", default="auto"
        K_max, for all classes together, at least one each. `"auto"` is 40 per class, at most 400.
    mode : {"conditional", "majority", "lvq"}, default="conditional"
        `"conditional"`: densities of the classes, as above. `"majority"`: one partition for all
        classes, each cell of which belongs to the class with most of its samples (section IV-A).
        `"lvq"`: codevectors are also repelled by samples of other classes (eq. 31).
    rule : {"bayes", "nearest"}, default="bayes"
        Predict the class with the largest pi_c p(x | c) (eq. 35), or of the nearest codevector (eq. 36).
    scale : {"auto", "within", "standard", "minmax"} or None, default="auto"
        How features are scaled for divergences. `"within"`: whitened by the covariance within classes,
        of which correlations are shrunk by two fifths; `"standard"`: to unit variance; `"minmax"`: to
        unit range; None: unscaled. For divergences of positive data features are multiplied but not
        shifted, and `"within"` is `"standard"`. `"auto"` is `"within"`, unless `fit` finds that nearest
        neighbours are clearly more often of one class in the unscaled features (as may be if all have
        one unit, such as pixels), which it then uses; or in a subset of the features, those related to
        the class alone or in pairs: the others then hardly count (`relevances_`).
    local_model : {"auto", "linear", None}, default="auto"
        Linear logits in 1 to 600 soft cells of their own, a number chosen on held-out samples. Features
        are mapped to a normal distribution by their ranks, so that skewed ones do no harm; effects of
        features on classes, as of a category's number, are further features if they clearly help.
        `"linear"`: with `rule="bayes"` logits decide alone. None: densities decide. `"auto"`: `fit` adds
        log-probabilities of both, with the weights that do best on held-out samples, or has no logits; a
        stream with `forgetting` does the same.
    neighbors : {"auto", None}, default="auto"
        If it clearly helps on held-out samples, `fit` stores samples (at most two million numbers), and
        mixes the classes of the nearest into the probabilities, for boundaries too fine for cells. They
        are dropped when a stream changes or has a new class.
    fine_tune : {None, "lvq1", "glvq"}, default=None
        Learning vector quantization after the annealing, in a stream too. Codevectors are then no longer
        the means of their cells, which does not matter for `rule="nearest"`.
    n_passes : int, default=20
        Passes over the data that `fit` makes for `fine_tune`, or for `mode="lvq"`.
    validation : int, "auto" or None, default="auto"
        Number of folds of the cross-validation in which `fit` chooses the temperature to stop at;
        "auto" is 3, or 5 with more than 2000 samples. None anneals to K_max or `t_min`.
    class_weight : dict, "balanced" or None, default=None
        Positive weights of the classes, as in scikit-learn; `partial_fit` does not accept `"balanced"`.
    reject : float or None, default=None
        In (0, 1): `predict` returns the `reject_label` for a sample if, by the model, less than this
        part of all samples is as far from their nearest codevector.
    reject_label : number or str, default=-1
        Returned by `predict` for rejected samples. It must be a text if the classes are texts.
        `score` does not accept a text among classes that are numbers.
    t_max, t_min : float or "auto", default="auto"
        First and last temperature, for scaled features; `"auto"` as for `ODAPartition`.
    cooling : float, default=0.8
        Factor of the schedule at each step (gamma), in (0, 1).
    schedule, bifurcation, divergence, stepsize, tol_converge, tol_merge, perturbation, verbose
        As for `ODAPartition` (eps_c, eps_n and delta).
    samples_per_cell : int, default=10
        Maximum number of samples presented at one temperature, per codevector.
    min_weight : float, default=1e-5
        Cells with less of the probability of their class are pruned (eps_r).
    n_warmup : int, default=100
        Samples of a stream that are buffered before the annealing begins.
    forgetting : {"adwin", None}, default="adwin"
        Whether a stream is monitored for changes: samples are classified before they are learned, and
        if ADWIN detects more errors than before, learning restarts from the latest samples (see
        `drifts_`). None never forgets: for ordered streams, such as by class.
    random_state : int, RandomState instance or None, default=None
        Shuffles the samples of `fit`, divides them into folds, and draws perturbations.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    codevectors_, codevector_labels_ : ndarrays of shapes (n_codevectors, n_features), (n_codevectors,)
        Codevectors in the units of the data, and their classes.
    weights_ : ndarray of shape (n_codevectors,)
        Probabilities of the cells, including the priors of their classes; they sum to one.
    n_codevectors_, n_features_in_ : int
        K, and the number of features.
    temperature_ : float
        The current temperature, the lowest of all classes; infinite before a stream has warmed up.
    converged_ : bool
        Whether the annealing is done.
    relevances_ : ndarray of shape (n_features,)
        How much a standard deviation of each feature counts in the distance; they sum to one.
    n_samples_seen_ : int
        Samples presented so far, including repetitions but not those of the validation.
    local_weights_ : tuple of two floats
        Weights of the log-probabilities of densities and of local logits; the second is 0 without these.
    n_local_cells_, n_neighbors_ : int
        Number of cells of the local logits, and of nearest stored samples that count; 0 without them.
    history_, drifts_ : list of ClassPoint, list of DriftPoint
        One record per temperature, and per change of the stream at which learning restarted.
    memory_ : float
        Maximum number of samples per cell that stepsizes average over; infinite without a limit.

    See Also
    --------
    oda_rl.quantization.LVQ : Learning vector quantization with a given K.

    Notes
    -----
    The density of a class is a mixture over its cells of p(mu_i) exp(-d(x, mu_i) / w), where w is twice
    the mean divergence within cells per feature; for the squared Euclidean distance these are Gaussians
    of variance w / 2. `fit` chooses between a common width and one per class when it chooses the
    temperature. A stream compares several widths on samples before it learns from them, and limits the
    memory of cells that would otherwise lag behind (`memory_`), unless `forgetting` is None. It is also
    fitted, at 256 samples since learning began and three doublings, where a fit of the first of these
    classifies the latest clearly better than the stream did. Before that, fits at 32, 64 and 128 samples
    predict, if there are five of each class; learning then begins again with all samples, as if there
    had been none of these. It rescales the features whenever the
    number of samples has doubled. With `mode="majority"` or `"lvq"`, and with `fine_tune`, a stream is
    learned in a Python loop over samples.

    References
    ----------
    Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A Hierarchical and Progressive
    Learning Architecture", section IV and Algorithm 4; Mavridis and Baras, "Online Deterministic
    Annealing for Classification and Clustering", section III-D.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import ODAClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ODAClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.93)
    True
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.99, 0.01, 0.01]])
    """

    max_codevectors: int | Literal["auto"] = "auto"
    _: KW_ONLY
    mode: str = "conditional"
    rule: str = "bayes"
    scale: str | None = "auto"
    local_model: str | None = "auto"
    neighbors: str | None = "auto"
    fine_tune: str | None = None
    n_passes: int = 20
    validation: int | Literal["auto"] | None = "auto"
    class_weight: Mapping[Any, float] | str | None = None
    reject: float | None = None
    reject_label: Any = -1
    t_max: float | Literal["auto"] = "auto"
    t_min: float | Literal["auto"] = "auto"
    cooling: float = 0.8
    schedule: str = "temperature"
    bifurcation: str = "critical"
    divergence: str | Divergence = "squared_euclidean"
    stepsize: tuple[float, float] = (1.0, 1.0)
    samples_per_cell: int = 10
    tol_converge: float = 1e-3
    tol_merge: float = 0.01
    min_weight: float = 1e-5
    perturbation: float = 0.1
    n_warmup: int = 100
    forgetting: str | None = "adwin"
    random_state: Any = None
    verbose: int = 0

    _own_constraints = CONSTRAINTS
    _lazy_attributes = (
        *("_book", "_scaling", "codevectors_", "codevector_labels_", "weights_", "n_codevectors_"),
        *("relevances_", "local_weights_", "n_local_cells_", "n_neighbors_"),
    )

    def __getattr__(self, name: str) -> Any:
        if name in ("_book", "_scaling") and "_session" in self.__dict__:  # enough for predictions
            self._book, self._scaling = self._session.book(), self._session.scaling
            return self.__dict__[name]
        return super().__getattr__(name)

    # -- learning --------------------------------------------------------------------------------

    def _read_parameters(self) -> ClassSettings:
        return ClassSettings.of(self)

    def _fit_classes(self, settings: ClassSettings, data: Data) -> None:
        session = ClassSession(settings, data.samples.shape[1], self._generator())
        self._watch = Watch()
        fit_classes(session, data, len(self.classes_), self, self.neighbors is not None)
        self._publish(session)
        self._expect_no_change(data, loss_of_largest_class(data))

    def _go_on(self, settings: ClassSettings, data: Data, new: list[int], first: bool) -> None:
        if first:
            self._watch = Watch()
            self._begin(settings, data.samples.shape[1], self._generator())
        self._session.resume(settings)
        self._session.insert_classes(new)
        if new:
            self._clear_lazy_attributes()  # published attributes lack the new classes
        self._watch.insert_classes(new)
        self._watched(data)

    # -- what has been learned -------------------------------------------------------------------

    def staged_predict(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Predict the label of the nearest codevector (eq. 36), for each temperature of `history_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        scaling = self._session.scaling
        samples = scaling(self._check_again(X))
        for point in self.history_:
            yield point.labels[self._divergence(samples, scaling(point.codevectors)).argmin(axis=1)]

    @property
    def memory_(self) -> float:
        """Maximum number of samples per cell that stepsizes average over; infinite without a limit."""
        return self._session.following.memory or np.inf

    @property
    def history_(self) -> list[ClassPoint]:
        """One record per finished temperature."""
        check_is_fitted(self, "classes_")
        return history(self._session, self.classes_)

    # -- inside ----------------------------------------------------------------------------------

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        return declared(cls) | {"session": class_session_schema, "watch": class_watch_schema}

    def _get_state(self) -> dict[str, Any]:
        return {"session": self._session.get_state(), "watch": self._watch.get_state()}

    def _set_state(self, state: dict[str, Any]) -> None:
        settings, rng = self._settings(begin=True), np.random.default_rng()
        session = ClassSession(settings, self.n_features_in_, rng)
        session.set_state(state["session"])
        self._watch = Watch.restored(state["watch"], ClassJudge.restored, self._relearn_at)
        self._publish(session)

    def _set_counts(self) -> None:
        session = self._session
        self.n_samples_seen_, self.temperature_ = session.n_seen, session.temperature
        self.converged_ = session.annealed

    def _publish(self, session: ClassSession) -> None:
        self._session = session
        self._set_counts()
        self._set_lazy_attributes()

    def _set_lazy_attributes(self) -> None:
        session = self._session
        self._set_book(session.book(), session.scaling)
        self.relevances_ = session.relevances()
        view, alone = session.view, (session.choice.power, 0.0)
        self.local_weights_ = alone if view is None else (view.density, view.logits)
        self.n_local_cells_ = 0 if view is None else view.predictor.n_cells
        self.n_neighbors_ = 0 if session.neighbors is None else session.neighbors.n_nearest

    def _numbers(self, samples: Array) -> Labels:
        own = self._session
        if self.rule == "nearest" or own.settings.shared or own.neighbors is not None:
            return super()._numbers(samples)
        return self._book.most_likely(samples, self._scaling, self._divergence, own.view)

    def _log_joint(self, samples: Array, distance: Array) -> Array:
        return self._session.log_joint(samples, distance)

    def _n_learned(self) -> int:
        return self._session.n_measured
