"""Attacks with numbers: samples and outputs that are huge, tiny, identical or far apart."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from attacks.models import LABELS, X, Y, make_tree
from attacks.trials import Attack, Begin, Found, Verdict, describe
from oda_rl import (
    KernelSGDClassifier,
    KernelSGDRegressor,
    ODAClassifier,
    ODAPartition,
    ODARegressor,
)
from oda_rl.quantization import LVQ, DeterministicAnnealing, StochasticVQ

Array = np.ndarray
SMALL: dict[str, Callable[[], Any]] = {
    "ODAPartition": lambda: ODAPartition(6, random_state=0),
    "ODAPartition, unfinished": lambda: ODAPartition(6, n_warmup=40, finish=False, random_state=0),
    "ODAPartition, perturbed": lambda: ODAPartition(6, bifurcation="perturb", random_state=0),
    "StochasticVQ": lambda: StochasticVQ(5, random_state=0),
    "DeterministicAnnealing": lambda: DeterministicAnnealing(5),
    "ODAClassifier": lambda: ODAClassifier(9, random_state=0),
    "ODAClassifier, unscaled": lambda: ODAClassifier(9, scale=None, random_state=0),
    "LVQ": lambda: LVQ(2, random_state=0),
    "KernelSGDClassifier": lambda: KernelSGDClassifier(window=50, random_state=0),
    "ODARegressor": lambda: ODARegressor(6, random_state=0),
    "ODARegressor, linear": lambda: ODARegressor(6, local_model="linear", random_state=0),
    "KernelSGDRegressor": lambda: KernelSGDRegressor(window=50, random_state=0),
    "Tree of clusters": lambda: make_tree(ODAPartition(random_state=0)),
    "Tree of classes": lambda: make_tree(ODAClassifier(random_state=0)),
    "Tree of outputs": lambda: make_tree(ODARegressor(random_state=0)),
}


def _one(rows: Array, value: float) -> Array:
    rows = rows.copy()
    rows[7, 0] = value
    return rows


_LARGE = (1e20, 1e74, 1e76, 1e150, 1e160, 1e200, 1.7e308)
_SMALL = (1e-20, 1e-74, 1e-76, 1e-150, 1e-160, 1e-200, 5e-324)
# Changes of rows of ordinary numbers, by name.
CHANGES: dict[str, Callable[[Array], Array]] = {
    "as they are": lambda rows: rows,
    **{f"times {size:g}": lambda rows, size=size: rows / 4.0 * size for size in (*_LARGE, *_SMALL)},  # type: ignore[misc]
    **{f"plus {size:g}": lambda rows, size=size: rows + size for size in (1e6, 1e12, 1e17, 1e74)},  # type: ignore[misc]
    **{
        f"one of {value:g}": lambda rows, value=value: _one(rows, value)  # type: ignore[misc]
        for value in (1e6, -1e20, 1e75, 1e160, -1.7e308, np.inf, np.nan)
    },
    "one column of 1e9, others of 1e-9": lambda rows: (
        rows * np.where(np.arange(rows.shape[1]) == 0, 1e9, 1e-9)
    ),
    "all the same": lambda rows: np.ones_like(rows),
    "all 0": lambda rows: 0.0 * rows,
    "two values": lambda rows: np.where(rows > 0.0, 1.0, 0.0),
    "a column of one value": lambda rows: np.where(np.arange(rows.shape[1]) == 0, 3.0, rows),
    "one row": lambda rows: rows[:1],
    "two rows": lambda rows: rows[:2],
    "twice each": lambda rows: np.repeat(rows[: len(rows) // 2], 2, axis=0),
    "one far from all": lambda rows: np.vstack([rows[:-1], rows[-1:] + 1e9]),
    "a jump": lambda rows: np.vstack([rows[:120], rows[120:] + 1e4]),
}
WEIGHTS: dict[str, Callable[[int], Array | None]] = {
    "": lambda n: None,
    "weights of 1e-300 to 1e60": lambda n: np.geomspace(1e-300, 1e60, n),
    "weights of 1e300": lambda n: np.full(n, 1e300),
    "all weights 0 but one": lambda n: (np.arange(n) == n // 2).astype(float),
}
CELLS = [
    (name, what, change, weigh, streaming)
    for name in SMALL
    for what in ("X", "y")
    if what == "X" or "Regressor" in name or "outputs" in name
    for change in CHANGES
    for weigh in WEIGHTS
    if weigh == "" or change == "as they are"
    for streaming in (False, True)
]


def targets_of(name: str, rows: Array) -> tuple[Array, ...]:
    """Return the targets of these rows for the estimator of a name: outputs, classes, or nothing."""
    if "Regress" in name or "outputs" in name:
        return (Y[rows],)
    return (LABELS[rows],) if "Class" in name or "classes" in name or name == "LVQ" else ()


def attack(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: a combination of estimator and input; after the last the table starts again.

    Accepted are finite outputs with unchanged training data, or a ValueError that explains the problem.
    """
    name, what, change, weigh, streaming = CELLS[number % len(CELLS)]
    model = SMALL[name]()
    begin(name, f"{what}: {change}, {weigh or 'no weights'}, {'stream' if streaming else 'fit'}")
    learn = getattr(model, "partial_fit" if streaming else "fit", None)
    if learn is None:
        return Found(Verdict.EQUAL, "there is no such method")
    order = rng.permutation(len(X))
    rows = X[order]
    targets = targets_of(name, order)
    with np.errstate(all="ignore"):
        if what == "X":
            rows = CHANGES[change](rows)
            targets = tuple(target[: len(rows)] for target in targets)
        else:
            targets = (CHANGES[change](targets[0]),)
            rows = rows[: len(targets[0])]
    weights = WEIGHTS[weigh](len(rows))
    options = {} if weights is None or name == "LVQ" else {"sample_weight": weights}
    return _judge(model, learn, rows, targets, options)


def _judge(
    model: Any, learn: Any, rows: Array, targets: tuple[Array, ...], options: dict[str, Any]
) -> Found:
    given = [rows.copy(), *(target.copy() for target in targets)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            learn(rows, *targets, **options)
        except ValueError as error:
            said = str(error)
            own = "contains" in said or "must" in said or "class" in said or "needed" in said
            return Found(Verdict.REFUSED if own else Verdict.RAW, describe(error))
        except Exception as error:
            return Found(Verdict.RAW, describe(error))
        try:
            parts = [model.predict(rows), model.predict(X), getattr(model, "codevectors_", ())]
            for method in ("predict_proba", "transform", "score_samples"):
                if hasattr(model, method):
                    parts.append(getattr(model, method)(rows))
        except Exception as error:
            return Found(Verdict.LATE, describe(error))
    unlike = [
        not np.array_equal(*pair, equal_nan=True) for pair in zip(given, [rows, *targets], strict=True)
    ]
    if any(unlike):
        return Found(Verdict.RAW, "the data were changed")
    finite = all(np.isfinite(np.asarray(part, dtype=float)).all() for part in parts)
    return Found(Verdict.VALID if finite else Verdict.NAN)


def prepare() -> None:
    """Compile all code before children are forked."""
    for name, make in SMALL.items():
        for method in ("fit", "partial_fit"):
            if hasattr(make(), method):
                getattr(make(), method)(X, *targets_of(name, np.arange(len(X))))


ATTACKS: dict[str, Attack] = {"numbers": attack}
