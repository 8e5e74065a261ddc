"""Calibration of a classifier: one power for all its probabilities, chosen on held-out samples."""

from typing import TYPE_CHECKING

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.classification.annealing import ClassData
from oda_rl.estimators.classification.book import log_loss, log_probabilities
from oda_rl.estimators.classification.validation import TRIAL_TURNS, LeftOut, log_joint_of
from oda_rl.estimators.feature_scaling import Moments
from oda_rl.estimators.targets import Data

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession

# Powers that are tried; the fraction by which a power other than 1 must lower the log loss; and the
# least probability in that loss, which bounds the cost of an outlier.
POWERS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
CLEARLY, LEAST = 0.05, 1e-4


def calibrate(
    session: "ClassSession", data: Data, left_out: LeftOut, spare: float, by_logits: Array | None
) -> None:
    """Calibrate the probabilities of a session on held-out samples.

    `data` are raw samples, `by_logits` their log-probabilities by local logits, if there are any.
    """
    joint, local = joint_of_left_out(session, data, left_out, spare), session.local
    if local is None or by_logits is None:
        session.choice = session.choice._replace(power=find_power(joint, data))
        return
    mixed = local.density * log_probabilities(joint) + local.logits * by_logits
    power = find_power(mixed, data)
    local.density, local.logits = power * local.density, power * local.logits


def find_power(log_joint: Array, data: Data) -> float:
    """The power with the least log loss on held-out samples; 1 unless another is clearly better.

    The errors of a density in each of many features multiply, so that log-probabilities of classes
    differ too much. `log_joint` (n_samples, n_classes) need not be normalised. No decision changes.
    """
    losses = [log_loss(power * log_joint, *data[1:], least=LEAST) for power in POWERS]
    best = int(np.argmin(losses))
    return POWERS[best] if losses[best] < (1.0 - CLEARLY) * losses[0] else 1.0


def joint_of_left_out(session: "ClassSession", data: Data, left_out: LeftOut, spare: float) -> Array:
    """log(pi_c p(x | c)) (n_samples, n_classes) of raw samples, held out of the feature scaling, too.

    If samples are few, a scaling that was learned with the classes of all of them draws the held-out
    samples towards their own classes. The features of each fold are therefore scaled by the other folds
    alone. `spare` is as for `ClassData`.
    """
    settings, moments = session.settings, session.moments
    if len(session.scaling.matrix) == 0:
        return left_out.log_joint
    out = np.empty_like(left_out.log_joint)
    for (train, test), found in zip(left_out.folds, left_out.codebooks, strict=True):
        own = Moments(session.n_features)
        own.kept = moments.kept
        for c in range(len(moments.count)):
            own.insert(c)
        rest = data.take(train)
        own.observe(*rest)
        scaling = own.scaling(settings.scale, session.divergence)
        placed = [scaling(session.scaling.back(codevectors)) for codevectors in found]
        scaled = ClassData(scaling(rest.samples), *rest[1:], len(moments.count), settings.shared, spare)
        cells = scaled.hard_cells(placed, settings.annealing, TRIAL_TURNS)
        book = scaled.book(cells, session.choice.own, session.choice.factor)
        out[test] = log_joint_of(book, scaling(data.samples[test]), settings.annealing)
    return out
