"""What there is to be drawn of a model, whatever its class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Cells reach beyond their codevectors: by this part of the codevectors' range the picture does too.
MARGIN = 0.12
# With fewer codevectors their labels do not tell which dimensions matter.
FEW = 12


@dataclass(frozen=True)
class View:
    """What the plots know of a model.

    Parameters
    ----------
    codevectors : ndarray of shape (n_codevectors, n_features)
        In the units that are to be shown; none if the model has no cells with a centre.
    weights : ndarray of shape (n_codevectors,)
        Probabilities, or visits.
    labels : ndarray of shape (n_codevectors,) or None
        Integers, indices into `label_names`, or other numbers, such as continuous actions.
    feature_names, label_names : list of str
        Names of the coordinates and of the labels; of labels that are numbers, the one name.
    low, high : ndarray of shape (n_features,)
        Where a coordinate ends; infinite where it does not.
    distance : callable or None
        From points of shape (n, n_features) to their divergences from the codevectors, of shape
        (n, n_codevectors). Differences between codevectors must be affine in the point, as they are for
        Bregman divergences: then cells are polytopes.
    values : callable or None
        From points of shape (n, n_valued) to a number for each.
    decisions : callable or None
        From points of shape (n, n_valued) to a label for each, as in `labels`.
    value_name : str
        What the values are.
    n_valued : int or None
        Leading coordinates that `values` and `decisions` take; all if None.
    reach : (ndarray, ndarray) or None
        What is shown of each coordinate by default; by default the range of the codevectors.
    title : str
        Above a picture of an animation.
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

    @property
    def n_features(self) -> int:
        """Coordinates of a codevector."""
        return len(self.feature_names)

    @property
    def has_classes(self) -> bool:
        """Whether labels are numbered, so that each has a colour of its own."""
        return self.labels is not None and np.issubdtype(self.labels.dtype, np.integer)

    def centre(self) -> Array:
        """The mean of the codevectors by weight: where a slice lies if nobody says."""
        if not len(self.codevectors):
            low, high = self.limits()
            return 0.5 * (low + high)
        total = self.weights.sum()
        weights = self.weights / total if total > 0.0 else np.full(len(self.weights), 1.0)
        mean: Array = np.average(self.codevectors, axis=0, weights=weights)
        return mean

    def limits(self, X: NDArray[Any] | None = None) -> tuple[Array, Array]:
        """What is shown of each coordinate: where codevectors and samples are, and a margin."""
        if self.reach is not None:
            return self.reach
        points = self.codevectors if X is None else np.vstack([self.codevectors, X])
        least, most = points.min(axis=0), points.max(axis=0)
        margin = MARGIN * np.where(most > least, most - least, 1.0)
        return np.maximum(least - margin, self.low), np.minimum(most + margin, self.high)


def view_of(model: Any) -> View:
    """What there is to be drawn of a model.

    Parameters
    ----------
    model : View, estimator or agent
        A fitted estimator with `codevectors_`, or anything with a method `view()`, as agents have it.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If it is neither.
    sklearn.exceptions.NotFittedError
        If the estimator has not been fitted.
    """
    if isinstance(model, View):
        return model
    if hasattr(model, "view"):
        found: View = model.view()
        return found
    if not hasattr(model, "get_params"):
        raise TypeError(
            f"model is a {type(model).__name__}; a fitted estimator of oda_rl, an agent of "
            "oda_rl.agents or a View is accepted."
        )
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    return _view_of_estimator(model)


def _view_of_estimator(model: Any) -> View:
    codevectors = np.asarray(model.codevectors_, dtype=float)
    names = getattr(model, "feature_names_in_", None)
    features = [f"feature {j}" for j in range(codevectors.shape[1])] if names is None else list(names)
    divergence = getattr(model, "_divergence", None)
    least = -np.inf if divergence is None else divergence.minimum
    if divergence is not None and divergence.open_minimum:  # the border itself is outside
        least = 0.5 * (least + float(codevectors.min()))
    d = len(features)
    common: dict[str, Any] = {
        "codevectors": codevectors,
        "weights": np.asarray(model.weights_, dtype=float),
        "feature_names": [str(name) for name in features],
        "low": np.full(d, least),
        "high": np.full(d, np.inf),
        "distance": distance_from(model, codevectors),
    }
    if hasattr(model, "classes_"):
        return View(labels=_index(model.classes_, model.codevector_labels_), **common, **_classes(model))
    if hasattr(model, "values_"):
        return View(labels=_first(model.values_), **common, **_outputs(model))
    return View(labels=None, label_names=[], **common)


