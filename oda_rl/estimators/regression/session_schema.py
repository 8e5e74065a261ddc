"""What a file may hold of a regressor's run."""

from typing import Any

from oda_rl._schema import Rules, Schema, Sizes, expect, maybe
from oda_rl.codebook.annealer_state import ANNEALER
from oda_rl.codebook.book import BOOK
from oda_rl.codebook.model_learning import N_FIGURES
from oda_rl.estimators.regression.local_models import KNOWN
from oda_rl.estimators.session import run_schema


def _has_units(run: Any, sizes: Sizes) -> None:
    """Cells have a scale and figures; without cells there are samples that wait."""
    begun = run["annealer"] is not None
    for name in ("scaling", "figures"):
        expect(begun == (run[name] is not None), name, "goes without the annealer", "both or none")
    expect(begun or run["buffer_weight"].sum() > 0.0, "buffer", "is empty", "samples that wait")
    crossed = begun and (run["scaling"]["low"] > run["scaling"]["high"]).any()
    expect(not crossed, "scaling/low", "is above high", "bounds in order")
    near = begun and not run["scaling"]["metric"][: sizes["d"]].min() > 0.0
    expect(not near, "scaling/metric", "has an input that does not count", "numbers above 0")
    told = run["annealer"] or {"history": []}
    right = len(run["unexplained"]) == len(told["history"])
    expect(right, "unexplained", f"has {len(run['unexplained'])} numbers", "one for each temperature")


def regression_schema(around: Any, sizes: Sizes) -> Schema:
    """What `RegressionRun.get_state` gives, with the parameters that stand beside it."""
    sizes["q"] = {"linear": sizes["d"] + 1}.get(around["parameters"]["local_model"], 1)
    return model_run_schema(around["parameters"]["local_model"] in KNOWN)


def model_run_schema(known: bool, noise: str = "m") -> Schema:
    """That of a run with d inputs, m outputs and q basis functions in each cell, of a `known` kind.

    `noise` is how many outputs have their errors followed.
    """
    positive = "float[d+m] in (0, inf)"
    own = {"n_inputs": "int in [d, d]", "softness": "float in [0, inf)"}
    # Of models of the user's own the number of parameters is not known here.
    cells = BOOK if known else BOOK | {"payload": "float[Q, K]"}
    entries = run_schema(
        "d+m",
        f"q*m+q*q+1+{noise}",
        codebook=maybe(cells),
        annealer=maybe(ANNEALER | own),
        scaling=maybe(
            {
                **{"mean": "float[d+m]", "deviation": positive, "metric": "float[d+m] in [0, inf)"},
                **dict.fromkeys(("low", "high"), "float[d+m] in [-inf, inf]"),
            }
        ),
        softness="float in [0, inf)",
        unexplained=["float in [0, inf]"],
        figures=maybe(f"float[{N_FIGURES}] in [0, inf)"),
    )
    return Rules(entries, _has_units)
