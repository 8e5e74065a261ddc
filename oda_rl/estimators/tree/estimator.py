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
    number_known_classes,
    number_next_classes,
)
from oda_rl.estimators.copies import without_copies
from oda_rl.estimators.drift import AGAIN, Watch
from oda_rl.estimators.tree.session import Refinement
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.stream import StreamTree


@dataclass(eq=False, repr=False)
class MultiResolutionODA(StreamTree):
    """Tree-structured progressive learning, each layer of the tree at a resolution of its own.

    The cells of a first, small codebook are split again, each by itself, with the samples that fall into
    it; and so on, layer by layer. A sample goes down the tree from the root, to the nearest of a few
    codevectors at each layer, so that a thousand cells cost a few dozen divergences. Branches grow where
    there are samples and errors: cells of one class, or with too few samples, are left as they are.
    Children begin with the codevector and the samples of their parent. `fit` splits as far as the
    limits allow, and then takes back what does no better, or too little better on samples left out.

    Parameters
    ----------
    estimator : ODAPartition, ODAClassifier or ODARegressor, default=ODAPartition()
        What is learned, and how cells are annealed: its divergence, schedule, stepsizes and thresholds;
        the `rule`, `scale` and `class_weight` of a classifier; the `local_model`, `output_weight` and
        `ridge` of a regressor. Never changed. Its `max_codevectors`, `random_state` and `verbose` are
        not read, since `max_children` and the others stand below; parameters that mean nothing in a
        tree, such as `fine_tune`, must be as they are by default.
    layers : int or list of dict or Layer, default=3
        How many layers there are below the root, up to 1000; or the limits of each, a dict with any of
        `max_codevectors`, `t_min`, `max_samples`, `min_support`, `min_improvement` (see `Layer`). What a
        layer leaves open is as follows below, or as in the estimator.
    resolutions : list or None, default=None
        A feature map for each layer, coarse to fine; layers beyond the last have its. A map is a
        transformer of scikit-learn, a function of samples, None (the data as they are), columns, or a
        number of principal components; see `oda_rl.resolutions` for more, and for wavelets and
        scattering. Each layer reads its own resolution only. Without a list all read the data as they
        are; where a tree of two thirds of the samples then errs clearly less on the others, classes and
        outputs of features with long tails their `RankMap`, classes a score of each besides
        (`ScoreMap`), and outputs features weighed by slopes, with what they do along single features
        besides (`EffectMap`), or with linear models hardly any but features with few values.
    max_children : int, default=8
        Children of a cell, at most (or one per class in it, where that is more).
    min_support : int, default=10
        Samples that a cell must have before it is split.
    min_improvement : float, default=0.0
        Part of the error that a temperature must win for a region's annealing to go on, and a split
        for being kept.
    max_leaves : int or None, default=None
        Leaves, at most. Cells with the largest errors come first.
    validation : int, "auto" or None, default="auto"
        Parts into which `fit` of classes or outputs divides the data, to leave one out at a time and
        find what a leaf must save to be kept; "auto" is 3. None keeps whatever lowers the training
        error. With `max_leaves` nothing is pruned, and no split kept that does not help at once.
    n_jobs : int or None, default=None
        Threads in which `fit` grows branches; the result is the same with any number.
    forgetting : {"adwin", None}, default="adwin"
        Whether a stream is watched: samples are judged by what was known before them, and where
        ADWIN finds that they are predicted worse than before, learning begins anew from the
        latest samples. `drifts_` tells when. None never forgets: for streams that are ordered, such as
        by class.
    random_state : int, RandomState instance or None, default=None
        Orders the samples.
    verbose : int, default=0
        As for `ODAPartition`; of a fit, layers of the tree are told.

    Attributes
    ----------
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        Those of the leaves, in the units of the data whatever their resolution: the means of the samples
        in them.
    weights_ : ndarray of shape (n_codevectors,)
        Shares of the samples in the leaves; they sum to one.
    codevector_labels_ : ndarray of shape (n_codevectors,)
        Their classes; zeros without classes.
    values_ : ndarray of shape (n_codevectors,) or (n_codevectors, n_outputs)
        What a regressor's leaves predict at their codevectors.
    labels_ : ndarray of shape (n_samples,), int64
        Leaves of the samples of `fit`, of a clusterer.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted, of a classifier.
    n_codevectors_, n_cells_, n_layers_ : int
        Leaves; cells of all layers, without the root; layers below the root that there are.
    temperature_ : float
        The lowest temperature at which cells were split; infinite before any were.
    n_samples_seen_ : int
        Samples that came, in all. None is wasted: each counts in all cells on its way.
    n_presented_ : int
        Samples presented to the annealing of regions, with repetitions.
    history_ : list of GrowthPoint
        One record for each cell that was split.
    drifts_ : list of DriftPoint
        Changes of the stream at which learning began anew.
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
    With classes every region has a codebook for each of them, as in Algorithm 4; which child a sample
    falls into is a matter of the nearest codevector of any class. With `rule="bayes"` it is then all
    codevectors of the region that decide the class, drawn towards what the regions above say as far as
    helps on samples left out; with `"nearest"` the classes of the samples in the leaf. A regressor's
    cells are annealed over inputs and outputs together; a sample goes by its inputs; slopes of linear
    models are drawn towards those of the parent, and predictions towards its, as far as helps there.

    In a stream, a leaf keeps the latest of its samples while its children are annealed, one step for
    each sample (Algorithm 5). These become cells when the annealing ends and if they then do better on
    the samples kept; until then predictions are those of the leaf. Unless `forgetting` is None, the tree
    is grown anew, as by `fit`, at a change and ten times within the first 4,096 samples after it. How
    a stream is cut into chunks makes no difference (but for `max_leaves`).

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
        else:
            data = data._replace(weight=data.weight / data.weight.mean())
        n = len(data.weight)
        data = data if settings.kind == "clusterer" else without_copies(data)
        data = self._in_units(settings, data, reset=True)
        self._waiting = None
        self._watch = Watch()
        self._watch.begun = -max(AGAIN)  # long ago
        self._grow_from(settings, data)
        self.n_samples_seen_ = n
        if settings.kind == "clusterer":
            self.labels_ = self._session.tree.leaf_numbers(data.samples)

    @interrupts_wait
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from samples in their order, one or many, and go on where the tree stood.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never changed. The first `n_warmup` of the estimator are gathered to learn
            the resolutions and scales from.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Their classes, of which new ones are welcome at any time, or outputs.
        classes : array-like of shape (n_classes,), optional
            Classes that will come.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

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
        self.n_samples_seen_ += len(data.weight)
        self.__dict__.pop("labels_", None)
        with self._telling():
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
        """Anneal one region further, where its errors are, until they are as few as wanted.

        The leaf with the largest error below the cell is split, again and again, below the last layer,
        too; the rest of the tree stays as it is. (Section VI-B.)

        Parameters
        ----------
        cell : str
            The name of a cell, such as "0" (the root, hence the whole tree) or "0.2.1"; see
            `oda_rl.explain.errors` for where the errors are.
        X : array-like of shape (n_samples, n_features)
            Samples, as a rule those of `fit`; those that do not fall into the cell are left out.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Their classes or outputs; a clusterer has none.
        target_error : float, default=0.0
            Where to stop: the part of the samples classified wrongly, the mean squared error (of several
            outputs the sum, in standard deviations), or the mean divergence, in the region.
        max_splits : int, default=100
            Splits, at most.
        limits : dict or Layer, optional
            Limits of these splits where they are not to be those of the last layer, with two samples
            as the least to be split. Where its K_max does not help, more codevectors are tried.

        Returns
        -------
        Refinement
            Error before and after, splits, and leaves gained.

        Raises
        ------
        ValueError
            If there is no such cell, or no sample in it.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from oda_rl import MultiResolutionODA, ODAClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MultiResolutionODA(ODAClassifier(), layers=1, max_children=3, random_state=0)
        >>> _ = model.fit(X, y)
        >>> model.refine("0", X, y, target_error=0.01).error <= 0.01
        True
        """
        settings = self._settings(begin=False)
        check_non_negative(target_error=target_error)
        check_at_least(1, max_splits=max_splits)
        session = self._fitted
        found = session.tree.cell(cell)
        data = self._check(settings, X, y, None, reset=False)
        if settings.kind == "classifier":
            data = number_known_classes(self.classes_, data)
        data = self._in_units(settings, data, reset=False)
        if len(session.tree.rows_inside(found, data.samples)) == 0:
            raise ValueError(f"X has no sample in the cell {cell!r}.")
        usual = settings.layers[-1]._replace(min_support=2)
        layer = usual if limits is None else Layer.of(limits).filled(usual)
        unit = self._squared_unit
        told = session.refine(found, data, target_error / unit, layer, max_splits)
        self.__dict__.pop("labels_", None)
        return told._replace(error_before=told.error_before * unit, error=told.error * unit)
