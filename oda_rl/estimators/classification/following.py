# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Memory of the cells in a stream: shortened while their errors persist in one direction."""

import numpy as np

from oda_rl._jit import kernel
from oda_rl._types import Array, Labels

# Cells lag if their errors in successive pieces agree by at least LAGS standard errors, and overshoot if
# the agreement is no more than OVERSHOOTS standard errors (negative: they alternate).
LAGS, OVERSHOOTS = 4.0, -1.0
# Factors by which the memory is then shortened or lengthened; its minimum, in samples per cell; and the
# memory above which there is no limit.
SHORTER, LONGER, SHORTEST, UNLIMITED = 0.5, 1.5, 0.5, 100.0
# With a memory of fewer samples per cell than this, everything before a change is soon forgotten.
QUICK = 5.0
# Factor by which earlier evidence decays with each piece.
KEPT = 0.9
# Schema of a stored `Following`.
FOLLOWING = {
    "before": "float[e, before]",
    "agreement": "float",
    "squares": "float in [0, inf)",
    "memory": "float in [0, inf)",
}


@kernel
def add_misses(samples, labels, distance, location, label, before):
    """Compare the mean errors x - mu of cells in a piece with those `before`.

    A sample counts for the nearest cell of its class. `distance` (n_samples, n_cells) are divergences
    from cells at `location` with classes `label`. `before` (n_features, n_cells) holds the previous mean
    errors, initially zeros, and is updated. Returns the sum over cells of the scalar products of
    previous and new errors, and the sum of their squares.
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
    """Evidence from the pieces so far, and the `memory`: samples per cell that stepsizes average over.

    A memory of 0 has no limit. `before` (n_features, n_cells) is the mean error x - mu of each cell in
    the last piece with samples of it. Mean errors of a cell at its right place are independent from
    piece to piece. Those of a cell that lags behind keep their direction; those of a cell that follows
    each sample too far reverse it. (Innovations are white if the gain is right: Mehra, "On the
    identification of variances and adaptive Kalman filtering", IEEE Transactions on Automatic Control
    15, 1970.)
    """

    def __init__(self) -> None:
        self.before = np.empty((0, 0))
        self.agreement = self.squares = self.memory = 0.0

    def judge(
        self, samples: Array, targets: Labels, distance: Array, location: Array, labels: Labels
    ) -> float:
        """Add a piece of scaled samples to the evidence; return how far cells lag, in standard errors.

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
        """Change the memory if `clear`, from `judge`, is significant; `now` is that without a limit."""
        if OVERSHOOTS < clear < LAGS or (clear < 0.0 and self.memory == 0.0):
            return
        known = self.memory if self.memory > 0.0 else min(now, UNLIMITED)
        found = max(SHORTER * known, SHORTEST) if clear > 0.0 else LONGER * known
        self.memory = found if found <= UNLIMITED else 0.0
        self.agreement = self.squares = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether the stream changes so quickly that earlier samples are soon forgotten."""
        return 0.0 < self.memory < QUICK
