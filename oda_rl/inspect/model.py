"""The common interface of models for inspection and plots: a table of the cells, and a view."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl.inspect.table import Table, counted

# Pictures extend beyond the codevectors by this part of their range, as cells do.
MARGIN = 0.12


@dataclass(frozen=True)
class View:
    """What is needed to draw a model.

    Parameters
    ----------
    codevectors : ndarray of shape (n_codevectors, n_features)
        Codevectors in the units of the pictures; empty if the model has no cells with a centre.
    weights : ndarray of shape (n_codevectors,)
        Probabilities, or numbers of visits.
    labels : ndarray of shape (n_codevectors,) or None
        Integer labels are indices into `label_names`; others are values, such as continuous actions.
    feature_names, label_names : list of str
        Names of the coordinates and of the integer labels; one name for labels that are values.
    low, high : ndarray of shape (n_features,)
        Bounds of the coordinates; infinite without a bound.
    distance : callable or None
        Maps points of shape (n, n_features) to their divergences from the codevectors, of shape
        (n, n_codevectors). The difference of the divergences from two codevectors must be affine in the
        point, as it is for Bregman divergences; cells are then polytopes.
    values : callable or None
        Maps points of shape (n, n_valued) to one number each.
    decisions : callable or None
        Maps points of shape (n, n_valued) to one label each, as in `labels`.
    value_name : str
        What the values are, for the colour bar.
    n_valued : int or None
        Number of leading coordinates that `values` and `decisions` take; all if None.
    reach : (ndarray, ndarray) or None
        Lower and upper ends of the coordinates in pictures; by default the range of the codevectors.
    title : str
        Title of this view in an animation.
    classes : ndarray or None
        A classifier's classes, in the order of the integer labels.
    history : sequence of records
        One record for each temperature or pass over the data; may be empty.
    returns : (ndarray, ndarray) or None
        Environment steps at the ends of an agent's episodes, and the returns of the episodes.
    outputs : callable or None
        Maps points of shape (n, n_features) to all outputs, (n, n_outputs), of a regressor with several
        outputs, of which `values` and `labels` are the first.
    """

    codevectors: Array
    weights: Array
    labels: NDArray[Any] | None
    feature_names: list[str]
    label_names: list[str]
    low: Array
    high: Array
    distance: Callable[[Array], Array] | None = None
    values: Callable[[Array], Array] | None = None
    decisions: Callable[[Array], NDArray[Any]] | None = None
    value_name: str = "value"
    n_valued: int | None = None
    reach: tuple[Array, Array] | None = None
    title: str = ""
    classes: NDArray[Any] | None = None
    history: Sequence[Any] = ()
    returns: tuple[Array, Array] | None = None
    outputs: Callable[[Array], Array] | None = None

    @property
    def n_features(self) -> int:
        """Number of coordinates of a codevector."""
        return len(self.feature_names)

    @property
    def has_classes(self) -> bool:
        """Whether labels are integers, so that each has a colour of its own."""
        return self.labels is not None and np.issubdtype(self.labels.dtype, np.integer)

    def centre(self) -> Array:
        """The weighted mean of the codevectors, through which slices pass by default."""
        if not len(self.codevectors):
            low, high = self.limits()
            return 0.5 * (low + high)
        weights = self.weights if self.weights.sum() > 0.0 else np.ones(len(self.weights))
        return np.asarray(np.average(self.codevectors, axis=0, weights=weights))

    def limits(self, X: NDArray[Any] | None = None) -> tuple[Array, Array]:
        """Ends of the coordinates in pictures: `reach`, or the codevectors and samples with a margin."""
        if self.reach is not None:
            return self.reach
        points = self.codevectors if X is None else np.vstack([self.codevectors, X])
        least, most = points.min(axis=0), points.max(axis=0)
        margin = MARGIN * np.where(most > least, most - least, 1.0)
        return np.maximum(least - margin, self.low), np.minimum(most + margin, self.high)

    def renamed(
        self, feature_names: Sequence[str] | None = None, label_names: Sequence[str] | None = None
    ) -> Self:
        """The view with other names; raises a ValueError if their number does not fit."""
        changes: dict[str, Any] = {}
        if feature_names is not None:
            changes["feature_names"] = list(feature_names)
            if len(feature_names) != self.n_features:
                n = self.n_features
                raise ValueError(f"feature_names must have {n} names, got {len(feature_names)}.")
        if label_names is not None:
            changes["label_names"] = list(label_names)
            if len(label_names) < len(self.label_names):
                n = len(self.label_names)
                raise ValueError(f"label_names must have at least {n} names, got {len(label_names)}.")
        return replace(self, **changes)


def view_of(model: Any) -> View:
    """The view of a model, for plots.

    Parameters
    ----------
    model : View, estimator or agent
        A view, a fitted estimator, an agent, or any object with a method `view()`.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If it is none of these.
    sklearn.exceptions.NotFittedError
        If the estimator has not been fitted.
    """
    if isinstance(model, View):
        return model
    try:
        make = model.view
    except AttributeError:
        raise TypeError(
            "model must be a fitted estimator of oda_rl, an agent of oda_rl.agents or a View, got "
            f"{type(model).__name__}."
        ) from None
    found: View = make()
    return found


def evenly_spaced(views: Sequence[View], most: int) -> list[View]:
    """At most `most` of the views, from the first to the last."""
    if not len(views):
        return []
    chosen = np.unique(np.linspace(0, len(views) - 1, min(most, len(views))).round().astype(int))
    return [views[i] for i in chosen.tolist()]


class InspectMixin:
    """Methods `cells`, `view` and `views` for estimators with a codebook.

    Labels and values depend on the estimator type in scikit-learn. Classifiers must have `classes_` and
    `codevector_labels_`.
    """

    codevectors_: Any
    weights_: Any
    n_features_in_: int

    def cells(self, feature_names: Sequence[str] | None = None, all_cells: bool = False) -> Table:
        """The cells as a table, one row each.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names of the features; by default the names that X had in `fit`, or x[0], x[1], ...
        all_cells : bool, default=False
            Whether the table of a tree has rows for cells that are split, including the root.

        Returns
        -------
        Table
            Columns `cell` (a number, or the name of a tree's cell), `weight`, `label` (classifiers) or
            `value` (regressors: the prediction at the codevector, in a tree that of its leaf), and one
            for each feature, in the units of the data. Trees also have `samples`, `error`,
            `share_of_error` and `children`.
        """
        model, kind = self._fitted_and_kind()
        columns = {"cell": np.arange(len(self.codevectors_)), "weight": self.weights_}
        if kind == "classifier":
            columns["label"] = model.codevector_labels_
        elif kind == "regressor":
            columns |= value_columns(self._values_at_codevectors())
        columns |= dict(zip(feature_names_of(self, feature_names), self.codevectors_.T, strict=True))
        n_cells = counted(len(self.codevectors_), "cell")
        return Table(f"{type(self).__name__}: {n_cells}", columns)

    def view(self) -> View:
        """The view of the estimator, for `oda_rl.plotting`.

        Returns
        -------
        View
            In the units of the data. Its functions call this estimator, also after it has learned more.
        """
        model, kind = self._fitted_and_kind()
        codevectors = np.asarray(self.codevectors_, dtype=float)
        d = codevectors.shape[1]
        names = getattr(self, "feature_names_in_", [f"feature {j}" for j in range(d)])
        common: dict[str, Any] = {
            "codevectors": codevectors,
            "weights": np.asarray(self.weights_, dtype=float),
            "feature_names": [str(name) for name in names],
            "low": self._lower_bounds(codevectors),
            "high": np.full(d, np.inf),
            "distance": self._distance_from(codevectors),
            "history": getattr(self, "history_", ()),
        }
        if kind == "classifier":
            classes = model.classes_
            return View(
                labels=indices_of(classes, model.codevector_labels_),
                label_names=[_class_name(c) for c in classes],
                decisions=lambda X: indices_of(classes, call_unnamed(model.predict, X)),
                values=lambda X: call_unnamed(model.predict_proba, X).max(axis=1),
                value_name="probability of the likeliest class",
                classes=classes,
                **common,
            )
        if kind == "regressor":
            found = np.asarray(self._values_at_codevectors(), dtype=float)
            several = found.ndim > 1 and found.shape[1] > 1
            return View(
                labels=_first(found),
                label_names=["prediction at the codevector"],
                values=lambda X: _first(call_unnamed(model.predict, X)),
                outputs=(lambda X: np.asarray(call_unnamed(model.predict, X))) if several else None,
                value_name="prediction",
                **common,
            )
        return View(labels=None, label_names=[], **common)

    def views(self) -> list[View]:
        """Views of the codebook at the end of every temperature, for `oda_rl.plotting`.

        Returns
        -------
        list of View
            One for each record of `history_` that has codevectors.
        """
        now, found = self.view(), []
        for record in now.history:
            past = record._asdict()
            if "codevectors" in past:
                codevectors, k = np.asarray(past["codevectors"], dtype=float), record.n_codevectors
                then: dict[str, Any] = {
                    "codevectors": codevectors,
                    "weights": np.zeros(k),  # not recorded
                    "labels": None if now.classes is None else indices_of(now.classes, past["labels"]),
                    "distance": self._distance_from(codevectors),
                    "title": f"T = {record.temperature:.3g}, {k} codevectors",
                }
                found.append(replace(now, values=None, decisions=None, outputs=None, **then))
        return found

    # -- for the estimators ----------------------------------------------------------------------

    def _fitted_and_kind(self) -> tuple[Any, str]:
        """The estimator itself and its type in scikit-learn; raises if it has not been fitted."""
        from sklearn.utils import get_tags  # agents have views without scikit-learn
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self, str(get_tags(self).estimator_type)

    def _values_at_codevectors(self) -> NDArray[Any]:
        """The outputs of a regressor at its codevectors."""
        model: Any = self
        return np.asarray(call_unnamed(model.predict, self.codevectors_))

    def _geometry(self) -> tuple[Any, Callable[[Array], Array]] | None:
        """The divergence, and the function that scales samples for it; None without polytope cells."""
        return None

    def _lower_bounds(self, codevectors: Array) -> Array:
        """Lower bounds (n_features,) of points in the domain of the divergence; -inf without one."""
        divergence = getattr(self, "_divergence", None)
        least = -np.inf
        if divergence is not None:
            least = divergence.bound_below(float(codevectors.min()))
        return np.full(codevectors.shape[1], least)

    def _distance_from(self, codevectors: Array) -> Callable[[Array], Array] | None:
        """The function from points to their divergences from codevectors, all in the data's units."""
        geometry = self._geometry()
        if geometry is None:
            return None
        divergence, scaled = geometry
        own = np.ascontiguousarray(scaled(codevectors))
        return lambda X: np.asarray(divergence(np.ascontiguousarray(scaled(X)), own))


def _class_name(label: Any) -> str:
    """The name of a class in legends: "class 1", but "class A" as it is."""
    name = str(label)
    return name if name.lower().startswith(("class ", "class_")) else f"class {name}"


def call_unnamed(method: Callable[[Any], Any], points: Any) -> Any:
    """Call a method of an estimator on points (n, n_features) that carry no feature names.

    Suppresses scikit-learn's warning about the missing names.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return method(points)


def feature_names_of(model: Any, given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of a model's features; raises a ValueError if the number of `given` names is wrong."""
    n = int(model.n_features_in_)
    if given is None:
        given = getattr(model, "feature_names_in_", [f"x[{j}]" for j in range(n)])
    names = tuple(str(name) for name in given)
    if len(names) != n:
        raise ValueError(f"feature_names must have {n} names, got {len(names)}.")
    return names


def value_columns(values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Predicted values as columns of a table, one for each output."""
    if values.ndim == 1:
        return {"value": values}
    return {f"value[{k}]": values[:, k] for k in range(values.shape[1])}


def indices_of(classes: NDArray[Any], labels: ArrayLike) -> NDArray[np.int64]:
    """Labels as indices into `classes`; -1 for labels that are not among them, such as rejections."""
    places = {c: i for i, c in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in np.asarray(labels).tolist()], dtype=np.int64)


def _first(values: Any) -> Array:
    return np.asarray(values, dtype=float).reshape(len(values), -1)[:, 0]
