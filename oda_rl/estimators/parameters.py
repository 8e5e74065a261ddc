"""The parameters of estimators: their valid values, and how they are stored in a model file.

Besides parameters, a file contains the form of the data: names of features, and classes.
"""

from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral, Real
from operator import is_, itemgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from oda_rl._schema import Either, NotStoredError, Rules, Schema, Sizes, anything, expect
from oda_rl.codebook.divergences import DIVERGENCES, Divergence, get_divergence
from oda_rl.estimators.classes import labels_of
from oda_rl.estimators.stream_weights import SEEN_WEIGHTS, SeenWeights

COUNT = Interval(Integral, 1, None, closed="left")
AT_LEAST_TWO = Interval(Integral, 2, None, closed="left")
# Finite numbers: with a bound of None, the interval does not contain infinity.
POSITIVE = Interval(Real, 0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
PART = Interval(Real, 0, 1, closed="neither")
AUTO = StrOptions({"auto"})


def choice(*names: str) -> StrOptions:
    """A constraint: one of these names."""
    return StrOptions(set(names))


SCALES = ["array-like", choice("standard", "auto"), None]

# Constraints by parameter name. An estimator in which a name has another meaning overrides its entry.
_GROUPS: tuple[tuple[str, list[Any]], ...] = (
    ("max_codevectors n_codevectors n_warmup n_passes max_passes max_iter", [COUNT]),
    ("max_children min_support batch_size window max_points", [COUNT]),
    ("max_samples max_leaves", [COUNT, None]),
    ("samples_per_cell", [AT_LEAST_TWO]),
    ("validation", [AT_LEAST_TWO, AUTO, None]),
    ("pilot_rounds", [Interval(Integral, 0, None, closed="left")]),
    ("n_jobs", [Integral, None]),
    ("t_max t_min huber_width", [POSITIVE, AUTO]),
    ("perturbation bandwidth", [POSITIVE]),
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
# Parameters that may change between calls of `partial_fit`; all others have shaped the present state.
_FREE = (
    "max_codevectors n_codevectors max_samples max_passes n_passes max_leaves max_children min_support",
    "t_min cooling schedule finish target_distortion tol random_state class_weight validation ridge",
    "forgetting kernel verbose rule reject reject_label layers min_improvement n_jobs init init_labels",
    "rehearse",
)
FREE = {name for names in _FREE for name in names.split()}
# In a tree, the rule of prediction has determined how the cells were grown.
NOT_FREE = {"estimator__rule"}


@cache
def _parameters(cls: Any) -> Callable[[dict[str, Any]], Any]:
    """A getter of all parameter values from an attribute dictionary; needs two parameters at least."""
    return itemgetter(*cls._get_param_names())


class Checked(BaseEstimator):
    """An estimator that checks its parameters before it learns, and again if one has changed."""

    _own_constraints: ClassVar[dict[str, Any]] = {}
    _known: tuple[tuple[Any, ...], Any] | None = None
    _begun: dict[str, Any]
    random_state: Any

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        return CONSTRAINTS | self._own_constraints

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _read_parameters(self) -> Any:
        """Return the parameters ready for use; raise a ValueError for an invalid combination."""
        raise NotImplementedError

    def _values(self) -> tuple[Any, ...]:
        cls: Any = type(self)
        found: tuple[Any, ...] = _parameters(cls)(self.__dict__)
        return found

    def _settings(self, begin: bool) -> Any:
        """Check the parameters and return the result of `_read_parameters`.

        Parameters
        ----------
        begin : bool
            Whether learning starts from scratch; else only parameters in `FREE` may have changed.
        """
        values, known = self._values(), self._known
        if not begin and known is not None and all(map(is_, values, known[0])):
            return known[1]
        if not begin and known is not None and all(map(_same, values, known[0])):
            found = known[1]  # of equal objects, as after unpickling
        else:
            self._validate_params()
            if "divergence" in self.__dict__:
                get_divergence(self.__dict__["divergence"])
            found = self._read_parameters()
            self._check_unchanged(begin)
        self._known = values, found
        return found

    def _check_unchanged(self, begin: bool) -> None:
        """Raise a ValueError for a parameter that has changed and is not `FREE`."""
        given = self.get_params()
        if not begin:
            for name, before in self._begun.items():
                now = given.get(name)
                is_free = name.split("__")[-1] in FREE and name not in NOT_FREE
                if not is_free and not _same(now, before):
                    raise ValueError(
                        f"{name} must stay {before!r} while learning continues, got {now!r}; call fit "
                        "to start again."
                    )
        self._begun = given


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and np.array_equal(one, other))


# -- model files -------------------------------------------------------------------------------------

# Attributes that describe the form of the training data.
FORM = ("n_features_in_", "feature_names_in_", "classes_")
# Where scikit-learn keeps what `set_output` was given, and the containers of it that files may name.
OUTPUT, CONTAINERS = "_sklearn_output_config", {"default", "pandas", "polars"}
# The weights of the samples so far.
WEIGHTS = "_weights_seen"


def stored(estimator: Any, /, **others: Any) -> dict[str, Any]:
    """The parameters of a fitted estimator and the form of its data, for `oda_rl.storage.save`.

    The form includes the container of `set_output`, if it is one of scikit-learn's own. A divergence is
    stored by its name, a random number generator as None, and an array-like of another library, or a
    range, as an array. `others` replace parameters that cannot be stored directly.
    """
    parameters = {**estimator.get_params(deep=False), **others}
    form = {name: getattr(estimator, name) for name in FORM if hasattr(estimator, name)}
    output = getattr(estimator, OUTPUT, {})
    if output.get("transform") in CONTAINERS:
        form[OUTPUT] = dict(output)
    form[WEIGHTS] = list(getattr(estimator, WEIGHTS, ()))
    for name, value in parameters.items():
        if isinstance(value, Divergence):
            parameters[name] = value.name
        elif isinstance(value, np.random.RandomState | np.random.Generator):
            parameters[name] = None
        elif isinstance(value, range) or (
            hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic)
        ):
            parameters[name] = np.asarray(value)
    return {"parameters": parameters, "form": form}


