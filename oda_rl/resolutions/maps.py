"""One resolution of a multi-resolution model: any specification of the user as a checked map."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from oda_rl._types import Array
from oda_rl.resolutions.base import BaseMap
from oda_rl.resolutions.projection import Projection, principal
from oda_rl.resolutions.states import get_state, is_known
from oda_rl.resolutions.wavelets import WaveletPyramid

ACCEPTED = (
    "a transformer, a callable, None (the data as they are), an integer (of principal components), a "
    "number between 0 and 1 (fraction of the variance), columns as a list or a slice, or a matrix"
)
# Errors of maps with more letters are shortened.
MOST_LETTERS = 400
# Classes that are affine for all values of their parameters, except `clip=True`.
AFFINE = (
    "IncrementalPCA",
    "LinearDiscriminantAnalysis",
    "MaxAbsScaler",
    "MinMaxScaler",
    "PCA",
    "Projection",
    "RobustScaler",
    "StandardScaler",
    "TruncatedSVD",
)


@dataclass(eq=False, repr=False)
class FeatureMap(BaseMap):
    """A map from data to the features of one resolution, whose output is checked.

    Parameters
    ----------
    spec : transformer, callable, int, float, sequence, slice, ndarray or None, default=None
        A transformer with scikit-learn's interface (cloned, then fitted); a callable from arrays of rows
        to arrays of rows; a number of principal components, or the share of the variance that they are
        to keep, in (0, 1); columns; a matrix of directions; None for the unchanged data.
    name : str, default="the feature map"
        Name of the map in error messages.

    Attributes
    ----------
    map_ : transformer
        The fitted map.
    n_features_in_, n_features_out_ : int
        Number of features of the data, and of this resolution.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> FeatureMap(2).fit(X).transform(X).shape
    (50, 2)
    >>> FeatureMap(np.abs).fit(X).linear() is None
    True
    """

    spec: Any = None
    name: str = "the feature map"

    _fitted = "n_features_out_"

    def check_fitted(self) -> None:
        """Raise a ValueError unless all attributes are there; only a sample shows if `map_` works."""
        known = {"spec", "name", "map_", "n_features_in_", "n_features_out_"}
        if vars(self).keys() - {"feature_names_in_"} != known or not hasattr(self.map_, "transform"):
            raise ValueError(
                f"{self.name} must have the attributes {sorted(known)}, got {sorted(vars(self))}."
            )

    def _fit_weighted(self, samples: Array, y: ArrayLike | None, weight: Array) -> None:
        self.map_ = _build(self.spec, self.name)
        with _errors_named(self.name):
            if isinstance(self.map_, BaseMap):
                self.map_.fit_weighted(samples, y, weight)
            else:
                self.map_.fit(samples, y)
        self.n_features_out_ = self._apply(samples[:2]).shape[1]

    def _transform(self, samples: Array) -> Array:
        found = self._apply(samples)
        if found.shape[1] != self.n_features_out_:
            raise ValueError(
                f"{self.name} must return {self.n_features_out_} features, as in fit, got "
                f"{found.shape[1]}."
            )
        return found

    def _has_inverse(self) -> bool:
        return _inverts(getattr(self, "map_", None))

    def _n_features_out(self) -> int:
        return self.n_features_out_

    def _inverse(self, features: Array) -> Array:
        return np.asarray(self.map_.inverse_transform(features))

    def linear(self) -> tuple[Array, Array] | None:
        """The matrix and offset of an affine map: features = X @ matrix + offset.

        Returns
        -------
        tuple of ndarray of shape (n_features, n_features_out_) and ndarray of shape (n_features_out_,)
            None if the map is not affine.
        """
        check_is_fitted(self, "map_")
        if not _is_affine(self.map_):
            return None
        offset = self._apply(np.zeros((1, self.n_features_in_)))[0]
        return np.ascontiguousarray(self._apply(np.eye(self.n_features_in_)) - offset), offset

    def _names(self, input_features: Any) -> Sequence[str]:
        if not hasattr(self.map_, "get_feature_names_out"):
            return [f"feature{i}" for i in range(self.n_features_out_)]
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        return list(self.map_.get_feature_names_out(input_features))

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The map for a model file, for `oda_rl.resolutions.restore`.

        Returns
        -------
        dict
            Plain values and arrays. Callables and classes that `oda_rl.resolutions.get_state` does not
            support are stored by name only, and must be given to `restore` again.
        """
        try:
            return get_state(self)
        except TypeError:
            own = self.spec
            what = repr(own) if hasattr(own, "fit") else f"the callable {getattr(own, '__name__', own)}"
            sizes = {key: int(getattr(self, key, 0)) for key in ("n_features_in_", "n_features_out_")}
            return {"user": what, "name": self.name, **sizes}

    @classmethod
    def of_users(cls, given: Any, state: dict[str, Any]) -> Self:
        """A map around the user's own callable or transformer, with the sizes that were stored.

        Parameters
        ----------
        given : callable or fitted transformer
            Given again at load; used without fitting.
        state : dict
            From `get_state`.

        Returns
        -------
        FeatureMap

        Raises
        ------
        ValueError
            If `given` is a transformer that is not fitted.
        """
        made = cls(given, name=state["name"])
        if not hasattr(given, "transform"):
            made.map_ = _build(given, made.name)
        else:
            try:
                check_is_fitted(given)
            except NotFittedError as error:
                raise ValueError(
                    f"{made.name} must be fitted, as it was when the model was saved: {error}"
                ) from error
            made.map_ = given
        made.n_features_in_ = state["n_features_in_"]
        made.n_features_out_ = state["n_features_out_"]
        return made

    def _apply(self, samples: Array) -> Array:
        with _errors_named(self.name):
            own = isinstance(self.map_, BaseMap)
            found = (self.map_.transform_checked if own else self.map_.transform)(samples)
        try:
            features = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} must return an array of numbers, got a {type(found).__name__}: {error}."
            ) from error
        if features.ndim != 2 or len(features) != len(samples) or features.shape[1] == 0:
            raise ValueError(
                f"{self.name} must return one row of features for each of {len(samples)} samples, got "
                f"an array of shape {features.shape}."
            )
        if not np.isfinite(features).all():
            raise ValueError(f"{self.name} must return finite numbers, got NaN or infinity.")
        return np.ascontiguousarray(features)


