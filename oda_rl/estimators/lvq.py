"""Learning vector quantization with a given K: the papers' baseline for classification."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._schema import Either, Rules, Schema, some
from oda_rl._types import Array, Labels
from oda_rl._validation import numbers_of
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classes import join_classes, labels_of
from oda_rl.estimators.classification.base import CodebookClassifier
from oda_rl.estimators.classification.book import ClassBook
from oda_rl.estimators.classification.fine_tuning import STEP, VARIANTS, check_variant, learn
from oda_rl.estimators.feature_scaling import NO_SCALING, OF_SCALE, Scaling, UnitsMixin, chosen_scale
from oda_rl.estimators.parameters import SCALES, choice, declared
from oda_rl.estimators.targets import Data, make_place

STATE = ("_location", "_labels", "_count", "n_samples_seen_", "scale_")


@dataclass(eq=False, repr=False)
class LVQ(UnitsMixin, CodebookClassifier):
    """Learning vector quantization: labelled codevectors in a given number, learned sample by sample.

    The nearest codevector determines the class. The result depends on the initial codevectors.

    Parameters
    ----------
    n_codevectors : int, default=5
        Codevectors per class; fewer for a class with fewer samples.
    variant : {"lvq1", "glvq"}, default="lvq1"
        LVQ1: the nearest codevector moves towards the sample, or away from it if its class is wrong;
        each codevector has its own stepsize (Problem 2). GLVQ: the nearest codevector of the right class
        and the nearest of the other classes move down the gradient of a cost.
    init : "random" or array-like of shape (n, n_features), default="random"
        Initial codevectors. "random": samples of every class, chosen at random by `fit`; `partial_fit`
        takes the first ones. If an array is given, `init_labels` is needed, too.
    init_labels : array-like of shape (n,) or None, default=None
        The classes of given codevectors.
    n_passes : int, default=30
        Passes of `fit` over the data, each in a new order.
    divergence : str or Divergence, default="squared_euclidean"
        As for `ODAPartition`; only LVQ1 accepts others than the squared Euclidean distance.
    scale : array-like of shape (n_features,), "standard", "auto" or None, default="auto"
        The scale of each feature: divergences are those of X / scale. `"standard"`: the standard
        deviations of the samples of `fit`. `"auto"`: the same if a few features have nearly all of the
        variance, the deviations differ by a factor of ten or more, and the divergence is the squared
        Euclidean distance; else None. A stream begun by `partial_fit` is scaled only by given numbers.
    random_state : int, RandomState instance or None, default=None
        Chooses the initial codevectors and orders the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    codevectors_ : ndarray of shape (n_codevectors, n_features)
        The codevectors.
    codevector_labels_ : ndarray of shape (n_codevectors,)
        The classes of the codevectors.
    weights_ : ndarray of shape (n_codevectors,)
        Shares of the samples that have moved each codevector.
    scale_ : ndarray of shape (n_features,) or None
        The scale as an array; None if features are not scaled.
    n_codevectors_, n_samples_seen_ : int
        K, and the number of samples presented.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    oda_rl.ODAClassifier : Finds K and where to start by annealing.

    References
    ----------
    Mavridis and Baras, "Online Deterministic Annealing for Classification and Clustering", section II-B;
    Sato and Yamada, "Generalized learning vector quantization", NIPS 1995.

    Examples
    --------
    >>> from oda_rl.quantization import LVQ
    >>> X = [[0.0], [0.2], [4.0], [4.2]]
    >>> LVQ(1, random_state=0).fit(X, ["low", "low", "high", "high"]).predict([[1.0], [3.0]])
    array(['low', 'high'], dtype='<U4')
    """

    _own_constraints: ClassVar = {"variant": [choice(*VARIANTS)], "scale": SCALES}
    rule = "nearest"
    reject = None
    reject_label = None
    class_weight = None
    n_codevectors: int = 5
    _: KW_ONLY
    variant: str = "lvq1"
    init: Literal["random"] | ArrayLike = "random"
    init_labels: ArrayLike | None = None
    n_passes: int = 30
    divergence: str | Divergence = "squared_euclidean"
    scale: ArrayLike | str | None = "auto"
    random_state: Any = None

    n_samples_seen_: int = field(init=False)
    _location: Array = field(init=False)
    _labels: Labels = field(init=False)

    def _fit_classes(self, settings: Any, data: Data) -> None:
        euclidean = self._divergence.is_euclidean
        plain = not euclidean and isinstance(self.scale, str) and self.scale == "auto"
        rng, data = self._generator(), self._begin(data, None if plain else self.scale)
        if self._is_random():
            for c in range(len(self.classes_)):
                own = np.flatnonzero(data.targets == c)
                chosen = rng.choice(own, min(self.n_codevectors, len(own)), replace=False)
                self._append(data.samples[chosen], c)
        for n in range(self.n_passes):
            order = rng.permutation(len(data.weight))
            self._learn(data.take(order), STEP * (1.0 - n / self.n_passes))
        self._publish()

    def _pieces(self, targets: NDArray[Any], *known: ArrayLike | None) -> list[slice]:
        return [slice(None)]  # a chunk need not be cut before a new class

    def _go_on(self, settings: Any, data: Data, new: list[int], first: bool) -> None:
        data = data._replace(weight=self._relative(data.weight))
        data = self._begin(data, self._given_scale) if first else self._in_units(data)
        for place in [] if first else new:
            self._labels = make_place(self._labels, place)
        for t, c in enumerate(data.targets):
            row = data.take(slice(t, t + 1))
            if self._is_random() and (self._labels == c).sum() < self.n_codevectors:
                self._append(row.samples, int(c))
                self.n_samples_seen_ += 1
            else:
                fall = 1.0 / (1.0 + self.n_samples_seen_ / (100.0 * len(self._labels)))
                self._learn(row, STEP * fall)
        self._publish()

    # -- inside ----------------------------------------------------------------------------------

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        return declared(cls) | {
            "_location": "float[d, K]",
            "_labels": Rules("int[K] in [0, C)", some),
            "_count": "float[K] in (0, inf)",
            "n_samples_seen_": "count",
            "scale_": Either(None, OF_SCALE),
        }

    def _get_state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in STATE}

    def _set_state(self, state: dict[str, Any]) -> None:
        for name in STATE:
            setattr(self, name, state[name])
        self._settings(begin=True)
        self._divergence.check(self._location.T, "the codebook")
        self._publish()

    def _read_parameters(self) -> None:
        check_variant(self.variant, self._divergence, "variant")
        if not self._is_random() and self.init_labels is None:
            raise ValueError("init_labels must be given if init is an array of codevectors, got None.")

    def _is_random(self) -> bool:
        return isinstance(self.init, str)

    def _in_units(self, data: Data) -> Data:
        return data._replace(samples=self._scaled(data.samples))

    def _begin(self, data: Data, scale: ArrayLike | str | None) -> Data:
        """Start with the given codevectors or none; return scaled data, numbered by all classes."""
        self.scale_ = chosen_scale(scale, data.samples, data.weight)
        data = self._in_units(data)
        d = data.samples.shape[1]
        self._location = np.empty((d, 0))
        self._labels = np.empty(0, dtype=np.int64)
        self._count = np.empty(0)
        self.n_samples_seen_ = 0
        if self._is_random():
            return data
        codevectors = np.atleast_2d(numbers_of(self.init, "init"))
        labels = labels_of(self.init_labels, "init_labels")
        if codevectors.shape != (len(labels), d):
            raise ValueError(f"init must have shape {(len(labels), d)}, got {codevectors.shape}.")
        self._divergence.check(codevectors, "init")
        targets = self.classes_[data.targets]
        self.classes_ = join_classes(self.classes_, labels)
        for mu, c in zip(codevectors, np.searchsorted(self.classes_, labels), strict=True):
            self._append(self._scaled(mu[None]), int(c))
        return data._replace(targets=np.searchsorted(self.classes_, targets).astype(np.int64))

    def _append(self, codevectors: Array, c: int) -> None:
        self._location = np.ascontiguousarray(np.hstack([self._location, codevectors.T]))
        self._labels = np.append(self._labels, np.full(len(codevectors), c, dtype=np.int64))
        self._count = np.append(self._count, np.ones(len(codevectors)))

    def _learn(self, data: Data, step: float) -> None:
        self.n_samples_seen_ += len(data.weight)
        learn(self.variant, self._divergence, data, step, self._location, self._labels, self._count)

    def _publish(self) -> None:
        codevectors = np.ascontiguousarray(self._location.T)
        share = self._count / self._count.sum()
        widths, spreads = np.ones(len(self.classes_)), np.zeros_like(codevectors)
        scaling = NO_SCALING
        if self.scale_ is not None:
            shift = np.zeros_like(self.scale_)
            scaling = Scaling(shift, np.diag(1.0 / self.scale_), np.diag(self.scale_))
        self._set_book(ClassBook(codevectors, self._labels, share, widths, spreads), scaling)
