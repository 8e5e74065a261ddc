"""The parameters of `ODAClassifier`, checked and ready for use."""

from types import SimpleNamespace
from typing import Any

from oda_rl._validation import check_at_least
from oda_rl.estimators.classification.base import check_choice, check_part
from oda_rl.estimators.classification.stream import Mode
from oda_rl.estimators.feature_scaling import SCALES
from oda_rl.estimators.fine_tuning import check_variant
from oda_rl.estimators.session import Settings

MODES = ("conditional", "majority", "lvq")
RULES = ("bayes", "nearest")
SHARED = (
    "divergence",
    "cooling",
    "schedule",
    "t_max",
    "t_min",
    "stepsize",
    "bifurcation",
    "samples_per_cell",
)
TOLERANCES = ("tol_converge", "tol_merge", "min_weight", "perturbation", "n_warmup")


def classifier_settings(estimator: Any) -> tuple[Settings, Mode]:
    """Settings of the annealers and of the classes; raises a ValueError for a parameter out of range."""
    auto = isinstance(estimator.max_codevectors, str)
    if auto and estimator.max_codevectors != "auto":
        raise ValueError(
            f"max_codevectors must be a positive number or 'auto', got {estimator.max_codevectors!r}."
        )
    values = {name: getattr(estimator, name) for name in (*SHARED, *TOLERANCES)}
    k = 1 if auto else estimator.max_codevectors
    values |= {"max_codevectors": k, "finish": False, "target_distortion": None, "max_samples": None}
    settings = Settings.of(SimpleNamespace(**values))
    check_choice(MODES, mode=estimator.mode)
    check_choice(RULES, rule=estimator.rule)
    check_choice((*SCALES, None), scale=estimator.scale)
    check_part(reject=estimator.reject)
    check_at_least(1, n_passes=estimator.n_passes)
    if estimator.validation not in (None, "auto"):
        check_at_least(2, validation=estimator.validation)
    check_variant(estimator.fine_tune, settings.divergence, "fine_tune")
    if estimator.fine_tune is not None and estimator.mode == "majority":
        raise ValueError("fine_tune needs codevectors of one class each, not mode='majority'.")
    return settings, Mode(
        estimator.mode, estimator.scale, estimator.max_codevectors, estimator.fine_tune
    )
