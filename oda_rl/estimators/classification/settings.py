"""What a classifier's parameters come to, where it learns."""

from typing import Any, NamedTuple

from oda_rl.estimators.classification.fine_tuning import check_variant
from oda_rl.estimators.settings import Settings

# Codevectors per class that "auto" stands for, and in all.
AUTO_PER_CLASS, AUTO_MAX = 40, 400


class ClassSettings(NamedTuple):
    """Settings of the annealers, and how classes share codevectors and features."""

    annealing: Settings
    mode: str
    scale: str | None
    max_codevectors: int | str
    fine_tune: str | None
    local_model: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ClassSettings":
        """Those of an estimator; raises a ValueError for what its parameters cannot be together."""
        k = estimator.max_codevectors
        annealing = Settings.of(estimator, max_codevectors=1 if k == "auto" else k)
        check_variant(estimator.fine_tune, annealing.divergence, "fine_tune")
        if estimator.fine_tune is not None and estimator.mode == "majority":
            raise ValueError("fine_tune needs codevectors of one class each, not mode='majority'.")
        own = estimator.mode, estimator.scale, k, estimator.fine_tune, estimator.local_model
        return cls(annealing, *own)

    @property
    def shared(self) -> bool:
        """Whether all classes have one partition."""
        return self.mode == "majority"

    def capacity(self, n_classes: int) -> int:
        """K_max for so many classes."""
        if isinstance(self.max_codevectors, str):
            return max(n_classes, min(AUTO_PER_CLASS * n_classes, AUTO_MAX))
        return max(self.max_codevectors, n_classes)
