"""The parameters of estimators: what they may be, and how a model file holds them.

Beside parameters a file has the form of the data: names of features and classes.
"""

from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral, Real
from operator import is_, itemgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from oda_rl._schema import Either, Rules, Schema, Sizes, anything, expect
from oda_rl.codebook.divergences import Divergence, get_divergence

COUNT = Interval(Integral, 1, None, closed="left")
AT_LEAST_TWO = Interval(Integral, 2, None, closed="left")
# Finite ones: a bound of None is left out, as infinity.
POSITIVE = Interval(Real, 0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
PART = Interval(Real, 0, 1, closed="neither")
AUTO = StrOptions({"auto"})


def choice(*names: str) -> StrOptions:
    """One of some names."""
    return StrOptions(set(names))


SCALES = ["array-like", choice("standard", "auto"), None]

# By parameter; where one means different things in different estimators, these have their own.
_GROUPS: tuple[tuple[str, list[Any]], ...] = (
    ("max_codevectors n_codevectors n_warmup n_passes max_passes max_iter", [COUNT]),
    ("max_children min_support batch_size window max_points", [COUNT]),
    ("max_samples max_leaves", [COUNT, None]),
    ("samples_per_cell", [AT_LEAST_TWO]),
    ("validation", [AT_LEAST_TWO, AUTO, None]),
    ("pilot_rounds", [Interval(Integral, 0, None, closed="left")]),
    ("n_jobs", [Integral, None]),
    ("t_max t_min", [POSITIVE, AUTO]),
    ("perturbation bandwidth huber_width", [POSITIVE]),
    ("stepsize_halving", [POSITIVE, None]),
    ("tol_converge tol_merge tol output_weight", [NON_NEGATIVE]),
    ("min_improvement regularization parsimony slowing", [NON_NEGATIVE]),
    ("target_distortion", [NON_NEGATIVE, None]),
    ("softness ridge", [NON_NEGATIVE, AUTO]),
    ("cooling", [PART]),
    ("reject", [PART, None]),
    ("min_weight", [Interval(Real, 0, 1, closed="left")]),
    ("fitness_rate", [Interval(Real, 0, 1, closed="right")]),
    ("move_probability", [Interval(Real, 0.5, 1, closed="right")]),
    ("ratio", [Interval(Real, 1, 10, closed="right")]),
    ("forgetting", [choice("adwin"), None]),
    ("kernel", [AUTO, None]),
    ("schedule", [choice("temperature", "lambda")]),
    ("bifurcation", [choice("critical", "perturb")]),
    ("class_weight", [dict, choice("balanced"), None]),
    ("finish average rehearse", ["boolean"]),
    ("stepsize", [tuple, list]),
    ("init", ["array-like", choice("random")]),
    ("scale init_labels", ["array-like", None]),
    ("adapt", ["array-like", str, None]),
    ("random_state", ["random_state"]),
    ("verbose", ["verbose"]),
)
CONSTRAINTS = {name: allowed for names, allowed in _GROUPS for name in names.split()}
# Those that may change while learning goes on; all others have shaped what is there already.
_FREE = (
    "max_codevectors n_codevectors max_samples max_passes n_passes max_leaves max_children min_support",
    "t_min cooling schedule finish target_distortion tol random_state class_weight validation ridge",
    "forgetting kernel verbose rule reject reject_label layers min_improvement n_jobs init init_labels",
    "rehearse",
)
FREE = {name for names in _FREE for name in names.split()}
# By what rule the cells of a tree predict is part of what they are.
NOT_FREE = {"estimator__rule"}


@cache
def _parameters(cls: Any) -> Callable[[dict[str, Any]], Any]:
    """What takes the parameters, which are two at least, from attributes."""
    return itemgetter(*cls._get_param_names())


class Checked(BaseEstimator):
    """An estimator whose parameters are checked before it learns, and again when one has changed."""

    _own_constraints: ClassVar[dict[str, Any]] = {}
    _known: tuple[tuple[Any, ...], Any] | None = None
    _begun: dict[str, Any]

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        return CONSTRAINTS | self._own_constraints

    def _read_parameters(self) -> Any:
        """The parameters ready for use; raises a ValueError for what they cannot be together."""
        raise NotImplementedError

    def _values(self) -> tuple[Any, ...]:
        cls: Any = type(self)
        found: tuple[Any, ...] = _parameters(cls)(self.__dict__)
        return found

    def _settings(self, begin: bool) -> Any:
        """What `_read_parameters` gives, with the parameters checked.

        Parameters
        ----------
        begin : bool
            Whether learning begins anew; else parameters that are not `FREE` must be as they were.
        """
        values = self._values()
        if begin or self._known is None or not all(map(is_, values, self._known[0])):
            self._validate_params()
            if "divergence" in self.__dict__:
                get_divergence(self.__dict__["divergence"])
            found = self._read_parameters()
            self._check_unchanged(begin)
            self._known = values, found
        assert self._known is not None
        return self._known[1]

    def _check_unchanged(self, begin: bool) -> None:
        """Raise a ValueError for a parameter that has changed and is not `FREE`."""
        given = self.get_params()
        if not begin:
            for name, before in self._begun.items():
                now = given.get(name)
                is_free = name.split("__")[-1] in FREE and name not in NOT_FREE
                if not is_free and not (now is before or _same(now, before)):
                    raise ValueError(
                        f"{name} must stay {before!r} while learning goes on, got {now!r}; "
                        "fit begins anew."
                    )
        self._begun = given


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and np.array_equal(one, other)


# -- model files -------------------------------------------------------------------------------------

# What estimators learn about the form of their data.
FORM = ("n_features_in_", "feature_names_in_", "classes_")


def stored(estimator: Any, /, **others: Any) -> dict[str, Any]:
    """The parameters of a fitted estimator and the form of its data, for `oda_rl.storage.save`.

    A divergence is stored by its name, a generator of random numbers not at all; `others` stand in place
    of parameters that cannot be stored as they are.
    """
    parameters = {**estimator.get_params(deep=False), **others}
    form = {name: getattr(estimator, name) for name in FORM if hasattr(estimator, name)}
    for name, value in parameters.items():
        if isinstance(value, Divergence):
            parameters[name] = value.name
        elif isinstance(value, np.random.RandomState | np.random.Generator):
            parameters[name] = None
    return {"parameters": parameters, "form": form}


def restored(cls: Any, state: Mapping[str, Any], /, **given: Any) -> Any:
    """A new estimator of a class with the parameters and the form of the data that `stored` gave.

    What is `given`, and not None, stands in place of what was stored.
    """
    given = {name: value for name, value in given.items() if value is not None}
    estimator = cls(**{**state["parameters"], **given})
    for name, value in state["form"].items():
        setattr(estimator, name, value)
    return estimator


def are_numbers(value: Any, sizes: Sizes) -> None:
    """None, a text, or finite numbers, in lists, an array, or by class."""
    if value is None or isinstance(value, str):
        return
    array = np.asarray(list(value.values()) if isinstance(value, dict) else value)
    right = array.dtype.kind in "biuf" and bool(np.isfinite(array).all())
    expect(right, "", f"is {value!r:.60}", "finite numbers")


def are_sorted(classes: Any, sizes: Sizes) -> None:
    """Classes are different, and sorted, and such as scikit-learn's classifiers have."""
    check_classification_targets(classes)
    right = len(classes) > 0 and bool(np.all(classes[1:] > classes[:-1]))
    expect(right, "", "are not sorted, or not different", "sorted classes")


def are_texts(names: Any, sizes: Sizes) -> None:
    """Names of features."""
    expect(all(isinstance(name, str) for name in names), "", "are not all texts", "texts")


_NUMBERS = Rules(anything, are_numbers)
# Parameters that an estimator's own check does not look into.
LOOSE = {
    **dict.fromkeys(("class_weight", "init", "init_labels", "scale", "stepsize"), _NUMBERS),
    "reject_label": Either(None, "bool", "int", "float", "text"),
}
FORM_SCHEMA = {
    "n_features_in_": "count in [1, inf) as d",
    "feature_names_in_?": Rules("label[d]", are_texts),
}
CLASSES = Rules("label[C]", are_sorted)


def declared(cls: Any) -> dict[str, Schema]:
    """The schema of what `stored` gives: parameters, which the estimator itself checks, and form.

    Parameters
    ----------
    cls : class
        Of the estimator; a classifier's file has the classes, too.

    Returns
    -------
    dict of str to schema
    """
    parameters = {name: LOOSE.get(name, anything) for name in cls._get_param_names()}
    form = FORM_SCHEMA | ({"classes_": CLASSES} if issubclass(cls, ClassifierMixin) else {})
    return {"parameters": parameters, "form": form}


def may_be_flat(around: Any, sizes: Sizes) -> Schema:
    """Whether outputs came as a single column: only if there is a single one."""
    return "bool" if sizes["m"] == 1 else {False}
