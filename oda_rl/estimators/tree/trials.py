"""Features of a tree: those given, or found by trials with trees of a part of the samples."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._effects import Effects, knots_of
from oda_rl._replicates import replicates
from oda_rl._statistics import KNOTS, have_tails, is_clear
from oda_rl._types import Array, Labels
from oda_rl.estimators.regression.pilot import LEAST_RELEVANCE, relevance_of
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.features import Features, check_targets_of, maps_of
from oda_rl.estimators.tree.growth import Growth
from oda_rl.estimators.tree.settings import TreeSettings

# A trial wins if the error on samples left out is then below CLEARLY times that before, and lower by
# TRIAL_Z standard errors. Ranks, which limit the influence of outliers, need only RANKS_Z.
CLEARLY, TRIAL_Z, RANKS_Z = 0.9, 2.0, 1.0
# Least number of samples to weigh features by slopes (for outputs) or to add scores (for classes).
WEIGHED = 100
# A feature is categorical ("kinds") if it has this many samples per value.
SAMPLES_PER_CATEGORY = 10
# Scale factor of such features in distances: large enough to outweigh the outputs, even with many kinds.
CATEGORICAL_SCALE = 10.0
# With fewer samples than this, each third is left out once, else only one third.
FEW = 500


def may_be_ranked(settings: TreeSettings, data: Data) -> bool:
    """Whether ranks should be tried: features have long tails, and there are enough samples."""
    squared = settings.annealing.divergence.is_euclidean
    scaled = squared and settings.scale is not None and settings.kind != "clusterer"
    return scaled and len(data.weight) >= KNOTS and have_tails(data.samples, data.weight)


def may_be_weighed(settings: TreeSettings, data: Data) -> bool:
    """Whether weights by slopes should be tried: several features, outputs, and enough samples."""
    squared = settings.annealing.divergence.is_euclidean
    several = data.samples.shape[1] > 1 and len(data.weight) >= WEIGHED
    return squared and settings.kind == "regressor" and several


def may_be_scored(settings: TreeSettings, data: Data) -> bool:
    """Whether scores should be tried: several features, classes, and enough samples."""
    squared = settings.annealing.divergence.is_euclidean
    scaled = squared and settings.scale is not None and settings.kind == "classifier"
    several = data.samples.shape[1] > 1 and len(data.weight) >= WEIGHED
    return scaled and several and knots_of(data.samples, data.weight) is not None


def are_categorical(samples: Array) -> NDArray[np.bool_]:
    """Which features (n_features,) are categorical: few values, with enough samples for each."""
    n_values = np.array([len(np.unique(x)) for x in samples.T])
    return (n_values > 1) & (n_values * SAMPLES_PER_CATEGORY <= len(samples))


class Trial(NamedTuple):
    """A trial: unfitted feature maps, and whether features are `weighed` by slopes.

    `maps` of None stand for the best maps so far. The trial must be better by `z` standard errors.
    With `by_categories`, almost only features with few values count in distances.
    """

    maps: list[Any] | None
    weighed: bool
    z: float = TRIAL_Z
    by_categories: bool = False


def trials_for(settings: TreeSettings, data: Data) -> list[Trial]:
    """The trials for these samples, in their order: effects or scores, ranks, weights, kinds."""
    from oda_rl.resolutions import EffectMap, RankMap, ScoreMap

    trials, n_layers = [], len(settings.layers)
    if may_be_weighed(settings, data):
        outputs = data.targets - data.weight @ data.targets / data.weight.sum()
        if Effects.of(data.samples, outputs, data.weight) is not None:
            trials.append(Trial(maps_of([EffectMap()], n_layers), True))
    if may_be_scored(settings, data):
        trials.append(Trial(maps_of([ScoreMap()], n_layers), False))
    if may_be_ranked(settings, data):
        trials.append(Trial(maps_of([RankMap()], n_layers), False, RANKS_Z))
    if may_be_weighed(settings, data):
        trials.append(Trial(None, True))
        kinds = are_categorical(data.samples)
        if settings.linear and kinds.any() and not kinds.all():
            # If slopes depend on the kind, weights by slopes would split cells along features in which
            # a linear model is sufficient.
            trials.append(Trial(maps_of(None, n_layers), False, by_categories=True))
    return trials


def is_better(before: Array, after: Array, z: float = TRIAL_Z) -> bool:
    """Whether losses of the same samples are clearly less `after`, also by `z` standard errors."""
    return is_clear(before - after, z) and bool(after.mean() < CLEARLY * before.mean())


def features_for(
    settings: TreeSettings,
    resolutions: Any,
    data: Data,
    sizes: tuple[int, int],
    rng: np.random.Generator,
    tried: bool = True,
) -> Features:
    """Fit `resolutions` to samples, for a tree of targets with `sizes` (see `Growth`).

    If `resolutions` is None and `tried` is true, the features of `trials_for` are tried one after the
    other. Those that clearly lower the error of trees on samples left out are used.
    """
    maps = maps_of(resolutions, len(settings.layers))
    check_targets_of(maps, settings.kind)
    best = Trial(maps, False)
    if tried and resolutions is None:
        losses: Array | None = None
        thirds: list[Labels] = []
        for trial in trials_for(settings, data):
            if trial.maps is None and best.weighed:
                continue
            if losses is None:
                thirds = _thirds(data.samples)
                losses = _losses_left_out(best, settings, data, sizes, thirds)
            trial = trial if trial.maps is not None else trial._replace(maps=best.maps)
            after = _losses_left_out(trial, settings, data, sizes, thirds)
            if is_better(losses, after, trial.z):
                best, losses = trial, after
    return _fit_features(best, settings, data, rng)


def _thirds(samples: Array) -> list[Labels]:
    """The rows of samples in three parts, at random, with replicates together."""
    n, same = len(samples), replicates(samples)
    # This generator leaves that of the tree unchanged.
    order = np.random.default_rng(n).permutation(n if same is None else len(same.first))
    thirds = np.array_split(order, 3)
    return thirds if same is None else [np.flatnonzero(np.isin(same.place, own)) for own in thirds]


def _losses_left_out(
    trial: Trial, settings: TreeSettings, data: Data, sizes: tuple[int, int], thirds: list[Labels]
) -> Array:
    """Losses in [0, 1] of a tree of two thirds of the samples on a third; of few, on all thirds."""
    n, losses = len(data.weight), []
    for i in range(3 if n < FEW else 1):
        train = data.take(np.concatenate([*thirds[i + 1 :], *thirds[:i]]))
        test, rng = data.take(thirds[i]), np.random.default_rng(n)
        growth = Growth(settings, _fit_features(trial, settings, train, rng), sizes, rng)
        growth.fit(settings.layers, train)
        found = growth.task.sample_losses(growth.task.predict(growth.tree, test.samples), test)
        losses.append(found / (1.0 + found))  # bounded, so that no single sample dominates
    return np.concatenate(losses)


def _fit_features(
    trial: Trial, settings: TreeSettings, data: Data, rng: np.random.Generator
) -> Features:
    """Fit the maps of a trial to samples, and weigh the features."""
    none = np.zeros(len(data.weight), dtype=np.int64)
    labels = data.targets if settings.kind == "classifier" else none
    examples, divergence = (data.samples, labels, data.weight), settings.annealing.divergence
    outputs = data.targets if settings.kind == "regressor" else None
    assert trial.maps is not None
    features = Features.fit(trial.maps, *examples, settings.scale, divergence, rng, outputs)
    if trial.weighed:
        scaled = data._replace(samples=features(0, data.samples))
        features.weigh(relevance_of(settings.annealing, scaled, rng))
    elif trial.by_categories:
        categorical = are_categorical(data.samples)
        features.weigh(CATEGORICAL_SCALE * np.where(categorical, 1.0, LEAST_RELEVANCE))
    return features
