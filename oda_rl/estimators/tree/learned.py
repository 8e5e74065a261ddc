"""What a `MultiResolutionODA` keeps between its calls: the tree, what grows in it, and the targets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.growth import Grower
from oda_rl.estimators.tree.layers import Layer
from oda_rl.estimators.tree.plan import Plan
from oda_rl.estimators.tree.stream import Sprouting
from oda_rl.estimators.tree.tasks import Classes, Outputs, log_joint, smoothed
from oda_rl.estimators.tree.tree import Data, Tree

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Learned:
    """A tree, and how it goes on to grow.

    Parameters
    ----------
    plan : Plan
        Of the estimator.
    layers : list of Layer
        The limits.
    features : Features
        The resolutions.
    n_classes, n_outputs : int
        Of the targets.
    rng : Generator
        Of everything drawn at random.
    n_jobs, max_leaves : int or None
        As for `Grower`.
    """

    def __init__(
        self,
        plan: Plan,
        layers: list[Layer],
        features: Features,
        n_classes: int,
        n_outputs: int,
        rng: np.random.Generator,
        n_jobs: int | None,
        max_leaves: int | None,
    ) -> None:
        self.plan, self.layers = plan, layers
        self.task = plan.task(features, n_classes, n_outputs)
        sizes = [self.task.n_model(features.n_features(i)) for i in range(len(features))]
        divergence = plan.settings.divergence
        self.tree = Tree(features, divergence, self.task.n_tally, sizes)
        self.settled = True
        entropy = int(rng.integers(2**62))
        self.grower = Grower(self.tree, self.task, plan.settings, entropy, n_jobs, max_leaves)
        self.sprouting = Sprouting(self.tree, self.task, plan.settings, layers, self.grower)

    def fit(self, data: Data) -> None:
        """Plant the tree and grow all layers from samples at hand."""
        self.grower.plant(data)
        self.grower.grow(self.layers, data)
        self.tree.features.forget()

    def begin(self, data: Data) -> None:
        """A root without samples, in their middle: a stream that brings them again follows."""
        scaled = self.tree.features(0, data.samples)
        mean = (data.weight @ scaled / data.weight.sum())[:, None]
        self.tree.layers[0].append(mean, np.zeros(1, dtype=np.int64))
        self.grower.n_leaves = 1
        self.tree.features.forget()

    def resume(
        self, plan: Plan, layers: list[Layer], n_jobs: int | None, max_leaves: int | None
    ) -> None:
        """Take over parameters that have changed: limits of layers, thresholds of annealing to come."""
        self.layers = self.sprouting.layers = layers
        self.plan = plan
        self.sprouting.settings = self.grower.settings = plan.settings
        self.grower.n_jobs, self.grower.max_leaves = n_jobs, max_leaves

    def observe(self, data: Data) -> None:
        """Learn from the next samples of a stream."""
        self.sprouting.observe(data)
        self.settled = False

    def settle(self) -> None:
        """Find what the cells stand for, if they have learned since that was last done."""
        if not self.settled:
            self.sprouting.settle()
            self.settled = True

    def log_joint(self, samples: Array) -> Array:
        """log(pi_c p(x | c)) of samples and classes, for the rule of Bayes."""
        assert isinstance(self.task, Classes)
        out = np.log(np.tile(self._root_shares(), (len(samples), 1)))
        for layer, scaled, rows, at, _ in self.tree.walk(samples):
            part = np.empty((len(rows), self.task.n_classes))
            log_joint(self.tree.divergence, self.tree.brood(layer), scaled, at, part)
            out[rows] = part
        return out

    def shares(self, samples: Array) -> Array:
        """Shares of the classes in the leaves of samples."""
        assert isinstance(self.task, Classes)
        out = np.tile(self._root_shares(), (len(samples), 1))
        for layer, _, rows, at, _ in self.tree.walk(samples):
            cells = self.tree.layers[layer]
            prior = self.tree.layers[layer - 1].tally[cells.parent[at]]
            out[rows] = smoothed(cells.tally[at], prior)
        return out

    def outputs(self, samples: Array) -> Array:
        """Outputs of samples by the models of their leaves, standardised."""
        assert isinstance(self.task, Outputs)
        scaled = self.tree.features(0, samples)
        out = self.task.predict(self.tree.layers[0], scaled, np.zeros(len(samples), dtype=np.int64))
        for layer, scaled, rows, at, _ in self.tree.walk(samples):
            out[rows] = self.task.predict(self.tree.layers[layer], scaled, at)
        return out

    def distances(self, samples: Array) -> Array:
        """Divergences of samples from the codevectors of their leaves."""
        root = self.tree.layers[0].location
        out = self.tree.divergence(self.tree.features(0, samples), root.T)[:, 0]
        for _, _, rows, _, closest in self.tree.walk(samples):
            out[rows] = closest
        return out

    def leaf_numbers(self, samples: Array) -> Labels:
        """Where the leaves of samples are among all leaves, in the order of their names."""
        layers, numbers = self.tree.find(samples)
        result = np.empty(len(samples), dtype=np.int64)
        for layer, places in enumerate(self.tree.leaf_places()):
            inside = layers == layer
            result[inside] = places[numbers[inside]]
        return result

    def insert_class(self, place: int) -> None:
        """Know a new class, which is at this place among all."""
        assert isinstance(self.task, Classes)
        self.task.n_classes += 1
        self.task.n_tally += 1
        self.sprouting.insert_class(place)

    def _root_shares(self) -> Array:
        votes = self.tree.layers[0].tally[:1]
        return smoothed(votes, votes)[0]

    def of_leaves(self, name: str) -> NDArray[Any]:
        """One of the arrays of `Cells`, of all leaves in the order of their names."""
        layers = self.tree.layers
        found = np.concatenate([getattr(cells, name)[cells.is_leaf] for cells in layers])
        places = self.tree.leaf_places()
        order = np.concatenate([p[c.is_leaf] for p, c in zip(places, layers, strict=True)])
        return np.asarray(found[np.argsort(order)])
