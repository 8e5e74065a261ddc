"""Attacks on estimators, which are changed, interrupted and copied in the middle of a stream."""

import io
import pickle
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from attacks.interrupting import alike, interrupt, some_lines
from attacks.models import X, content_of
from attacks.numbers import SMALL, targets_of
from attacks.trials import Begin, Found, Verdict

STREAMED = [
    name for name, make in SMALL.items() if hasattr(make(), "partial_fit") and hasattr(make(), "save")
]
# Parameters that a user may change in mid-stream, with values; each estimator has some of them
CHANGES: dict[str, tuple[Any, ...]] = {
    "max_codevectors": (2, 4, 12, 30),
    "cooling": (0.5, 0.95),
    "t_min": (1e-3, "auto"),
    "finish": (True, False),
    "n_warmup": (10, 500),
    "window": (20, 80),
    "max_children": (2, 5),
    "layers": (1, 3),
    "rule": ("nearest", "density"),
    "mode": ("majority",),
    "local_model": ("constant", "linear"),
    "bifurcation": ("perturb", "critical"),
}


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


def change(model: Any, rng: np.random.Generator) -> str:
    """Set a random parameter to a random value; return which."""
    found = [key for key in model.get_params() if key.rpartition("__")[2] in CHANGES]
    if not found:
        return "no parameter"
    key = found[rng.integers(len(found))]
    values = CHANGES[key.rpartition("__")[2]]
    value = values[rng.integers(len(values))]
    model.set_params(**{key: value})
    return f"{key} = {value}"


def answers(model: Any) -> list[Any]:
    """Return the outputs of an estimator, or a note that it is not fitted."""
    try:
        found = [model.predict(X), getattr(model, "codevectors_", ())]
        for method in ("predict_proba", "transform", "score_samples"):
            if hasattr(model, method):
                found.append(getattr(model, method)(X))
    except NotFittedError:
        return ["not fitted"]
    return found


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
        if not any(key in str(error) for key in CHANGES):
            raise
        return model, Found(Verdict.REFUSED, str(error))
    if not alike(answers(twin), expected):
        return twin, Found(Verdict.WRONG, "the copy does something else")
    if not all(np.isfinite(np.asarray(part, dtype=float)).all() for part in expected):
        return twin, Found(Verdict.NAN)
    return twin, None


def attack_estimators(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: fit, stream to, change and interrupt an estimator, and copy it after each of these.

    Copies must behave like the original. A last fit must have the result of a new estimator's fit.
    """
    name = STREAMED[number % len(STREAMED)]
    model: Any = SMALL[name]()
    twin, told = clone(model), []
    for _ in range(rng.integers(2, 6)):
        what = str(rng.choice(["fit", "partial_fit", "partial_fit", "change", "interrupt"]))
        rows = rng.permutation(len(X))[: 240 if rng.random() < 0.3 else int(rng.integers(30, 240))]
        how = "partial_fit" if rng.random() < 0.7 else "fit"
        if what == "change":
            own = np.random.default_rng(rng.integers(2**32))
            told.append(change(model, deepcopy(own)))
            change(twin, own)
        elif what == "interrupt":
            after = some_lines(rng)
            told.append(f"{how} {len(rows)}, interrupted at line {after}")
            begin(name, "; ".join(told))
            if not _interrupted_whole(model, twin, name, how, rows, after):
                return Found(Verdict.WRONG, "half of it was learned")
            twin = deepcopy(model)
        else:
            told.append(f"{what} {len(rows)}")
            begin(name, "; ".join(told))
            refused = [learn(one, name, what, rows) for one in (model, twin)]
            if refused[0] != refused[1]:
                return Found(Verdict.WRONG, f"refused: {refused}")
        expected = answers(twin)
        if not alike(answers(model), expected):
            return Found(Verdict.WRONG, "a copy does something else")
        if expected != ["not fitted"]:
            copy = str(rng.choice(list(COPIES)))
            told.append(copy)
            begin(name, "; ".join(told))
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
    for name in STREAMED:
        for how in ("fit", "partial_fit"):
            learn(SMALL[name](), name, how, np.arange(len(X)))
