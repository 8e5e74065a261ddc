"""Schemas of model files: runs, sessions of classifiers and regressors, and local logits."""

from typing import Any

from oda_rl._schema import GENERATOR, Rules, Schema, Sized, Sizes, expect, maybe
from oda_rl._validation import LARGEST
from oda_rl.codebook.annealer_state import ANNEALER
from oda_rl.codebook.book import BOOK
from oda_rl.codebook.model_learning import N_FIGURES
from oda_rl.estimators.feature_scaling import MOMENTS, SCALING
from oda_rl.estimators.stream_weights import SEEN_WEIGHTS
from oda_rl.estimators.targets import data_schema

_NUMBER = "float in [0, inf)"


def _belong_together(run: Any, sizes: Sizes) -> None:
    """A rule: annealer and codebook come together, variances are valid, and the path is complete."""
    cells, found = run["codebook"], run["annealer"]
    expect((cells is None) == (found is None), "annealer", "does not match codebook", "both or neither")
    finished = 0 if found is None else len(found["history"])
    expect(
        len(run["path"]) == finished, "path", f"has {len(run['path'])} records", f"{finished} records"
    )
    if cells is not None:
        least = cells["payload"][: sizes["n"]].min(initial=0.0)
        expect(least >= 0.0, "codebook/payload", f"has a variance of {least}", "non-negative variances")


def run_schema(n: str, payload: str, **others: Schema) -> Schema:
    """Schema of `Run.get_state`, with n columns of samples and n + `payload` numbers in each cell."""
    entries: dict[str, Schema] = {
        "seconds": "float in [0, inf)",
        "n_seen": "count",
        "n_dropped": "count",
        "rng": GENERATOR,
        "path": [(_NUMBER, _NUMBER, "float[k, n]", _NUMBER, _NUMBER)],
        "buffer": f"float[held, n] in [-{LARGEST}, {LARGEST}]",
        "buffer_weight": "float[held] in [0, inf)",
        "codebook": maybe(BOOK),
        "annealer": maybe(ANNEALER),
        "identities": None,
    }
    return Sized(Rules(entries | others, _belong_together), n=n, P=f"{n}+{payload}", labels=1)


def _classes_are_told(session: Any, sizes: Sizes) -> None:
    """A rule: moments, masses and weights are not all zero, and the next rescaling is still to come."""
    due, measured = session["rescale_at"], session["n_measured"]
    expect(due > measured, "rescale_at", f"is {due}", f"above n_measured, {measured}")
    known = session["moments"]["count"].sum() > 0.0 and session["mass"].sum() > 0.0
    expect(known, "moments/count", "is zero for all classes", "at least one sample")
    weights = session["book"]["weights"]
    expect(weights.sum() > 0.0, "book/weights", "has only zeros", "at least one positive weight")


def class_session_schema(around: Any, sizes: Sizes) -> Schema:
    """Schema of `ClassSession.get_state`, given the parameters in the same file (`around`)."""
    from oda_rl.estimators.classification.book import book_schema
    from oda_rl.estimators.classification.following import FOLLOWING
    from oda_rl.estimators.classification.judging import MIXING, WIDTHS
    from oda_rl.estimators.classification.neighbors import neighbors_schema

    shared = around["parameters"]["mode"] == "majority"
    run = ("count in [1, inf)", run_schema("d", "C" if shared else "0"))
    entries = {
        "n_seen": "count",
        "n_measured": "count",
        "n_fitted": "count",
        "rescale_at": "count in [1, inf)",
        "mass": "float[C] in [0, inf)",
        "counts": "float[C] in [0, inf)",
        "weights": (SEEN_WEIGHTS,) * sizes["C"],
        "n_tried": "count",
        "trial_losses": f"float[{len(WIDTHS)}] in [0, inf)",
        "rng": GENERATOR,
        "choice": {
            **{"level": "count", "own": "float in [0, 1]", "factor": "float in (0, inf)"},
            **{"losses": ["float in any"], "power": "float in (0, 1]"},
        },
        "following": FOLLOWING,
        "moments": MOMENTS,
        "scaling": SCALING,
        "waiting": data_schema("classifier"),
        "book": book_schema(shared),
        "runs": (run,) * (1 if shared else sizes["C"]),
        "local": maybe(logits_schema),
        "mixing": maybe(MIXING),
        "neighbors?": neighbors_schema("stored"),
    }
    return Rules(entries, _classes_are_told)


