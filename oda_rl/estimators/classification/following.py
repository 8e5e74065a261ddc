# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""How long the cells of a stream remember: no longer than what they miss goes on in one direction."""

from typing import Any

import numpy as np

from oda_rl._jit import kernel
from oda_rl._types import Array, Labels

# What cells miss in a piece agrees with what they missed before, or the opposite: in standard errors.
LAGS, OVERSHOOTS = 4.0, -1.0
# By what the memory then gets shorter or longer; it is no shorter than so many samples of a cell, and
# without limit above the last.
SHORTER, LONGER, SHORTEST, UNLIMITED = 0.5, 1.5, 0.5, 100.0
# With a memory of fewer samples of a cell than these, what was before a change is soon gone.
QUICK = 5.0
# What evidence counts after another piece.
KEPT = 0.9
# What `Following.get_state` gives.
FOLLOWING = {
    "before": "float[e, before]",
    "agreement": "float",
    "squares": "float in [0, inf)",
    "memory": "float in [0, inf)",
}


@kernel
def add_misses(samples, labels, distance, location, label, before):
    """Compare how far off the nearest cells of samples' own classes are with what they were `before`.

    `distance` (n_samples, n_cells) are divergences from cells at `location` of classes `label`. `before`
    (n_features, n_cells) holds means of x - mu, zeros where there were none, and takes the new ones.
    Returns the sum over cells of the scalar products of both, and that of their squares.
    """
    d, n_cells = location.shape
    count, missed = np.zeros(n_cells), np.zeros(location.shape)
    for t in range(len(samples)):
        nearest = -1
        for i in range(n_cells):
            if label[i] == labels[t] and (nearest < 0 or distance[t, i] < distance[t, nearest]):
                nearest = i
        if nearest >= 0:
            count[nearest] += 1.0
            for j in range(d):
                missed[j, nearest] += samples[t, j] - location[j, nearest]
    agreement, squares = 0.0, 0.0
    for i in range(n_cells):
        if count[i] > 0.0:
            product = 0.0
            for j in range(d):
                product += before[j, i] * missed[j, i] / count[i]
                before[j, i] = missed[j, i] / count[i]
            agreement += product
            squares += product * product
    return agreement, squares


class Following:
    """Evidence of the pieces so far, and the `memory`: samples of a cell that its stepsizes remember.

    A memory of 0 has no limit. `before` (n_features, n_cells) is how far off the cells were the last
    time that there were samples of theirs, on the average of a piece. Of a cell that stands where it
    belongs these are independent from time to time: one that lags behind misses again in the same
    direction, and one that follows each sample too far in the opposite. (Innovations are white if the
    gain is right: Mehra, "On the identification of variances and adaptive Kalman filtering", IEEE
    Transactions on Automatic Control 15, 1970.)
    """

    def __init__(self) -> None:
        self.before = np.empty((0, 0))
        self.agreement = self.squares = self.memory = 0.0

    def judge(
        self, samples: Array, targets: Labels, distance: Array, location: Array, labels: Labels
    ) -> float:
        """Take in a judged piece of scaled samples; returns how clearly cells lag, in standard errors.

        `distance` (n_samples, n_cells) are divergences from codevectors at `location` (n_features,
        n_cells) of the classes `labels`.
        """
        if self.before.shape != location.shape:
            self.before = np.zeros(location.shape)
        found = add_misses(samples, targets, distance, location, labels, self.before)
        self.agreement = KEPT * self.agreement + found[0]
        self.squares = KEPT**2 * self.squares + found[1]
        return float(self.agreement / np.sqrt(self.squares)) if self.squares > 0.0 else 0.0

    def decide(self, clear: float, now: float) -> None:
        """Change the memory if `judge` was clear; `now` is what cells remember if nothing limits it."""
        if OVERSHOOTS < clear < LAGS or (clear < 0.0 and self.memory == 0.0):
            return
        known = self.memory if self.memory > 0.0 else min(now, UNLIMITED)
        found = max(SHORTER * known, SHORTEST) if clear > 0.0 else LONGER * known
        self.memory = found if found <= UNLIMITED else 0.0
        self.agreement = self.squares = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether the stream moves so quickly that what was before is soon forgotten."""
        return 0.0 < self.memory < QUICK

    def get_state(self) -> dict[str, Any]:
        """All of this, for a model file."""
        return dict(vars(self))

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` gave."""
        vars(self).update(state)
