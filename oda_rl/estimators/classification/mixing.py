"""Weights of densities and local logits in a stream: those that did best on samples not yet learned."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.classification.book import log_loss, log_probabilities
from oda_rl.estimators.targets import Data

if TYPE_CHECKING:
    from oda_rl.estimators.classification.judging import ClassJudge
    from oda_rl.estimators.classification.session import ClassSession

# Candidate weights of the log-probabilities of densities and of logits; the first are used initially.
MIXTURES = ((1.0, 0.0), (0.5, 0.5), (0.25, 1.0), (0.0, 1.0))
# Losses are averaged over about the latest REMEMBERED samples; WRONG is the weight of the error rate.
REMEMBERED, WRONG = 1000, 10.0
# Logits must lower the loss by this part; those that have not after PATIENCE samples are dropped.
WORTHWHILE, PATIENCE = 0.02, 2000
# Schema of a stored `Mixing`.
MIXING = {"n": "count", "wait": "count", "losses": f"float[{len(MIXTURES)}] in [0, inf)"}


class Mixing:
    """The mean losses of MIXTURES after `n` samples.

    Logits are used after `wait` samples.
    """

    def __init__(self, wait: int = 0) -> None:
        self.n, self.wait, self.losses = 0, wait, np.zeros(len(MIXTURES))

    @property
    def best(self) -> tuple[float, float]:
        """The weights with the least loss, or those of densities alone unless it is clearly less."""
        least = int(self.losses.argmin())
        clear = self.n >= self.wait and self.losses[least] < (1.0 - WORTHWHILE) * self.losses[0]
        return MIXTURES[least if clear else 0]

    def judge(self, joint: Array, logits: Array, data: Data) -> None:
        """Add samples with log(pi_c p(x | c)) and log-probabilities by logits, both (n, n_classes)."""
        density, n = log_probabilities(joint), len(data.weight)
        found = [log_loss(a * density + b * logits, *data[1:], WRONG) for a, b in MIXTURES]
        self.n += n
        self.losses += n / max(n, min(self.n, REMEMBERED)) * (np.array(found) - self.losses)

    @classmethod
    def restored(cls, state: dict[str, Any] | None) -> "Mixing | None":
        """A `Mixing` with a stored state; None if that is None."""
        found = cls()
        vars(found).update(state or {})
        return None if state is None else found


def begin_mixing(session: "ClassSession", wait: int = 0) -> None:
    """Start to try local logits with the densities of a stream, if settings allow it; see `Mixing`."""
    settings = session.settings
    if (settings.local_model, settings.mode, settings.fine_tune) == ("auto", "conditional", None):
        session.local, session.mixing = session.new_local(), Mixing(wait)
        session.local.density, session.local.logits = session.mixing.best


def mix_logits(
    session: "ClassSession", judge: "ClassJudge", distance: Array, data: Data, every: Data
) -> None:
    """Choose the weights that did best on judged samples; then learn logits from the piece, `every`.

    `data` are the samples of the piece whose classes are known, `distance` their divergences from the
    judge's codevectors. Logits that have not helped are dropped.
    """
    local, mixing = session.local, session.mixing
    if local is None or mixing is None:
        return
    if judge.local is not None and len(distance) > 0:
        mixing.judge(judge.book.log_joint(distance), judge.local.log_proba(data.samples), data)
        local.density, local.logits = mixing.best
    # logits forget too slowly for a stream that changes quickly
    if session.following.is_quick or (local.logits == 0.0 and mixing.n >= PATIENCE):
        session.local = session.mixing = None
    else:
        local.observe(every)