def logits_schema(around: Any, sizes: Sizes) -> Schema:
    """Schema of `LocalLogits.get_state`, with d features and C classes."""
    from oda_rl._effects import count_stored

    inputs = sizes["d"] + (0 if around["local"]["run"] is None else count_stored(around["local"]["run"]))
    sizes |= {"m": sizes["C"], "D": inputs, "q": inputs + 1}
    return {
        "density": "float in [0, inf)",
        "logits": "float in [0, inf)",
        "knots": maybe("float[knots, d]"),
        "waiting": data_schema("classifier", "unlearned"),
        "run": maybe(model_run_schema(True, "0", "D")),
    }


def _has_units(run: Any, sizes: Sizes) -> None:
    """A rule: cells come with a scaling and figures; without cells, samples wait in the buffer."""
    begun = run["annealer"] is not None
    for name in ("scaling", "figures"):
        expect(begun == (run[name] is not None), name, "does not match annealer", "both or neither")
    expect(
        begun or run["buffer_weight"].sum() > 0.0,
        "buffer",
        "is empty",
        "waiting samples of positive weight",
    )
    near = begun and not run["scaling"]["metric"][: sizes.get("D", sizes["d"])].min() > 0.0
    expect(not near, "scaling/metric", "has an input of weight zero", "positive numbers")
    told = run["annealer"] or {"history": []}
    right = len(run["unexplained"]) == len(told["history"])
    expect(
        right,
        "unexplained",
        f"has {len(run['unexplained'])} numbers",
        f"{len(told['history'])}, one for each temperature",
    )


def regression_schema(around: Any, sizes: Sizes) -> Schema:
    """Schema of `RegressionRun.get_state`, given the parameters in the same file (`around`)."""
    from oda_rl._effects import count_stored
    from oda_rl.estimators.regression.local_models import KNOWN

    model = around["parameters"]["local_model"]
    sizes["D"] = sizes["d"] + count_stored(around["run"])  # inputs of the models
    sizes["q"] = {"linear": sizes["D"] + 1}.get(model, 1)
    return model_run_schema(model in KNOWN, d="D")


def model_run_schema(known: bool, noise: str = "m", d: str = "d") -> Schema:
    """Schema of a run with d inputs, m outputs and q basis functions of the local model in each cell.

    `known` is whether the kind of local model is built in; `noise` is the number of outputs whose errors
    are followed.
    """
    from oda_rl._effects import effects_schema
    from oda_rl.estimators.regression.kernel_part import kernel_schema
    from oda_rl.estimators.regression.predictor import units_schema

    own = {"n_inputs": f"int in [{d}, {d}]", "softness": "float in [0, inf)", "rests?": "bool"}
    # The number of parameters of user-defined models is not known here.
    cells = BOOK if known else BOOK | {"payload": "float[Q, K]"}
    entries = run_schema(
        f"{d}+m",
        f"q*m+q*q+1+{noise}",
        codebook=maybe(cells),
        annealer=maybe(ANNEALER | own),
        scaling=maybe(units_schema(d)),
        **{"effects?": effects_schema("effects"), "kernel?": kernel_schema("landmarks", d)},
        softness="float in [0, inf)",
        unexplained=["float in [0, inf]"],
        n_fitted="count",
        figures=maybe(f"float[{N_FIGURES}] in [0, inf)"),
    )
    return Rules(entries, _has_units)
