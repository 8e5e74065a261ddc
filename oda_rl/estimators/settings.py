"""The parameters of annealing, checked once for all estimators."""

from typing import Any, NamedTuple

import numpy as np

from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.codebook.schedule import Cooling, Stepsize, first_and_last_temperature

# What an estimator that has no such parameter means.
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
        """The settings of an estimator with the parameters as attributes; `USUAL` are those it may lack.

        `instead` are values in place of its own. Raises a ValueError for a stepsize that is none, or
        temperatures in the wrong order.
        """
        given = USUAL | vars(estimator) | instead
        settings = cls(**{name: given[name] for name in cls._fields})._replace(
            cooling=Cooling(given["cooling"], given["schedule"]),
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
        """An annealer for a codebook that has just begun: a cell for each label, with its axis.

        It is of the class `kind`. `critical` is the critical temperature of the data, 0 where they are
        all the same; no fewer than `min_samples` lie between two checks; `seed` draws the directions of
        perturbations.
        """
        t_max, t_min = first_and_last_temperature(self.t_max, self.t_min, critical)
        # The averages behind critical temperatures gain from memory, but twins come together or
        # separate in the time that passes while stepsizes start anew.
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
    """Raise a ValueError for a last temperature above the first."""
    if t_max != "auto" and t_min != "auto" and float(t_min) > float(t_max):
        raise ValueError(f"t_min must be at most t_max, got t_min={t_min} and t_max={t_max}.")
