"""The settings that a tree takes from its underlying estimator, and the limits of its layers."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from oda_rl._validation import check_at_least, plain
from oda_rl.estimators.classification import ODAClassifier
from oda_rl.estimators.parameters import CONSTRAINTS
from oda_rl.estimators.partition import ODAPartition
from oda_rl.estimators.regression import ODARegressor
from oda_rl.estimators.settings import Settings

KINDS = {"clusterer": ODAPartition, "classifier": ODAClassifier, "regressor": ODARegressor}
TARGETS: dict[str, Literal["classes", "outputs", "none"]] = {
    "clusterer": "none",
    "classifier": "classes",
    "regressor": "outputs",
}
# Number of parts for validation="auto".
PARTS = 3
# Parameters without meaning in a tree, which must have their default values.
UNUSED = {
    "clusterer": ("bifurcation", "finish", "target_distortion", "scale"),
    "classifier": (
        *("bifurcation", "mode", "fine_tune", "n_passes"),
        *("validation", "reject", "reject_label", "local_model", "neighbors"),
    ),
    "regressor": ("finish", "softness", "pilot_rounds"),
}


class Layer(NamedTuple):
    """The limits of one layer; None stands for the value of the tree's or its estimator's parameter.

    Parameters
    ----------
    max_codevectors : int or None, default=None
        K_max: largest number of children of one cell (or one per class, if that is more).
    t_min : float, "auto" or None, default=None
        The annealing of a cell's children stops below this temperature.
    max_samples : int or None, default=None
        Largest number of samples presented to a cell's children.
    min_support : int or None, default=None
        Number of samples that a cell needs before it is split.
    min_improvement : float or None, default=None
        Part of the error that a temperature must save, once cells have split, for the annealing to
        continue; and that the children together must save for the cell to be split.

    Examples
    --------
    >>> from oda_rl.estimators.tree import Layer
    >>> Layer(max_codevectors=4).max_codevectors
    4
    """

    max_codevectors: int | None = None
    t_min: float | str | None = None
    max_samples: int | None = None
    min_support: int | None = None
    min_improvement: float | None = None

    @classmethod
    def of(cls, given: Any) -> "Layer":
        """Check a Layer or a mapping with the same names, and return a Layer; raises a ValueError."""
        if isinstance(given, Mapping):
            unknown = sorted(set(given) - set(cls._fields))
            if unknown:
                raise ValueError(
                    f"layers must be dicts with the keys {list(cls._fields)}, got {unknown}."
                )
            given = cls(**given)
        if not isinstance(given, cls):
            raise ValueError(
                "layers must be a number of layers or a list of dicts or Layers, got the item "
                f"{given!r}."
            )
        found = {name: value for name, value in given._asdict().items() if value is not None}
        validate_parameter_constraints(CONSTRAINTS, found, "a Layer")
        return given

    def filled(self, other: "Layer") -> "Layer":
        """This layer, with its None values replaced by those of another."""
        own = {name: value for name, value in self._asdict().items() if value is not None}
        return other._replace(**own)


class TreeSettings(NamedTuple):
    """The kind of the estimator, its settings of annealing and of its kind, and those of the tree."""

    kind: str
    annealing: Settings
    scale: str | None
    rule: str
    class_weight: Any
    linear: bool
    output_weight: float
    ridge: float | None
    layers: list[Layer]
    max_leaves: int | None
    n_jobs: int | None
    validation: int | None

    @classmethod
    def of(cls, model: Any) -> "TreeSettings":
        """Read the parameters of a `MultiResolutionODA` and of its underlying estimator.

        Raises a ValueError or TypeError for values outside their range or not supported by a tree.
        """
        estimator = model._template
        kind = kind_of(estimator)
        _check_unused(estimator, kind)
        estimator._validate_params()
        annealing = Settings.of(estimator, max_codevectors=model.max_children)
        own = vars(estimator)
        usual = Layer(
            model.max_children,
            estimator.t_min,
            own.get("max_samples"),
            model.min_support,
            model.min_improvement,
        )
        return cls(
            kind,
            annealing,
            "standard" if kind == "regressor" else own.get("scale"),
            own.get("rule", "nearest"),
            own.get("class_weight"),
            own.get("local_model") == "linear",
            float(own.get("output_weight", 1.0)),
            None if own.get("ridge", "auto") == "auto" else float(own["ridge"]),
            layers_of(model.layers, usual),
            model.max_leaves,
            model.n_jobs,
            PARTS if model.validation == "auto" else model.validation,
        )


def kind_of(estimator: Any) -> str:
    """The kind of an estimator, a key of `KINDS`; raises a TypeError for other estimators."""
    for kind, known in KINDS.items():
        if isinstance(estimator, known):
            return kind
    names = ", ".join(known.__name__ for known in KINDS.values())
    raise TypeError(f"estimator must be one of {names}, got {estimator!r}.")


# Far more layers than are ever reached, since growth ends when cells have too few samples.
MOST_LAYERS = 1000


def layers_of(given: int | Sequence[Any], usual: Layer) -> list[Layer]:
    """The layers for a value of the parameter `layers`, with None replaced by the `usual` limits."""
    given = plain(given)
    if isinstance(given, int) and not isinstance(given, bool):
        check_at_least(1, layers=given)
        if given > MOST_LAYERS:
            raise ValueError(f"layers must be at most {MOST_LAYERS}, got {given}.")
        return [usual] * given
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or len(given) == 0:
        raise ValueError(
            f"layers must be a number of layers or a list of dicts or Layers, got {given!r}."
        )
    return [Layer.of(layer).filled(usual) for layer in given]


@cache
def _defaults(kind: str) -> dict[str, Any]:
    """Default values of the parameters that have no meaning in a tree."""
    usual = vars(KINDS[kind]())
    return {name: usual[name] for name in UNUSED[kind]}


def _check_unused(estimator: Any, kind: str) -> None:
    for name, default in _defaults(kind).items():
        given = getattr(estimator, name)
        same = given is default or (not isinstance(given, np.ndarray) and given == default)
        if not same and not (name in ("validation", "local_model", "neighbors") and given is None):
            raise ValueError(
                f"the estimator's {name} must be left at {default!r}, got {given!r}: it has no effect "
                "in a tree."
            )
    if kind == "regressor" and not isinstance(estimator.local_model, str):
        raise ValueError(
            f"the estimator's local_model must be 'linear' or 'constant' in a tree, "
            f"got {estimator.local_model!r}."
        )
