"""Stored samples beside the cells of a classifier: the classes of those nearest to a new sample."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from oda_rl._schema import Rules, Schema, Sizes, expect
from oda_rl._types import Array, Labels
from oda_rl._validation import LARGEST
from oda_rl.estimators.classification.book import (
    is_significant,
    log_probabilities,
    loss_with_errors,
)
from oda_rl.estimators.feature_scaling import SCALING, Scaling
from oda_rl.estimators.targets import Data

# Numbers of nearest samples that are tried, and weights of the log-probabilities of the other parts of
# the classifier and of the nearest samples.
N_NEAREST = (3, 6, 12)
MIXTURES = ((1.0, 0.25), (0.75, 0.5), (0.5, 0.5), (0.5, 1.0), (0.25, 1.0))
# Maximum number of coordinates that are stored, and of held-out samples on which neighbors are tried.
NUMBERS, MOST_TRIED = 2_000_000, 2000
# The loss, including errors, must be less than this part of that without neighbors, and the log loss
# less by Z standard errors.
CLEARLY, Z = 0.97, 3.0
# The last of the nearest samples weighs exp(-FALL); prior samples of all classes together.
FALL, PRIOR = 2.0, 0.5
# Samples in a leaf of the tree: with ten, as usual, searches take up to twice as long.
LEAF = 64


class Neighbors:
    """Samples of all classes, the nearest of which tell the probabilities of the classes.

    Parameters
    ----------
    data : Data
        Samples (n_samples, n_features) in the units of `scaling`, their class numbers, and weights.
    scaling : Scaling
        Maps raw samples to these units.
    n_nearest : int
        How many of the nearest count.
    others, near : float
        Weights of the log-probabilities by the other parts of the classifier and by the nearest samples.
    """

    def __init__(
        self, data: Data, scaling: Scaling, n_nearest: int, others: float = 0.0, near: float = 1.0
    ) -> None:
        self.data, self.scaling, self.n_nearest = data, scaling, n_nearest
        self.others, self.near = others, near
        self._tree: KDTree | None = None

    def find(self, samples: Array) -> tuple[Array, Labels]:
        """Distances and numbers (n_samples, n_nearest) of the samples nearest to raw ones, in order."""
        if self._tree is None:
            # a copy, as it refuses arrays that are read-only
            self._tree = KDTree(np.array(self.data.samples), leafsize=LEAF)
        distance, found = self._tree.query(self.scaling(samples), k=np.arange(self.n_nearest) + 1)
        return distance, found

    def log_proba(self, samples: Array, n_classes: int) -> Array:
        """Log-probabilities (n_samples, n_classes) by the samples nearest to raw samples."""
        return log_votes(*self.find(samples), self.data, n_classes)

    def mixed(self, log_joint: Array, samples: Array) -> Array:
        """Mix log-probabilities by the nearest samples with those by the other parts (`log_joint`)."""
        others = self.others * log_probabilities(log_joint)
        return np.asarray(others + self.near * self.log_proba(samples, log_joint.shape[1]))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_tree": None}  # it is made again, in less time than it takes to read

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        own = {"n_nearest": self.n_nearest, "others": self.others, "near": self.near}
        return {**self.data._asdict(), "scaling": self.scaling._asdict(), **own}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Neighbors":
        """Neighbors with the state that `get_state` returned."""
        data = Data(*(state[name] for name in Data._fields))
        own = state["n_nearest"], float(state["others"]), float(state["near"])
        return cls(data, Scaling(**state["scaling"]), *own)


def log_votes(distance: Array, found: Labels, data: Data, n_classes: int) -> Array:
    """Log-probabilities (n_samples, n_classes) from distances and numbers (n_samples, n_nearest).

    Votes fall with the square of the distance, relative to that of the last of the nearest. `PRIOR`
    further votes are for all classes alike. (Dudani, "The distance-weighted k-nearest-neighbor rule",
    1976, has other weights.)
    """
    last = np.maximum(distance[:, -1:], np.finfo(float).tiny)
    votes = data.weight[found] * np.exp(-FALL * (distance / last) ** 2)
    rows = np.arange(len(found))[:, None] * n_classes + data.targets[found]
    shares = np.bincount(rows.ravel(), votes.ravel(), len(found) * n_classes).reshape(-1, n_classes)
    total = votes.sum(axis=1, keepdims=True)
    return np.asarray(np.log((shares + PRIOR / n_classes) / (total + PRIOR)))


def choose_neighbors(
    data: Data,
    scaling: Scaling,
    folds: Sequence[tuple[Labels, Labels]],
    scalings: Sequence[Scaling],
    log_proba: Array,
) -> Neighbors | None:
    """Choose neighbors on samples that folds hold out; None unless they clearly help.

    Parameters
    ----------
    data : Data
        Raw samples, class numbers and weights.
    scaling : Scaling
        The scaling of features learned from all samples.
    folds : sequence of pairs of ndarrays
        Rows to learn from, and rows held out.
    scalings : sequence of Scaling
        For each fold, that learned from the rows to learn from.
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities of held-out samples by the other parts of the classifier, calibrated.
    """
    if min(len(train) for train, _ in folds) < max(N_NEAREST):
        return None
    rows, votes = _held_out_votes(data, folds, scalings, log_proba.shape[1])
    others, held_out = log_probabilities(log_proba[rows]), data.take(rows)
    least = alone = loss_with_errors(others, held_out)
    best, chosen = others, (0, 0.0, 0.0)
    for k, near in zip(N_NEAREST, votes, strict=True):
        for a, b in MIXTURES:
            mixed = log_probabilities(a * others + b * near)
            loss = loss_with_errors(mixed, held_out)
            if loss < least:
                least, best, chosen = loss, mixed, (k, a, b)
    if not least < CLEARLY * alone or not is_significant(others, best, held_out, Z):
        return None
    return Neighbors(_stored(data, scaling), scaling, *chosen)


def _held_out_votes(
    data: Data,
    folds: Sequence[tuple[Labels, Labels]],
    scalings: Sequence[Scaling],
    n_classes: int,
) -> tuple[Labels, list[Array]]:
    """Rows that are held out, and their log-probabilities for each of `N_NEAREST`."""
    tried, votes, most = [], [], max(1, MOST_TRIED // len(folds))
    for (train, test), scaling in zip(folds, scalings, strict=True):
        some = _spread(test, most)
        own = Neighbors(_stored(data.take(train), scaling), scaling, max(N_NEAREST))
        distance, found = own.find(data.samples[some])
        votes.append([log_votes(distance[:, :k], found[:, :k], own.data, n_classes) for k in N_NEAREST])
        tried.append(some)
    return np.concatenate(tried), [np.concatenate(own) for own in zip(*votes, strict=True)]


def _stored(data: Data, scaling: Scaling) -> Data:
    """The samples to store, scaled: all of them, or as many as may be."""
    most = max(max(N_NEAREST), NUMBERS // data.samples.shape[1])
    kept = data.take(_spread(np.arange(len(data.weight)), most))
    return kept._replace(samples=scaling(kept.samples))


def _spread(rows: Labels, most: int) -> Labels:
    """At most so many of the rows, at random but always the same ones, in ascending order."""
    return np.sort(np.random.default_rng(len(rows)).permutation(rows)[:most])


def _enough_are_stored(neighbors: Any, sizes: Sizes) -> None:
    """A rule: there are at least so many samples as count."""
    found, k = len(neighbors["weight"]), neighbors["n_nearest"]
    expect(k <= found, "n_nearest", f"is {k}", f"at most {found}, the number of stored samples")


def neighbors_schema(sizes: str) -> Schema:
    """Schema of `Neighbors.get_state`; `sizes` names the number of stored samples."""
    entries = {
        "samples": f"float[{sizes}, d] in [-{LARGEST}, {LARGEST}]",
        "targets": f"int[{sizes}] in [0, C)",
        "weight": f"float[{sizes}] in [0, inf)",
        "scaling": SCALING,
        "n_nearest": "count in [1, inf)",
        "others": "float in [0, inf)",
        "near": "float in (0, inf)",
    }
    return Rules(entries, _enough_are_stored)
