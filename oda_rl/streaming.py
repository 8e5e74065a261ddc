"""One sample at a time, as dictionaries of features: the interface of river's estimators."""

import math
import sys
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

Target = Any


class Stream:
    """Wraps an estimator of the package for samples that are dictionaries.

    Parameters
    ----------
    estimator : ODARegressor, ODAClassifier or ODAPartition
        Anything with `partial_fit` and `predict`. It is cloned: the given one is left alone.
    classes : sequence, optional
        All classes there will be; a classifier whose `partial_fit` wants them gets them at the first
        sample.

    Attributes
    ----------
    estimator : estimator
        The clone that learns.
    features : list of str or None
        Names of the features in the order of the columns: those of the first sample, sorted. A feature
        that is missing later counts as its mean so far, one that is new is ignored.

    Notes
    -----
    river itself is not needed. Where it has been imported before, its pipelines, metrics and progressive
    validation take a `Stream` for an estimator of theirs: `Stream(...)` makes a `StreamRegressor`,
    `StreamClassifier` or `StreamClusterer`, which are registered as such. Before the first sample has
    been learned from, a regressor predicts 0.0, a classifier None and a clusterer 0, as river's do.

    river's own `river.compat.convert_sklearn_to_river` (version 0.26) gives the same predictions for
    regressors and classifiers of complete samples. It does not take clusterers, missing features or NaN,
    weights, several outputs, or classes that are not known beforehand, which this does.

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

    _kind = ""
    # What river reads of its estimators.
    _supervised = True
    _multiclass = True

    def __new__(cls, estimator: Any = None, classes: Any = None) -> "Stream":
        """The subclass for the kind of the estimator."""
        if cls is Stream and hasattr(estimator, "partial_fit"):
            if is_regressor(estimator):
                cls = StreamRegressor
            else:
                cls = StreamClassifier if is_classifier(estimator) else StreamClusterer
        return super().__new__(cls)

    def __init__(self, estimator: Any, classes: Any = None) -> None:
        for name in ("partial_fit", "predict"):
            if not hasattr(estimator, name):
                raise TypeError(f"estimator must have a method {name}, got {estimator!r}.")
        self.estimator: Any = clone(estimator)
        self.classes = classes
        self.features: list[Any] | None = None
        self._mean: dict[Any, float] = {}
        self._count: dict[Any, int] = {}
        self._learned = False
        if "river" in sys.modules and self._kind:
            from river import base

            getattr(base, self._kind).register(type(self))

    def learn_one(self, x: Mapping[Any, float], y: Target = None, w: float = 1.0) -> None:
        """Learn from one sample.

        Parameters
        ----------
        x : mapping of feature to number
            The sample; never changed.
        y : number, class, or mapping of output to number, optional
            What it should give; nothing for a clusterer.
        w : float, default=1
            Its weight; samples of weight 0 are left out.
        """
        if w <= 0.0:
            return
        if self.features is None:
            if not x:
                raise ValueError("x must have at least one feature.")
            self.features = sorted(x, key=str)
        row = self._row(x, learn=True)
        known = {}
        if self.classes is not None and not self._learned:
            known = {"classes": np.asarray(self.classes)}
        if isinstance(y, Mapping):
            self._outputs = sorted(y, key=str)
            y = np.array([[float(y[name]) for name in self._outputs]])
        elif y is not None:
            y = np.array([y])
        # Weights of one need no checks.
        if w != 1.0:
            known["sample_weight"] = np.array([w])
        self.estimator.partial_fit(row, y, **known)
        self._learned = True

    def predict_one(self, x: Mapping[Any, float]) -> Any:
        """The output, class or cell of one sample.

        Parameters
        ----------
        x : mapping of feature to number
            The sample; never changed.

        Returns
        -------
        float, class, int, or dict of output to float
        """
        if not self._learned:
            return self._nothing()
        found = self.estimator.predict(self._row(x))[0]
        if np.ndim(found) == 1:
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
        """
        if not hasattr(self.estimator, "predict_proba"):
            raise AttributeError(f"{type(self.estimator).__name__} has no predict_proba.")
        if not self._learned:
            return {}
        shares = self.estimator.predict_proba(self._row(x))[0]
        return dict(zip(self.estimator.classes_.tolist(), shares.tolist(), strict=True))

    def clone(self) -> Self:
        """The same, without what it has learned."""
        return type(self)(self.estimator, self.classes)

    def _row(self, x: Mapping[Any, float], learn: bool = False) -> Any:
        assert self.features is not None
        row = np.empty((1, len(self.features)))
        for j, name in enumerate(self.features):
            value = x.get(name)
            if value is None or (isinstance(value, float) and math.isnan(value)):
                row[0, j] = self._mean.get(name, 0.0)
                continue
            row[0, j] = value
            if learn:
                self._count[name] = self._count.get(name, 0) + 1
                mean = self._mean.get(name, 0.0)
                self._mean[name] = mean + (float(value) - mean) / self._count[name]
        return row

    def _nothing(self) -> Any:
        return None


class StreamRegressor(Stream):
    """A `Stream` of a regressor."""

    _kind = "Regressor"

    def _nothing(self) -> Any:
        return 0.0


class StreamClassifier(Stream):
    """A `Stream` of a classifier."""

    _kind = "Classifier"


class StreamClusterer(Stream):
    """A `Stream` of a clusterer."""

    _kind = "Clusterer"
    _supervised = False

    def _nothing(self) -> Any:
        return 0
