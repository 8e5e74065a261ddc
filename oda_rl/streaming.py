"""Learn from one sample at a time, given as a dictionary of features: river's interface."""

import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from math import inf, isfinite, isinf, nan
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor

from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.estimators.classes import announced_classes, labels_of

Target = Any


class Stream:
    """Wrap an estimator of the package for samples that are dictionaries.

    Parameters
    ----------
    estimator : ODARegressor, ODAClassifier or ODAPartition
        An estimator with `partial_fit` and `predict`. It is cloned; the original is not changed.
    classes : sequence, optional
        All classes that will occur, if known; passed to the first `partial_fit` of a classifier.
    block : int, default=16
        The largest number of samples that are buffered and learned from together, in a fraction of the
        time. A prediction first learns from the samples in the buffer. With 1 there is no buffering.

    Attributes
    ----------
    estimator : estimator
        The clone that learns; reading it first learns from the samples in the buffer.
    features : list of str or None
        Names of the features in the order of the columns: those of the first sample, sorted. A feature
        that is missing later is replaced by its mean so far, or by 0; a new one is ignored.

    Notes
    -----
    river itself is not needed. If it was imported before, its pipelines, metrics and progressive
    validation accept a `Stream` as an estimator: `Stream(...)` makes a `StreamRegressor`,
    `StreamClassifier` or `StreamClusterer`, which is registered with river's class of that kind and
    takes missing attributes from it. Before the first sample has been learned from, a regressor predicts
    0.0, a classifier None and a clusterer 0, like river's own.

    river's own `river.compat.convert_sklearn_to_river` (version 0.26) gives the same predictions for
    regressors and classifiers of complete samples. Unlike this class, it does not support clusterers,
    missing features or NaN, weights, several outputs, or classes that are not known beforehand.

    Examples
    --------
    >>> from oda_rl import ODARegressor
    >>> model = Stream(ODARegressor(4, n_warmup=10, random_state=0))
    >>> for i in range(200):
    ...     x = {"a": i % 7, "b": i % 5}
    ...     model.learn_one(x, 2.0 * x["a"] - x["b"])
    >>> round(model.predict_one({"b": 1, "a": 3}), 1)
    5.0
    """

    _kind, _target = "", "number"
    _default: float | None = None  # what is predicted before the first sample
    # Attributes that river reads.
    _supervised = True
    _multiclass = True

    def __new__(cls, estimator: Any = None, classes: Any = None, block: int = 16) -> "Stream":
        """Make an object of the subclass for the kind of estimator."""
        if cls is Stream and hasattr(estimator, "partial_fit"):
            if is_regressor(estimator):
                cls = StreamRegressor
            else:
                cls = StreamClassifier if is_classifier(estimator) else StreamClusterer
        return super().__new__(cls)

    def __init__(self, estimator: Any, classes: Any = None, block: int = 16) -> None:
        for name in ("partial_fit", "predict"):
            if not hasattr(estimator, name):
                raise TypeError(f"estimator must have a method {name}, got {estimator!r}.")
        check_at_least(1, block=block)
        if classes is not None and self._kind != "Classifier":
            raise ValueError(f"classes must be None for {estimator!r}, got {classes!r}.")
        announced_classes(classes)
        self._estimator: Any = clone(estimator)
        self.classes, self.block = classes, block
        self.features: list[Any] | None = None
        self._outputs: list[Any] | None = None
        self._sum, self._count = np.empty(0), np.empty(0)
        self._n_learned = 0
        self._classes: set[Any] = set()
        self._buffer: list[tuple[Any, bool, Target, float]] = []
        if "river" in sys.modules and self._kind:
            from river import base

            getattr(base, self._kind).register(type(self))

    def __getattr__(self, name: str) -> Any:
        """Take attributes that are missing here, but used by river, from its class of this kind."""
        if not name.startswith("__") and self._kind and "river" in sys.modules:
            from river import base

            for parent in getattr(base, self._kind).__mro__:
                if name in vars(parent):
                    return vars(parent)[name].__get__(self, type(self))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        """Arguments with which river's checks make an estimator."""
        from oda_rl import ODAClassifier, ODAPartition, ODARegressor

        kinds = {"Regressor": ODARegressor, "Classifier": ODAClassifier}
        yield {"estimator": kinds.get(cls._kind, ODAPartition)()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({clone(self._estimator)!r}, block={self.block})"

    @property
    def estimator(self) -> Any:
        """The clone, after it has learned from all samples."""
        self._learn_buffer()
        return self._estimator

    def learn_one(self, x: Mapping[Any, float], y: Target = None, w: float = 1.0) -> None:
        """Learn from one sample.

        Parameters
        ----------
        x : mapping of feature to number
            The sample; never changed.
        y : number, class, or mapping of output to number, optional
            The target; None for a clusterer.
        w : float, default=1
            Its weight; samples of weight 0 are left out.

        Raises
        ------
        TypeError
            If x is not a mapping.
        ValueError
            If this sample, or one in the buffer, has no features or cannot be learned from; the others
            are learned from.
        """
        if w != 1.0:
            check_non_negative(w=w)
            if w == 0.0:
                return
        if self.features is None:
            self._begin(x, y)
        if self._outputs is not None:
            y = _numbers_of(y, self._outputs)
        elif self._supervised and not isinstance(y, Hashable):
            raise ValueError(f"y must be a {self._target}, got {y!r}.")
        self._buffer.append((*self._row(x), y, w))
        new_class = self._kind == "Classifier" and y not in self._classes
        if new_class or len(self._buffer) >= self.block:
            self._learn_buffer()

    def predict_one(self, x: Mapping[Any, float]) -> Any:
        """The output, class or cell of one sample.

        Parameters
        ----------
        x : mapping of feature to number
            The sample; never changed.

        Returns
        -------
        float, class, int, or dict of output to float

        Raises
        ------
        ValueError
            If the sample has infinite numbers, or a sample in the buffer cannot be learned from.
        """
        if self._buffer:
            self._learn_buffer()
        if self._n_learned == 0:
            return self._default
        found = self._estimator.predict(self._filled(x))[0]
        if self._outputs is not None:
            return dict(zip(self._outputs, found.tolist(), strict=True))
        return found.item() if isinstance(found, np.generic) else found

    def predict_proba_one(self, x: Mapping[Any, float]) -> dict[Any, float]:
        """Probabilities of the classes of one sample.

        Parameters
        ----------
        x : mapping of feature to number
            The sample; never changed.

        Returns
        -------
        dict of class to float
            Empty before the first sample.

        Raises
        ------
        AttributeError
            If the estimator has no `predict_proba`.
        ValueError
            As for `predict_one`.
        """
        if not hasattr(self._estimator, "predict_proba"):
            raise AttributeError(f"{type(self._estimator).__name__} has no predict_proba.")
        self._learn_buffer()
        if self._n_learned == 0:
            return {}
        shares = self._estimator.predict_proba(self._filled(x))[0]
        return dict(zip(self._estimator.classes_.tolist(), shares.tolist(), strict=True))

    def clone(
        self, new_params: Mapping[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """A copy with arguments changed by `new_params`, fitted if `include_attributes` is true."""
        own = {"estimator": self._estimator, "classes": self.classes, "block": self.block}
        found = type(self)(**(own | dict(new_params or {})))
        if include_attributes and "estimator" not in (new_params or {}):
            vars(found).update(deepcopy(vars(self)) | {k: vars(found)[k] for k in ("classes", "block")})
        return found

    def _begin(self, x: Mapping[Any, float], y: Target) -> None:
        """Store the features and outputs of the first sample, after checking it."""
        features = sorted(x, key=str) if isinstance(x, Mapping) else []
        _numbers_or_nan(x, features)
        if not features:
            raise ValueError("x must have at least one feature.")
        if self._kind == "Regressor" and isinstance(y, Mapping):
            outputs = sorted(y, key=str)
            _numbers_of(y, outputs)
            self._outputs = outputs
        self.features, (self._sum, self._count) = features, np.zeros((2, len(x)))

    def _row(self, x: Mapping[Any, float]) -> tuple[tuple[Any, ...], bool]:
        """A sample's numbers in the order of the features, NaN if missing, and whether none is."""
        assert self.features is not None
        if hasattr(type(x), "__missing__"):  # reading a missing key may change the dictionary
            x = copy(x)
        try:
            row = itemgetter(*self.features)(x) if len(self.features) > 1 else (x[self.features[0]],)
            if isfinite(sum(row)):
                return row, True
        except (KeyError, IndexError, TypeError, OverflowError):
            pass
        row = _numbers_or_nan(x, self.features)
        return row, not np.isnan(row).any()

    def _filled(self, x: Mapping[Any, float]) -> NDArray[np.float64]:
        """A sample (1, n_features), with missing features replaced by their means so far."""
        row, complete = self._row(x)
        found = np.array((row,), dtype=np.float64)
        if complete:
            return found
        return np.where(np.isnan(found), self._sum / np.maximum(self._count, 1.0), found)

    def _learn_buffer(self) -> None:
        """Learn from the samples in the buffer, one by one if that fails; then raise the first error."""
        samples, self._buffer = self._buffer, []
        if not samples:
            return
        try:
            self._learn(samples)
        except (ValueError, TypeError):
            if len(samples) == 1:
                raise
            failed = []
            for sample in samples:
                try:
                    self._learn([sample])
                except (ValueError, TypeError) as error:
                    failed.append(error)
            if failed:
                raise failed[0] from None

    def _learn(self, samples: list[tuple[Any, bool, Target, float]]) -> None:
        rows, complete, targets, weights = zip(*samples, strict=True)
        found = np.array(rows, dtype=np.float64)
        filled, sums, counts = found, self._sum + found[0], self._count + len(found)
        if len(found) > 1:  # added one after the other, so that the block makes no difference
            sums = np.vstack([self._sum, found]).cumsum(axis=0)[-1]
        if not all(complete):
            absent = np.isnan(found)
            summed = np.vstack([self._sum, np.where(absent, 0.0, found)]).cumsum(axis=0)
            counted = np.vstack([self._count, ~absent]).cumsum(axis=0)
            filled = np.where(absent, summed[:-1] / np.maximum(counted[:-1], 1.0), found)
            sums, counts = summed[-1], counted[-1]
        y = None
        if self._outputs is not None:
            y = np.array(targets)
        elif targets[0] is not None:
            y = labels_of(targets, "y") if self._kind == "Classifier" else np.array(targets)
        known: dict[str, Any] = {}
        if self.classes is not None and self._n_learned == 0:
            known["classes"] = np.asarray(self.classes)
        if weights.count(1.0) < len(weights):  # weights of one need no checks
            known["sample_weight"] = np.array(weights)
        self._estimator.partial_fit(filled, y, **known)
        self._sum, self._count = sums, counts
        self._n_learned += len(samples)
        if self._kind == "Classifier":
            self._classes.update(targets)


class StreamRegressor(Stream):
    """A `Stream` of a regressor."""

    _kind, _target = "Regressor", "number"
    _default = 0.0


class StreamClassifier(Stream):
    """A `Stream` of a classifier."""

    _kind, _target = "Classifier", "number or text"


class StreamClusterer(Stream):
    """A `Stream` of a clusterer."""

    _kind = "Clusterer"
    _supervised, _default = False, 0


def _numbers_or_nan(x: Mapping[Any, Any], features: Sequence[Any]) -> tuple[float, ...]:
    """The numbers of a sample in the order of the features; NaN for those that are missing."""
    if not isinstance(x, Mapping):
        raise TypeError(f"x must be a mapping of features to numbers, got {x!r}.")
    row = []
    for name in features:
        value = x.get(name)
        try:
            row.append(nan if value is None else float(value))
        except (TypeError, ValueError, OverflowError):
            row.append(inf)
        if isinf(row[-1]):
            accepted = "finite numbers, or NaN or None for missing values"
            raise ValueError(f"x must have {accepted}, got {value!r} for {name!r}.")
    return tuple(row)


def _numbers_of(y: Any, outputs: Sequence[Any]) -> list[float]:
    """The numbers of several outputs in their order."""
    try:
        return [float(y[name]) for name in outputs]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"y must be a mapping of {outputs} to numbers, got {y!r}.") from error
