"""Features that a tree is tried with on some of the samples, before it is grown of all of them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._effects import Effects, knots_of
from oda_rl._statistics import KNOTS, have_tails
from oda_rl._types import Array
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.features import maps_of
from oda_rl.estimators.tree.settings import TreeSettings

# Features are ranked or weighed where the error on samples left out is then less than this part, and is
# so by so many standard errors: of ranks, which bound what a sample far away can do, by fewer.
CLEARLY, SURE, SURE_OF_RANKS = 0.9, 2.0, 1.0
# Features of outputs are weighed, and those of classes have scores, if there are so many samples.
WEIGHED = 100
# Values of a feature are kinds if there are so many samples for each.
SAMPLES_OF_A_KIND = 10
# A standard deviation of theirs then counts so often: more than one of outputs, of many kinds too.
KINDS_COUNT = 10.0
# With fewer samples than this each of them is left out once, else a third of them.
FEW = 500


def may_be_ranked(settings: TreeSettings, data: Data) -> bool:
    """Whether features have long tails, and enough samples to tell of what use their ranks are."""
    squared = settings.annealing.divergence.is_euclidean
    scaled = squared and settings.scale is not None and settings.kind != "clusterer"
    return scaled and len(data.weight) >= KNOTS and have_tails(data.samples, data.weight)


def may_be_weighed(settings: TreeSettings, data: Data) -> bool:
    """Whether there are several features, and enough samples to tell of what use they are."""
    squared = settings.annealing.divergence.is_euclidean
    several = data.samples.shape[1] > 1 and len(data.weight) >= WEIGHED
    return squared and settings.kind == "regressor" and several


def may_be_scored(settings: TreeSettings, data: Data) -> bool:
    """Whether there are several features, and enough samples of classes for their scores."""
    squared = settings.annealing.divergence.is_euclidean
    scaled = squared and settings.scale is not None and settings.kind == "classifier"
    several = data.samples.shape[1] > 1 and len(data.weight) >= WEIGHED
    return scaled and several and knots_of(data.samples, data.weight) is not None


def are_kinds(samples: Array) -> NDArray[np.bool_]:
    """Which features (n_features,) have few values, each of samples enough for a cell of its own."""
    n_values = np.array([len(np.unique(x)) for x in samples.T])
    return (n_values > 1) & (n_values * SAMPLES_OF_A_KIND <= len(samples))


class Trial(NamedTuple):
    """Feature maps, not fitted, whether features are weighed by slopes; how surely it must help.

    Maps of None are those that have been found before. `by_kinds` has hardly any but features with few
    values count in distances.
    """

    maps: list[Any] | None
    weighed: bool
    sure: float = SURE
    by_kinds: bool = False


def trials_for(settings: TreeSettings, data: Data) -> list[Trial]:
    """What is tried one after the other with samples: effects or scores, ranks, weights, kinds."""
    from oda_rl.resolutions import EffectMap, RankMap, ScoreMap

    trials, n_layers = [], len(settings.layers)
    if may_be_weighed(settings, data):
        outputs = data.targets - data.weight @ data.targets / data.weight.sum()
        if Effects.of(data.samples, outputs, data.weight) is not None:
            trials.append(Trial(maps_of([EffectMap()], n_layers), True))
    if may_be_scored(settings, data):
        trials.append(Trial(maps_of([ScoreMap()], n_layers), False))
    if may_be_ranked(settings, data):
        trials.append(Trial(maps_of([RankMap()], n_layers), False, SURE_OF_RANKS))
    if may_be_weighed(settings, data):
        trials.append(Trial(None, True))
        kinds = are_kinds(data.samples)
        if settings.linear and kinds.any() and not kinds.all():
            # Slopes that differ by kind: weighed by them, cells divide where a plane would do.
            trials.append(Trial(maps_of(None, n_layers), False, by_kinds=True))
    return trials


def is_better(before: Array, after: Array, sure: float = SURE) -> bool:
    """Whether losses of the same samples are less `after` than `before`, by so many standard errors."""
    gained = before - after
    is_sure = gained.mean() > sure * gained.std() / np.sqrt(len(gained))
    return bool(is_sure and after.mean() < CLEARLY * before.mean())
