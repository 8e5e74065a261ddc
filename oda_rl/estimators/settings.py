"""The parameters of annealing, checked once for all estimators."""

from typing import Any, NamedTuple

import numpy as np

from oda_rl._validation import plain
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.codebook.schedule import Cooling, Stepsize, first_and_last_temperature

# Values of parameters that an estimator does not have.
USUAL = {
    "bifurcation": "critical",
    "divergence": "squared_euclidean",
    "finish": False,
    "target_distortion": None,
    "max_samples": None,
    "rehearse": True,
}


class Settings(NamedTuple):
    """The parameters of annealing, as `ODAPartition` has them, checked and ready for use."""

    max_codevectors: int
    t_max: float | str
    t_min: float | str
    cooling: Cooling
    stepsize: Stepsize
    bifurcation: str
    divergence: Divergence
    finish: bool
    target_distortion: float | None
    max_samples: int | None
    samples_per_cell: int
    tol_converge: float
    tol_merge: float
    min_weight: float
    perturbation: float
    n_warmup: int
    rehearse: bool

    @classmethod
    def of(cls, estimator: Any, **instead: Any) -> "Settings":
        """The settings of an estimator, from its attributes; parameters that it lacks are in `USUAL`.

        Values in `instead` replace those of the estimator. Raises a ValueError if the stepsize is
        invalid or the temperatures are in the wrong order.
        """
        given = USUAL | vars(estimator) | instead
        settings = cls(**{name: plain(given[name]) for name in cls._fields})._replace(
            cooling=Cooling(plain(given["cooling"]), given["schedule"]),
            stepsize=Stepsize.of(given["stepsize"]),
            divergence=get_divergence(given["divergence"]),
        )
        check_order(settings.t_max, settings.t_min)
        return settings

    def annealer(
        self,
        book: Codebook,
        critical: float,
        min_samples: int,
        seed: np.random.Generator,
        kind: type[Annealer] = Annealer,
    ) -> Annealer:
        """Make an annealer for an initial codebook, which has a cell with its axis for each label.

        The annealer is of the class `kind`. `critical` is the critical temperature of the data, 0 if all
        samples are equal; at least `min_samples` samples lie between two checks; `seed` draws the
        directions of perturbations.
        """
        t_max, t_min = first_and_last_temperature(self.t_max, self.t_min, critical)
        # Memory makes the averages behind critical temperatures more accurate. But twins need time (the
        # sum of the stepsizes) to merge or separate, so that for them the stepsizes must start afresh.
        memory = self.samples_per_cell // 10 if self.bifurcation == "critical" else 0
        return kind(
            book,
            t_max=t_max,
            t_min=t_min,
            cooling=self.cooling,
            stepsize=self.stepsize,
            max_codevectors=self.max_codevectors,
            tol_converge=self.tol_converge,
            tol_merge=self.tol_merge,
            min_weight=self.min_weight,
            perturbation=self.perturbation,
            bifurcation=self.bifurcation,
            check_every=max(1, self.samples_per_cell // 2),
            max_samples=self.samples_per_cell,
            memory=memory,
            min_samples=min_samples,
            harden=self.finish,
            seed=seed,
        )


def check_order(t_max: float | str, t_min: float | str) -> None:
    """Raise a ValueError if the last temperature is above the first."""
    if t_max != "auto" and t_min != "auto" and float(t_min) > float(t_max):
        raise ValueError(f"t_min must be at most t_max, got t_min={t_min} and t_max={t_max}.")
