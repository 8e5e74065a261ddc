"""What a file holds of a `ClassSession`."""

from typing import Any

from oda_rl._schema import GENERATOR, Either, Rules, Schema, Sizes, expect, maybe, some
from oda_rl.estimators.classification.local_logits import logits_schema
from oda_rl.estimators.feature_scaling import MOMENTS, SCALING
from oda_rl.estimators.session import run_schema
from oda_rl.estimators.targets import data_schema


def _classes_are_told(session: Any, sizes: Sizes) -> None:
    """Something is known of the data, and every class has something in the codebook."""
    known = session["moments"]["count"].sum() > 0.0 and session["mass"].sum() > 0.0
    expect(known, "moments/count", "is of no sample", "one at least")
    weights = session["book"]["weights"]
    expect(weights.sum() > 0.0, "book/weights", "are all zero", "weights that are not")


def session_schema(around: Any, sizes: Sizes) -> Schema:
    """What `ClassSession.get_state` gives, with the parameters that stand beside it."""
    shared = around["parameters"]["mode"] == "majority"
    run = ("count in [1, inf)", run_schema("d", "C" if shared else "0"))
    votes = "float[B, C] in [0, inf)" if shared else "float[0, 0]"
    entries = {
        "n_seen": "count",
        "n_measured": "count",
        "rescale_at": "count in [1, inf)",
        "mass": "float[C] in [0, inf)",
        "counts": "float[C] in [0, inf)",
        "rng": GENERATOR,
        "choice": {
            **{"level": "count", "own": "float in [0, 1]", "factor": "float in (0, inf)"},
            "losses": ["float in any"],
        },
        "moments": MOMENTS,
        "scaling": SCALING,
        "waiting": data_schema("classifier"),
        "book": {
            "codevectors": "float[B, d]",
            "labels": Rules("int[B] in [0, C)", some),
            "weights": "float[B] in [0, 1]",
            "widths": "float[C] in (0, inf)",
            "spreads": "float[B, d] in [0, inf)",
            "votes": Either("float[0, 0]", votes),
        },
        "runs": (run,) * (1 if shared else sizes["C"]),
        "local": maybe(logits_schema),
    }
    return Rules(entries, _classes_are_told)