def _classes(model: Any) -> dict[str, Any]:
    """Of a classifier: the classes decide, and how sure it is of them is the value."""
    return {
        "label_names": [f"class {c}" for c in model.classes_],
        "decisions": lambda X: _index(model.classes_, model.predict(X)),
        "values": lambda X: model.predict_proba(X).max(axis=1),
        "value_name": "probability of the likeliest class",
    }


def _outputs(model: Any) -> dict[str, Any]:
    """Of a regressor: its prediction, the first output if there are several."""
    return {
        "label_names": ["value of the cell"],
        "values": lambda X: _first(model.predict(X)),
        "value_name": "prediction",
    }


def _first(values: Any) -> Array:
    return np.asarray(values, dtype=float).reshape(len(values), -1)[:, 0]


def _index(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels as indices into `classes`; -1 for what a classifier rejected."""
    places = {c: i for i, c in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in np.asarray(labels).tolist()], dtype=np.int64)


def distance_from(model: Any, codevectors: Array) -> Callable[[Array], Array] | None:
    """How an estimator measures from codevectors that are given in the units of its data."""
    if hasattr(model, "relevance_"):
        scaling, relevance = model._run.scaling, model.relevance_
        if scaling is None:
            return None
        found = scaling.standardise(codevectors) * relevance
        return lambda X: squared_distances(scaling.standardise(X) * relevance, found)
    divergence = getattr(model, "_divergence", None)
    if divergence is None:
        return None
    scaling = getattr(model, "_scaling", None)
    if scaling is None:
        return lambda X: np.asarray(divergence(X, codevectors))
    own = scaling(codevectors)
    return lambda X: np.asarray(divergence(scaling(X), own))


def squared_distances(points: Array, codevectors: Array) -> Array:
    """The squared Euclidean distances of points, of shape (n, d), from codevectors, of shape (K, d)."""
    from sklearn.metrics.pairwise import euclidean_distances

    found: Array = euclidean_distances(points, codevectors, squared=True)
    return found


def check_dimensions(
    view: View, dimensions: Sequence[int] | None, most: int | None = None
) -> tuple[int, int]:
    """The two dimensions to draw: those given, or the ones that tell most.

    Raises
    ------
    ValueError
        If they are not two different dimensions of the model.
    """
    n = view.n_features if most is None else most
    if n < 2:
        raise ValueError(f"there is no plane to draw: the model has {n} dimension, two are needed.")
    if dimensions is None:
        return telling_dimensions(view, n)
    found = tuple(int(j) for j in dimensions)
    if len(found) != 2 or found[0] == found[1] or not all(0 <= j < n for j in found):
        raise ValueError(
            f"dimensions must be two different numbers from 0 to {n - 1}, got {tuple(dimensions)}."
        )
    return found


def telling_dimensions(view: View, n: int) -> tuple[int, int]:
    """The two of the first `n` dimensions that say most about the labels of the codevectors.

    Without labels, or with few codevectors, those in which codevectors differ most.
    """
    labels, codevectors = view.labels, view.codevectors[:, :n]
    if n == 2 or not len(codevectors):
        return 0, 1
    if labels is None or len(codevectors) < FEW or len(np.unique(labels)) < 2:
        tells = codevectors.var(axis=0)
    else:
        from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

        measure = mutual_info_classif if view.has_classes else mutual_info_regression
        tells = measure(codevectors, labels, random_state=0)
    first, second = np.sort(np.argsort(-tells, kind="stable")[:2])
    return int(first), int(second)
