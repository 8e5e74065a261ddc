"""Trees of cells in several resolutions, as a scikit-learn meta-estimator."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from oda_rl._interrupts import interrupts_wait
from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.estimators.classes import (
    announced_classes,
    number_classes,
    number_next_classes,
)
from oda_rl.estimators.copies import without_copies
from oda_rl.estimators.drift import RELEARN_AT
from oda_rl.estimators.stream_watch import Watch
from oda_rl.estimators.tree.refining import Limits, Refinement
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.stream import StreamTree


@dataclass(eq=False, repr=False)
class MultiResolutionODA(StreamTree):
    """Tree-structured progressive learning; each layer of the tree can have its own resolution.

    Each cell of a first, small codebook is split again with the samples that fall into it, and so on,
    layer by layer. A sample goes down the tree from the root, at each layer to the nearest of a few
    codevectors, so that a thousand cells cost only a few dozen divergences. Branches grow where there
    are samples and errors: cells with one class only, or with too few samples, are not split. Children
    begin with the codevector and the samples of their parent. `fit` splits as far as the limits allow,
    and then prunes splits that do not lower the error, or lower it too little on samples left out.

    Parameters
    ----------
    estimator : ODAPartition, ODAClassifier or ODARegressor, default=ODAPartition()
        What is learned, and how cells are annealed: its divergence, schedule, stepsizes and thresholds;
        the `rule`, `scale` and `class_weight` of a classifier; the `local_model`, `output_weight` and
        `ridge` of a regressor. It is never changed. Its `max_codevectors`, `random_state` and `verbose`
        are ignored in favour of `max_children` and the parameters of the same names below. Parameters
        without meaning in a tree, such as `fine_tune`, must have their default values.
    layers : int or list of dict or Layer, default=3
        The number of layers below the root, up to 1000; or the limits of each layer, as a dict with any
        of `max_codevectors`, `t_min`, `max_samples`, `min_support`, `min_improvement` (see `Layer`).
        Limits that are not given are taken from the parameters below, or from the estimator.
    resolutions : list or None, default=None
        A feature map for each layer, coarse to fine; deeper layers use the last map. A map is a
        transformer of scikit-learn, a function of samples, None (the data unchanged), columns, or a
        number of principal components; see `oda_rl.resolutions` for more, and for wavelets and
        scattering. Each layer uses its own resolution only. Without a list, all layers use the data
        unchanged, unless a tree grown from two thirds of the samples has clearly smaller errors on the
        others with one of these: for classes and outputs, a `RankMap` if features have long tails; for
        classes, a score of each class as further features (`ScoreMap`); for outputs, features
        weighted by slopes, with the effects of single features as further features (`EffectMap`) or
        without; for linear models, distances almost only along features with few values.
    max_children : int, default=8
        Largest number of children of a cell (or one per class in it, if that is more).
    min_support : int, default=10
        Number of samples that a cell needs before it is split.
    min_improvement : float, default=0.0
        Part of the error that a temperature must save for the annealing of a region to continue, and
        that a split must save to be kept.
    max_leaves : int or None, default=None
        Largest number of leaves. Cells with the largest errors are split first.
    validation : int, "auto" or None, default="auto"
        Number of parts into which `fit` divides the data of a classifier or regressor. Each is left out
        once, to find the error that a leaf must save to be kept; "auto" is 3. Each has at least 20
        samples, so that few samples have fewer parts; with less than 40, none is left out. None keeps
        all splits that lower the training error. With `max_leaves` nothing is pruned, and every split
        must help at once.
    n_jobs : int or None, default=None
        Threads in which `fit` grows branches; the result does not depend on their number.
    forgetting : {"adwin", None}, default="adwin"
        Whether a stream is watched: samples are predicted before they are learned from, and if ADWIN
        finds that the predictions have become worse, learning restarts from the latest samples, and
        `drifts_` records it. None never forgets; use it for ordered streams, such as by class.
    random_state : int, RandomState instance or None, default=None
        Orders the samples.
    verbose : int, default=0
        As for `ODAPartition`; `fit` reports the layers of the tree.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        The means of the samples in the leaves, in the units of the data whatever their resolution.
    weights_ : ndarray of shape (n_codevectors,)
        Shares of the samples in the leaves; they sum to one.
    codevector_labels_ : ndarray of shape (n_codevectors,)
        Classes of the leaves; zeros if there are no classes.
    values_ : ndarray of shape (n_codevectors,) or (n_codevectors, n_outputs)
        The outputs that a regressor predicts at the codevectors of its leaves.
    labels_ : ndarray of shape (n_samples,), int64
        For a clusterer, the leaves of the samples of `fit`.
    classes_ : ndarray of shape (n_classes,)
        For a classifier, the sorted classes.
    n_codevectors_, n_cells_, n_layers_ : int
        Numbers of leaves; of cells in all layers without the root; of layers below the root.
    temperature_ : float
        The lowest temperature at which cells were split; infinite before any were.
    n_samples_seen_ : int
        Total number of samples received. Each sample counts in all cells on its path.
    n_presented_ : int
        Number of samples presented to the annealing of regions, repetitions included.
    history_ : list of GrowthPoint
        One record for each cell that was split.
    drifts_ : list of DriftPoint
        Changes of the stream at which learning restarted.
    tree_ : Tree
        The cells, layer by layer.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    oda_rl.explain : Text, pictures and rules of a tree; where its errors are; `refine`.
    ODAPartition, ODAClassifier, ODARegressor : Flat codebooks.

    Notes
    -----
    With classes, every region has a codebook for each class, as in Algorithm 4; a sample falls into the
    child with the nearest codevector of any class. With `rule="bayes"`, all codevectors of the region
    determine the class, and their probabilities are shrunk towards those of the regions above. With
    `"nearest"`, the classes of the samples in the leaf determine it. The cells of a regressor are
    annealed over inputs and outputs together, but a sample is assigned by its inputs. Slopes of linear
    models are shrunk towards those of the parent, and predictions towards its predictions. How far
    probabilities and predictions are shrunk is chosen on samples left out, and so is a power of the
    probabilities of regions, as for `ODAClassifier`. If splits do not pay there, or probabilities are
    uncertain, regions with `rule="bayes"` have at most two or one codevectors per class, provided that
    this clearly lowers the Brier score.

    In a stream, a leaf keeps its latest samples while its children are annealed, one step for each
    sample (Algorithm 5). The children become cells when the annealing ends, if they then have a smaller
    error on the samples kept; until then the leaf predicts. Unless `forgetting` is None, the tree is
    regrown, as by `fit`, at a change, and ten times within the first 4,096 samples after it; before
    `n_warmup` samples, if no `resolutions` are given, also at 32 and each doubling. The samples
    of a `fit` count, too, if they are at most 2,730: they are kept, also in model files, and the tree is
    regrown at the next of these numbers that is at least half as many again. How a stream is cut into
    chunks makes no difference (except with `max_leaves`).

    References
    ----------
    Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A Hierarchical and Progressive
    Learning Architecture", section V, Algorithms 5 and 6; Mavridis and Baras, "Explainable Learning with
    Hierarchical Online Deterministic Annealing".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MultiResolutionODA(ODAClassifier(), layers=2, resolutions=[16, None], random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    estimator: Any = None
    _: KW_ONLY
    layers: int | Sequence[dict[str, Any] | Layer] = 3
    resolutions: Sequence[Any] | None = None
    max_children: int = 8
    min_support: int = 10
    min_improvement: float = 0.0
    max_leaves: int | None = None
    validation: int | Literal["auto"] | None = "auto"
    n_jobs: int | None = None
    forgetting: str | None = "adwin"
    random_state: Any = None
    verbose: int = 0

    # -- learning --------------------------------------------------------------------------------

    def _fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        settings = self._settings(begin=True)
        data = self._check(settings, X, y, sample_weight, reset=True)
        if settings.kind == "classifier":
            self.classes_, data = number_classes(data, settings.class_weight)
        data = data._replace(weight=self._begin_weights(data.weight))
        n = len(data.weight)
        data = data if settings.kind == "clusterer" else without_copies(data)
        raw, data = data, self._in_units(settings, data, reset=True)
        self._waiting = None
        self._watch = Watch()
        self._session = self._grown(data, in_units=True)
        self.n_samples_seen_ = n
        if settings.kind == "clusterer":
            # samples of weight zero are not among the data, but get labels, too
            everything = data.samples if sample_weight is None else self._check_again(X)
            self.labels_ = self._session.tree.leaf_numbers(everything)
        self._watch_from(raw)

    @interrupts_wait
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue learning from one or more samples, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never modified. The first `n_warmup` samples (of the estimator) are
            gathered to fit the resolutions and scales.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Classes, among which new ones may occur at any time, or outputs.
        classes : array-like of shape (n_classes,), optional
            Classes that will occur later.
        sample_weight : array-like of shape (n_samples,), optional
            As for `ODAClassifier`.

        Returns
        -------
        MultiResolutionODA
            The estimator itself.

        Raises
        ------
        ValueError
            As for `fit`.
        """
        first = not hasattr(self, "n_samples_seen_")
        settings = self._settings(begin=first)
        data = self._check(settings, X, y, sample_weight, reset=first)
        new: list[int] = []
        if settings.kind == "classifier":
            known, weights = None if first else self.classes_, settings.class_weight
            coming = announced_classes(classes)
            self.classes_, data, new = number_next_classes(known, data, weights, coming)
        if first:
            self.n_samples_seen_ = 0
            self._watch = Watch()
            self._waiting = data.take(slice(0, 0))
            self._rng = self._generator()
        else:
            self._insert_classes(new)
            self._watch.insert_classes(new)
        self.__dict__.pop("labels_", None)
        with self._reporting():
            self._watched(data)
        return self

    @interrupts_wait
    def refine(
        self,
        cell: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        target_error: float = 0.0,
        max_splits: int = 100,
        limits: dict[str, Any] | Layer | None = None,
    ) -> Refinement:
        """Split the leaves of one region further, until its error is at most `target_error`.

        In each step the leaf with the largest error below the cell is split, even below the last layer;
        the rest of the tree does not change. (Section VI-B.) Splits of a classifier or regressor that
        do not lower the error on samples left out are then pruned, as in `fit`, even if the error is
        still larger; not with `validation=None` or with `max_leaves`. After `fit`, a refined tree is
        regrown in a stream only at a change.

        Parameters
        ----------
        cell : str
            The name of a cell, such as "0" (the root, hence the whole tree) or "0.2.1"; see
            `oda_rl.explain.errors` for where the errors are.
        X : array-like of shape (n_samples, n_features)
            Samples, usually those of `fit`, which all count alike; those outside the cell are ignored.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Classes or outputs; not used by a clusterer.
        target_error : float, default=0.0
            The error in the region at which to stop: the share of samples classified wrongly, the mean
            squared error (with several outputs their sum, in units of their variances), or the mean
            divergence.
        max_splits : int, default=100
            Largest number of splits.
        limits : dict or Layer, optional
            Limits of these splits. By default those of the last layer, but two samples are enough for a
            split. If its K_max does not help, more codevectors are tried.

        Returns
        -------
        Refinement
            Error before and after, number of splits kept, and number of leaves gained.

        Raises
        ------
        ValueError
            If there is no such cell, or no sample in it.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from oda_rl import MultiResolutionODA, ODAClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MultiResolutionODA(ODAClassifier(), layers=1, validation=None, random_state=0)
        >>> _ = model.fit(X, y)
        >>> model.refine("0", X, y, target_error=0.01).error <= 0.01
        True
        """
        settings = self._settings(begin=False)
        check_non_negative(target_error=target_error)
        check_at_least(1, max_splits=max_splits)
        session = self._fitted
        found = session.tree.cell(cell)
        data = self._known_data(X, y)
        if len(session.tree.rows_inside(found, data.samples)) == 0:
            raise ValueError(f"X has no sample in the cell {cell!r}.")
        usual = settings.layers[-1]._replace(min_support=2)
        layer = usual if limits is None else Layer.of(limits).filled(usual)
        unit = self._squared_unit
        told = session.refine(data, Limits(found, target_error / unit, layer, max_splits))
        if (watch := self._watch).begun < 0:  # regrowth would undo it
            watch.begun = min(watch.begun, watch.count - watch.waiting - max(RELEARN_AT))
        self.__dict__.pop("labels_", None)
        return told._replace(error_before=told.error_before * unit, error=told.error * unit)
