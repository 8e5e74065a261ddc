"""Attacks on estimators: with extreme numbers, and on their states in the middle of a stream."""

import io
import pickle
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from attacks.interrupting import alike, interrupt, some_lines
from attacks.models import LABELS, X, Y, content_of, make_tree, outputs_of
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


# -- extreme numbers ---------------------------------------------------------------------------------


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


def attack_with_numbers(number: int, rng: np.random.Generator, begin: Begin) -> Found:
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
    return _judge_outputs(model, learn, rows, targets, options)


def _judge_outputs(
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
            codevectors = getattr(model, "codevectors_", ())
            parts = [model.predict(X), *outputs_of(model, rows), codevectors]
        except Exception as error:
            return Found(Verdict.LATE, describe(error))
    unlike = [
        not np.array_equal(*pair, equal_nan=True) for pair in zip(given, [rows, *targets], strict=True)
    ]
    if any(unlike):
        return Found(Verdict.RAW, "the data were changed")
    finite = all(np.isfinite(np.asarray(part, dtype=float)).all() for part in parts)
    return Found(Verdict.VALID if finite else Verdict.NAN)


# -- states ------------------------------------------------------------------------------------------


STREAMED = [
    name for name, make in SMALL.items() if hasattr(make(), "partial_fit") and hasattr(make(), "save")
]
# Parameters that a user may change in mid-stream, with values; each estimator has some of them
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "max_codevectors": (2, 4, 12, 30),
    "cooling": (0.5, 0.95),
    "t_min": (1e-3, "auto"),
    "finish": (True, False),
    "n_warmup": (10, 500),
    "window": (20, 80),
    "max_children": (2, 5),
    "layers": (1, 3),
    "rule": ("nearest", "bayes"),
    "mode": ("majority",),
    "local_model": ("constant", "linear"),
    "bifurcation": ("perturb", "critical"),
}
OF_CLASSIFIERS = PARAMETERS | {"local_model": ("auto", None)}


def reload(model: Any) -> Any:
    """Save and load a model."""
    return type(model).load(io.BytesIO(content_of(model)))


COPIES: dict[str, Callable[[Any], Any]] = {
    "saved": reload,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "copied": deepcopy,
}


def learn(model: Any, name: str, how: str, rows: np.ndarray) -> str:
    """Let an estimator learn; return the message of a ValueError, or an empty text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(model, how)(X[rows], *targets_of(name, rows))
        except ValueError as error:
            return str(error)
    return ""


def set_parameter(model: Any, rng: np.random.Generator) -> str:
    """Set a random parameter to a random value; return which."""
    accepted = OF_CLASSIFIERS if is_classifier(model) else PARAMETERS
    found = [key for key in model.get_params() if key.rpartition("__")[2] in accepted]
    if not found:
        return "no parameter"
    key = found[rng.integers(len(found))]
    values = accepted[key.rpartition("__")[2]]
    value = values[rng.integers(len(values))]
    model.set_params(**{key: value})
    return f"{key} = {value}"


def answers(model: Any) -> list[Any]:
    """Return the outputs of an estimator, or a note that it is not fitted."""
    try:
        return [*outputs_of(model, X), getattr(model, "codevectors_", ())]
    except NotFittedError:
        return ["not fitted"]


def _interrupted_whole(model: Any, twin: Any, name: str, how: str, rows: np.ndarray, after: int) -> bool:
    """Whether an interrupted model has learned everything, like its twin, or (`fit` only) nothing."""
    before = answers(model)
    learn(twin, name, how, rows)
    interrupt(partial(learn, model, name, how, rows), after)
    left = answers(model)
    return alike(left, answers(twin)) or (how == "fit" and alike(left, before))


def _copied(model: Any, copy: str, expected: list[Any]) -> tuple[Any, Found | None]:
    """Copy an estimator; return the copy, and what is wrong with it, if anything."""
    try:
        twin = COPIES[copy](model)
    except ValueError as error:  # a parameter was changed to an invalid value
        if not any(key in str(error) for key in PARAMETERS):
            raise
        return model, Found(Verdict.REFUSED, str(error))
    if not alike(answers(twin), expected):
        return twin, Found(Verdict.WRONG, "the copy does something else")
    if not all(np.isfinite(np.asarray(part, dtype=float)).all() for part in expected):
        return twin, Found(Verdict.NAN)
    return twin, None


def attack_states(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: fit, stream to, change and interrupt an estimator, and copy it after each of these.

    Copies must behave like the original. A last fit must have the result of a new estimator's fit.
    """
    name = STREAMED[number % len(STREAMED)]
    model: Any = SMALL[name]()
    twin, done = clone(model), []
    for _ in range(rng.integers(2, 6)):
        what = str(rng.choice(["fit", "partial_fit", "partial_fit", "change", "interrupt"]))
        rows = rng.permutation(len(X))[: 240 if rng.random() < 0.3 else int(rng.integers(30, 240))]
        how = "partial_fit" if rng.random() < 0.7 else "fit"
        if what == "change":
            own = np.random.default_rng(rng.integers(2**32))
            done.append(set_parameter(model, deepcopy(own)))
            set_parameter(twin, own)
        elif what == "interrupt":
            after = some_lines(rng)
            done.append(f"{how} {len(rows)}, interrupted at line {after}")
            begin(name, "; ".join(done))
            if not _interrupted_whole(model, twin, name, how, rows, after):
                return Found(Verdict.WRONG, "half of it was learned")
            twin = deepcopy(model)
        else:
            done.append(f"{what} {len(rows)}")
            begin(name, "; ".join(done))
            refused = [learn(one, name, what, rows) for one in (model, twin)]
            if refused[0] != refused[1]:
                return Found(Verdict.WRONG, f"refused: {refused}")
        expected = answers(twin)
        if not alike(answers(model), expected):
            return Found(Verdict.WRONG, "a copy does something else")
        if expected != ["not fitted"]:
            copy = str(rng.choice(list(COPIES)))
            done.append(copy)
            begin(name, "; ".join(done))
            twin, found = _copied(twin, copy, expected)
            if found is not None:
                return found
    new, rows = clone(model), np.arange(len(X))
    refused = [learn(one, name, "fit", rows) for one in (model, new)]
    if refused[0] != refused[1] or (not refused[0] and not alike(answers(model), answers(new))):
        return Found(Verdict.WRONG, f"a last fit is not that of a new estimator {refused}")
    return Found(Verdict.EQUAL)


def prepare() -> None:
    """Compile all code before children are forked."""
    for name, make in SMALL.items():
        for how in ("fit", "partial_fit"):
            if hasattr(make(), how):
                learn(make(), name, how, np.arange(len(X)))


ATTACKS: dict[str, Attack] = {"numbers": attack_with_numbers, "states of estimators": attack_states}