def as_map(spec: Any, name: str = "the feature map") -> FeatureMap:
    """Make a map with `fit`, `transform` and checked output from the specification of a resolution.

    Parameters
    ----------
    spec : transformer, callable, int, float, sequence, slice, ndarray or None
        As for `FeatureMap`; of a `FeatureMap` its `spec` is used.
    name : str, default="the feature map"
        Name of the map in error messages, such as "resolution 0".

    Returns
    -------
    FeatureMap
        Not fitted.

    Raises
    ------
    ValueError
        If `spec` is none of these.
    """
    if isinstance(spec, FeatureMap):
        spec = spec.spec
    _build(spec, name)
    return FeatureMap(spec, name)


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    """Add the name of the map to errors raised within the context; long ones are shortened."""
    try:
        yield
    except ValueError as error:
        text = " ".join(str(error).split())  # some of scikit-learn's contain all targets
        if len(text) > MOST_LETTERS:
            text = f"{text[: MOST_LETTERS // 2]} ... {text[-MOST_LETTERS // 4 :]}"
        raise ValueError(f"{name}: {text}") from error
    except BaseException as error:
        error.add_note(f"Raised by {name}.")
        raise


def _build(spec: Any, name: str) -> Any:
    """An unfitted transformer for a specification of the user."""
    if isinstance(spec, FeatureMap):
        return _build(spec.spec, name)
    if spec is None:
        return Projection()
    if isinstance(spec, slice | list | tuple | range | np.ndarray):
        if not isinstance(spec, slice) and np.ndim(spec) == 2:
            return Projection(matrix=np.asarray(spec))
        return Projection(columns=spec)
    if isinstance(spec, int | float | np.integer | np.floating):
        with _errors_named(name):
            return principal(spec)
    if not isinstance(spec, type):
        if hasattr(spec, "fit") and hasattr(spec, "transform"):
            return clone(spec)
        if callable(spec):
            return FunctionTransformer(spec)
    raise ValueError(f"{name} must be {ACCEPTED}; got {spec!r}.")


def _inverts(fitted: Any) -> bool:
    """Whether a map has an inverse. A FunctionTransformer has the method even without one."""
    if isinstance(fitted, Pipeline):
        return all(_inverts(step) for _, step in fitted.steps if step != "passthrough")
    if isinstance(fitted, FunctionTransformer) and fitted.inverse_func is None:
        return False
    return hasattr(fitted, "inverse_transform")


def _is_affine(fitted: Any) -> bool:
    if isinstance(fitted, Pipeline):
        return all(step == "passthrough" or _is_affine(step) for _, step in fitted.steps)
    if isinstance(fitted, FeatureUnion):
        steps = [step for _, step in fitted.transformer_list]
        return all(step in ("drop", "passthrough") or _is_affine(step) for step in steps)
    if isinstance(fitted, WaveletPyramid):
        return fitted.kind != "modulus" or fitted.level == 0
    affine = is_known(fitted) and type(fitted).__name__ in AFFINE
    return affine and not getattr(fitted, "clip", False)
