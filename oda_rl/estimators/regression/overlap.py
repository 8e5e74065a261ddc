"""How far the cells of a mixture overlap, by cross-validation."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oda_rl.estimators.regression.mixture import Mixture

# Overlaps that are tried.
SOFTNESSES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# A fit that must be better than another is given up if with the overlap of the other its error exceeds
# what it must reach by this factor: other overlaps would hardly lower it by so much.
GIVE_UP = 1.15


class Descent(NamedTuple):
    """The overlap that is tried first, and the error there above which no others are tried."""

    start: float = SOFTNESSES[len(SOFTNESSES) // 2]
    worst: float = np.inf

    @classmethod
    def beside(cls, overlap: float, score: float) -> "Descent":
        """For a fit that must reach a `score`, beside one for which this `overlap` was the best."""
        return cls(overlap, GIVE_UP * score)


FROM_MIDDLE = Descent()


def choose_softness(fit: Callable[[float], Mixture], descent: Descent) -> tuple[float, Mixture]:
    """The overlap with the least score, and its mixture, by a descent on `SOFTNESSES`."""
    best, found = SOFTNESSES.index(descent.start), fit(descent.start)
    for step in (1, -1) if found.score <= descent.worst else ():
        begin = best
        while 0 <= best + step < len(SOFTNESSES):
            other = fit(SOFTNESSES[best + step])
            if not other.score < found.score:
                break
            best, found = best + step, other
        if best != begin:
            break
    return SOFTNESSES[best], found