def restored(cls: Any, state: Mapping[str, Any], /, **given: Any) -> Any:
    """Make an estimator of a class with the parameters and the form of the data from `stored`.

    Parameters in `given` that are not None replace the stored ones. Raises a NotStoredError if the
    divergence is not one of the package's.
    """
    given = {name: value for name, value in given.items() if value is not None}
    parameters = {**state["parameters"], **given}
    name = parameters.get("divergence")
    if isinstance(name, str) and name not in DIVERGENCES:
        raise NotStoredError(
            f"divergence must be one of {sorted(DIVERGENCES)}, got {name!r}; of a divergence of your "
            "own, files contain only the name: give it to load(path, divergence=...)."
        )
    estimator = cls(**parameters)
    for name, value in state["form"].items():
        setattr(estimator, name, SeenWeights(*value) if name == WEIGHTS else value)
    return estimator


def are_numbers(value: Any, sizes: Sizes) -> None:
    """A rule: the value is None, a text, or finite numbers in lists, an array or a dictionary."""
    if value is None or isinstance(value, str):
        return
    array = np.asarray(list(value.values()) if isinstance(value, dict) else value)
    right = array.dtype.kind in "biuf" and bool(np.isfinite(array).all())
    expect(right, "", f"is {value!r:.60}", "finite numbers")


def are_sorted(classes: Any, sizes: Sizes) -> None:
    """A rule: classes are distinct, sorted, and valid for scikit-learn's classifiers."""
    # Each twice: scikit-learn warns if most samples have a class of their own.
    check_classification_targets(np.repeat(classes, 2))
    right = len(classes) > 0 and bool(np.all(classes[1:] > classes[:-1]))
    expect(right, "", "is not sorted, or has duplicates", "distinct classes in ascending order")


def are_texts(names: Any, sizes: Sizes) -> None:
    """A rule: names of features are all texts."""
    expect(all(isinstance(name, str) for name in names), "", "has other values than strings", "strings")


def are_labels(value: Any, sizes: Sizes) -> None:
    """A rule: the value is None, or a list or an array of classes, only numbers or only texts."""
    if value is not None:
        labels_of(value, "init_labels")


_NUMBERS = Rules(anything, are_numbers)
# Schemas of parameters whose contents the estimator's own check does not verify.
LOOSE = {
    **dict.fromkeys(("class_weight", "init", "scale", "stepsize"), _NUMBERS),
    "init_labels": Rules(anything, are_labels),
    "reject_label": Either(None, "bool", "int", "float in any", "text"),
}
FORM_SCHEMA = {
    "n_features_in_": "count in [1, inf) as d",
    "feature_names_in_?": Rules("label[d]", are_texts),
    f"{OUTPUT}?": {"transform": CONTAINERS},
    f"{WEIGHTS}?": SEEN_WEIGHTS,
}
CLASSES = Rules("label[C]", are_sorted)


def declared(cls: Any) -> dict[str, Schema]:
    """The schema of what `stored` returns: parameters, which the estimator itself checks, and form.

    Parameters
    ----------
    cls : class
        The estimator's class; the file of a classifier also contains the classes.

    Returns
    -------
    dict of str to schema
    """
    parameters = {name: LOOSE.get(name, anything) for name in cls._get_param_names()}
    form = FORM_SCHEMA | ({"classes_": CLASSES} if issubclass(cls, ClassifierMixin) else {})
    return {"parameters": parameters, "form": form}


def may_be_flat(around: Any, sizes: Sizes) -> Schema:
    """Schema of the entry "flat" (outputs were given as a 1-d array): False for several outputs."""
    return "bool" if sizes["m"] == 1 else {False}
