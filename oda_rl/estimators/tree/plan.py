"""What a tree takes from the estimator that it is built over."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators.classification import ODAClassifier
from oda_rl.estimators.classification.settings import ClassSettings
from oda_rl.estimators.partition import ODAPartition
from oda_rl.estimators.regression import ODARegressor
from oda_rl.estimators.regression.session import ModelSettings
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.tasks import Classes, Outputs, Partition

Array = NDArray[np.float64]

KINDS = {"clusterer": ODAPartition, "classifier": ODAClassifier, "regressor": ODARegressor}
# Parameters that mean nothing in a tree, and must be as they are by default.
UNUSED = {
    "clusterer": ("bifurcation", "finish", "target_distortion", "scale"),
    "classifier": (
        "bifurcation",
        "mode",
        "fine_tune",
        "n_passes",
        "validation",
        "reject",
        "reject_label",
    ),
    "regressor": ("finish", "softness", "pilot_rounds"),
}


class Plan(NamedTuple):
    """The kind of the estimator, the settings of its annealing, and what is particular to the kind."""

    kind: str
    settings: Settings
    scale: str | None
    rule: str
    class_weight: Any
    linear: bool
    output_weight: float
    ridge: float | None
    t_min: float | str
    max_samples: int | None

    @classmethod
    def of(cls, estimator: Any) -> "Plan":
        """Read an estimator's parameters; raises a ValueError for those that a tree cannot follow."""
        kind = kind_of(estimator)
        _check_unused(estimator, kind)
        if kind == "classifier":
            settings = ClassSettings.of(estimator).annealing
        else:
            settings = Settings.of(estimator)
        own = vars(estimator)
        return cls(
            kind,
            settings,
            "standard" if kind == "regressor" else own.get("scale"),
            own.get("rule", "nearest"),
            own.get("class_weight"),
            own.get("local_model") == "linear",
            float(own.get("output_weight", 1.0)),
            None if own.get("ridge", "auto") == "auto" else float(own["ridge"]),
            estimator.t_min,
            own.get("max_samples"),
        )

    def task(self, features: Features, n_classes: int, n_outputs: int) -> Partition:
        """What is learned in the cells."""
        if self.kind == "classifier":
            return Classes(n_classes, self.rule)
        if self.kind == "clusterer":
            return Partition()
        widest = max(features.n_features(i) for i in range(len(features)))
        weight = self.output_weight / np.sqrt(n_outputs)
        return Outputs(n_outputs, self.linear, weight, self.ridge, widest)


def kind_of(estimator: Any) -> str:
    """Whether an estimator is a clusterer, a classifier or a regressor; a TypeError if none of them."""
    for kind, known in KINDS.items():
        if isinstance(estimator, known):
            return kind
    names = ", ".join(known.__name__ for known in KINDS.values())
    raise TypeError(f"estimator must be one of {names}, got {estimator!r}.")


@cache
def _usual(kind: str) -> dict[str, Any]:
    """What the parameters that mean nothing in a tree are by default."""
    usual = vars(KINDS[kind]())
    return {name: usual[name] for name in UNUSED[kind]}


def _check_unused(estimator: Any, kind: str) -> None:
    for name, default in _usual(kind).items():
        given = getattr(estimator, name)
        same = given is default or (not isinstance(given, np.ndarray) and given == default)
        if not same and not (name == "validation" and given is None):
            raise ValueError(
                f"the estimator's {name} must be left at {default!r}, got {given!r}: "
                "it means nothing in a tree."
            )
    if kind == "regressor":
        ModelSettings.of(estimator)
        if not isinstance(estimator.local_model, str):
            raise ValueError(
                f"the estimator's local_model must be 'linear' or 'constant' in a tree, "
                f"got {estimator.local_model!r}."
            )
