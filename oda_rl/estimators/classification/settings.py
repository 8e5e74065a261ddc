"""The parameters of `ODAClassifier`, checked and ready for use."""

from typing import Any, NamedTuple

from oda_rl._validation import check_at_least
from oda_rl.estimators.classification.fine_tuning import check_variant
from oda_rl.estimators.feature_scaling import SCALES
from oda_rl.estimators.settings import Settings

MODES = ("conditional", "majority", "lvq")
RULES = ("bayes", "nearest")
# Codevectors per class that "auto" stands for, and in all.
AUTO_PER_CLASS, AUTO_MAX = 40, 400


class ClassSettings(NamedTuple):
    """Settings of the annealers, and how classes share codevectors and features."""

    annealing: Settings
    mode: str
    scale: str | None
    max_codevectors: int | str
    fine_tune: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ClassSettings":
        """The settings of an estimator; raises a ValueError for a parameter out of its range."""
        k = estimator.max_codevectors
        if isinstance(k, str) and k != "auto":
            raise ValueError(f"max_codevectors must be a positive number or 'auto', got {k!r}.")
        annealing = Settings.of(estimator, max_codevectors=1 if k == "auto" else k)
        _check_choice(MODES, mode=estimator.mode)
        _check_choice(RULES, rule=estimator.rule)
        _check_choice((*SCALES, None), scale=estimator.scale)
        check_part(reject=estimator.reject)
        check_at_least(1, n_passes=estimator.n_passes)
        if estimator.validation not in (None, "auto"):
            check_at_least(2, validation=estimator.validation)
        check_variant(estimator.fine_tune, annealing.divergence, "fine_tune")
        if estimator.fine_tune is not None and estimator.mode == "majority":
            raise ValueError("fine_tune needs codevectors of one class each, not mode='majority'.")
        return cls(annealing, estimator.mode, estimator.scale, k, estimator.fine_tune)

    @property
    def shared(self) -> bool:
        """Whether all classes have one partition."""
        return self.mode == "majority"

    def capacity(self, n_classes: int) -> int:
        """K_max for so many classes."""
        if isinstance(self.max_codevectors, str):
            return max(n_classes, min(AUTO_PER_CLASS * n_classes, AUTO_MAX))
        return max(self.max_codevectors, n_classes)


def check_part(**values: float | None) -> None:
    """Raise a ValueError for a part that is neither None nor in (0, 1)."""
    for name, value in values.items():
        if value is not None and not 0.0 < value < 1.0:
            raise ValueError(f"{name} must be None or in (0, 1), got {value}.")


def _check_choice(known: tuple[Any, ...], **values: Any) -> None:
    for name, value in values.items():
        if not any(value is k or (isinstance(value, str) and value == k) for k in known):
            raise ValueError(f"{name} must be one of {known}, got {value!r}.")
