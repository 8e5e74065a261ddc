"""The tasks of a tree: what its cells learn, which is a partition, classes or outputs.

A task prepares the samples for the annealer, adds samples to the tallies of their cells, computes the
class or the local model of a cell and its error from the tally, and predicts.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Sizes, expect
from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification.book import probabilities, with_half_vote
from oda_rl.estimators.targets import Data, within_reach
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.cells import Cells, Children
from oda_rl.estimators.tree.least_squares import fit_models, split_tally
from oda_rl.estimators.tree.tree import Tree

# What `predict_by_layer` yields, and what leads samples down, as `Tree.walk` yields it
Steps = Iterator[tuple[Labels, Labels, Array]]
Ways = Iterable[Any] | None
ALL = slice(None)


class Prior(NamedTuple):
    """The tallies and local models of cells, on which those of their children are based.

    `loss` are the errors of models that were fitted to these tallies.
    """

    tally: Array
    model: Array
    loss: Array | None = None


def last_of(steps: Steps) -> Array:
    """The last prediction for each sample among those of `predict_by_layer`."""
    out = next(steps)[2]
    for rows, _, predicted in steps:
        out[rows] = predicted
    return out


class Partition:
    """Clustering: the error of a cell is the sum of the divergences from its codevector."""

    by_labels = False
    # Candidates for the smoothing (see `Outputs`), and the least of few samples; power of probabilities.
    smoothings: tuple[float, ...] = (0.0,)
    smoothing_of_few, smoothing, power = 0.0, 0.0, 1.0
    # Whether a split may pay only together with splits below it; every split lowers a divergence.
    prunes_after_growth = False
    n_tally = 1

    def n_model(self, n_features: int) -> int:
        """Number of parameters of a cell's local model in a resolution with `n_features`."""
        return 0

    def tally_is_sound(self, cells: Any, sizes: Sizes) -> None:
        """A rule for cells from a file: sums are not negative."""
        least = cells["tally"].min(initial=0.0)
        expect(least >= 0.0, "tally", f"has {least}", "non-negative numbers")

    def annealed(self, scaled: Array, targets: NDArray[Any]) -> tuple[Array, Labels]:
        """Samples and labels to anneal."""
        return scaled, np.zeros(len(scaled), dtype=np.int64)

    def add(self, cells: Cells, at: Labels, scaled: Array, data: Data, closest: Array) -> None:
        """Add samples to the tallies of their cells `at` (-1 for none)."""
        inside = at >= 0
        cells.tally[:, 0] += np.bincount(at[inside], (data.weight * closest)[inside], len(cells))

    def conclude(self, cells: Cells, prior: Prior | None, which: Labels | slice = ALL) -> None:
        """Compute class, model and error of all or some cells from their tallies.

        `prior` has an entry for each cell of the layer above; it is None for the root.
        """
        cells.loss[which] = cells.tally[which, 0]

    def prior(self, cells: Cells, n_parents: int) -> Prior:
        """The tallies and models that the parents would have from the samples of these cells alone."""
        tally = np.zeros((n_parents, self.n_tally))
        for parent, own in zip(cells.parent, cells.tally, strict=True):  # np.add.at is far slower
            tally[parent] += own
        return Prior(tally, np.empty((n_parents, 0)))

    def count_errors(
        self, divergence: Divergence, children: Children, scaled: Array, at: Labels, data: Data
    ) -> None:
        """Add errors that cannot be computed from tallies: none here."""

    def losses(
        self, tree: Tree, depth: int, at: Labels, scaled: Array, data: Data, prior: Prior
    ) -> Array:
        """Errors of a layer's cells on samples, comparable to those of their children.

        `scaled` are the samples in the resolution of the children, and `prior` is computed from them.
        """
        n = len(tree.layers[depth])
        mass, mean = np.zeros(n), np.zeros((n, scaled.shape[1]))
        kernels.add_samples(scaled, data.weight, at, np.zeros(n), mass, mean)
        location = np.ascontiguousarray((mean / np.maximum(mass, 1e-300)[:, None]).T)
        own, closest = at.copy(), np.zeros(len(at))
        ones = np.ones(n, dtype=np.int64)
        kernels.nearest_child(tree.divergence.kind, scaled, location, np.arange(n), ones, own, closest)
        return np.bincount(at, data.weight * closest, n).astype(float)

    def of_one_class(self, children: Children, parents: Labels) -> NDArray[np.bool_]:
        """Whether the children of each parent all predict the same class."""
        return np.zeros(len(parents), dtype=np.bool_)

    def predict_by_layer(self, tree: Tree, samples: Array, ways: Ways = None) -> Steps:
        """Yield (rows, cells, predictions) of samples, layer by layer; `ways` are by default a walk."""
        raise NotImplementedError

    def sample_losses(self, predicted: Array, data: Data) -> Array:
        """The weighted error of each prediction."""
        raise NotImplementedError

    def predict(self, tree: Tree, samples: Array, ways: Ways = None) -> NDArray[Any]:
        """Leaves of samples; in subclasses, log(pi_c p(x | c)) or shares of the classes, or outputs."""
        if not self.prunes_after_growth:
            return tree.leaf_numbers(samples)
        return last_of(self.predict_by_layer(tree, samples, ways))


class Classes(Partition):
    """Classification: the class of a cell is the one with the largest weight in it.

    The `rule` predicts by all codevectors of a region ("bayes"), or by the cell alone ("nearest").
    Probabilities of a region are raised to a `power`, and shrunk towards those above (see `Outputs`).
    """

    by_labels = True
    prunes_after_growth = True

    def __init__(self, n_classes: int, rule: str) -> None:
        self.n_classes, self.rule = n_classes, rule
        self.n_tally = n_classes
        if rule == "bayes":
            self.smoothings, self.smoothing_of_few = (0.0, 5.0, 15.0, 50.0, 150.0), 15.0

    def annealed(self, scaled: Array, targets: NDArray[Any]) -> tuple[Array, Labels]:
        """Samples and their classes as labels, for a codebook of each class (Algorithm 4)."""
        return scaled, targets

    def add(self, cells: Cells, at: Labels, scaled: Array, data: Data, closest: Array) -> None:
        """Add votes for the classes of the samples."""
        kernels.add_votes(data.targets, data.weight, at, cells.tally)

    def conclude(self, cells: Cells, prior: Prior | None, which: Labels | slice = ALL) -> None:
        """Set the class of each cell to that with most votes, and the error to the weight of others."""
        votes = cells.tally[which]
        before = votes if prior is None else prior.tally[cells.parent[which]]
        label = cells.label[which] = with_half_vote(votes, before).argmax(axis=1)
        cells.loss[which] = votes.sum(axis=1) - votes[np.arange(len(votes)), label]

    def count_errors(
        self, divergence: Divergence, children: Children, scaled: Array, at: Labels, data: Data
    ) -> None:
        """With the rule "bayes", set the error to the weight of misclassified samples."""
        if self.rule == "nearest":
            return
        joint = children.log_joint(divergence, scaled, at, self.n_classes)
        wrong = (at >= 0) & (joint.argmax(axis=1) != data.targets)
        cells = children.cells
        cells.loss[:] = np.bincount(at[wrong], data.weight[wrong], len(cells))

    def losses(
        self, tree: Tree, depth: int, at: Labels, scaled: Array, data: Data, prior: Prior
    ) -> Array:
        """The weight of the samples misclassified by each cell, if it had no children."""
        if self.rule == "nearest" or depth == 0:
            return np.asarray(prior.tally.sum(axis=1) - prior.tally.max(axis=1))
        if not tree.features.same(depth, depth - 1):
            scaled = tree.features(depth - 1, data.samples)
        joint = tree.below(depth).log_joint(tree.divergence, scaled, at, self.n_classes)
        wrong = joint.argmax(axis=1) != data.targets
        return np.bincount(at[wrong], data.weight[wrong], len(tree.layers[depth])).astype(float)

    def of_one_class(self, children: Children, parents: Labels) -> NDArray[np.bool_]:
        """Whether the children of each parent are all of one class (section V-A)."""
        starts, label = children.first[parents], children.cells.label
        return np.asarray(np.minimum.reduceat(label, starts) == np.maximum.reduceat(label, starts))

    def predict_by_layer(self, tree: Tree, samples: Array, ways: Ways = None) -> Steps:
        """Yield log(pi_c p(x | c)), or the shares of the classes in the cells, depending on the rule.

        Both are of shape (n_samples, n_classes).
        """
        votes, bayes, n = tree.layers[0].tally[:1], self.rule == "bayes", len(samples)
        shares = with_half_vote(votes, votes)
        above = np.tile(shares / shares.sum(), (n, 1))
        yield np.arange(n), np.zeros(n, dtype=np.int64), np.log(above) if bayes else above
        for layer, scaled, rows, at, _ in ways or tree.walk(samples):
            cells, regions = tree.layers[layer], tree.layers[layer - 1]
            if not bayes:
                mixed = with_half_vote(cells.tally[at], regions.tally[cells.parent[at]])
                yield rows, at, mixed / mixed.sum(axis=1, keepdims=True)
                continue
            below = tree.below(layer)
            found = self.power * below.log_joint(tree.divergence, scaled, at, self.n_classes)
            if self.smoothing > 0.0:
                mass = regions.mass[cells.parent[at], None]
                above[rows] += mass / (mass + self.smoothing) * (probabilities(found) - above[rows])
                found = np.log(above[rows])
            yield rows, at, found

    def sample_losses(self, predicted: Array, data: Data) -> Array:
        """The weight of each misclassified sample, else 0."""
        return np.asarray(data.weight * (predicted.argmax(axis=1) != data.targets))


class Outputs(Partition):
    """Regression: local models, constant or linear, by least squares of the samples in a cell.

    The slopes of a cell are shrunk towards those of the cell above, as if the cell had `ridge` further
    samples with those slopes (None: as many as a model has parameters). Tallies are sums of products, so
    that cells can also learn from one sample at a time. In the distance for annealing, outputs have the
    factor `output_weight`. `n_features` is that of the largest resolution. The prediction of a cell is
    shrunk towards that of the cell above, as if that were based on `smoothing` samples, to reduce jumps
    between cells. (Quinlan, "Learning with continuous classes", 1992, for the M5 trees.) `bounds`
    (2, n_outputs) are the least and the largest outputs seen; predictions are clipped near them.
    """

    prunes_after_growth = True
    smoothings = (0.0, 2.0, 5.0, 15.0)

    def __init__(
        self, n_outputs: int, linear: bool, output_weight: float, ridge: float | None, n_features: int
    ) -> None:
        self.n_outputs, self.linear = n_outputs, linear
        self.output_weight, self.ridge = output_weight, ridge
        q = self._size(n_features)
        self.n_tally = q * q + q * n_outputs + n_outputs
        self.smoothing = 0.0
        self.bounds = np.array([[np.inf], [-np.inf]]).repeat(n_outputs, axis=1)

    def n_model(self, n_features: int) -> int:
        """Number of parameters of a cell's local model in a resolution with `n_features`."""
        return self._size(n_features) * self.n_outputs

    def _size(self, n_features: int) -> int:
        return 1 + n_features if self.linear else 1

    def tally_is_sound(self, cells: Any, sizes: Sizes) -> None:
        """A rule for cells from a file: sums of products are possible, and agree with the weight."""
        m = self.n_outputs
        products, _, energies = split_tally(cells["tally"], sizes["M"] // m, m)
        squares = np.diagonal(products, axis1=1, axis2=2)
        most = squares[:, :, None] * squares[:, None, :]
        right = squares.min(initial=0.0) >= 0.0 and np.all(products**2 <= (1.0 + 1e-6) * most)
        expect(right, "tally", "has inconsistent products", "sums of products of inputs")
        right = energies.min(initial=0.0) >= 0.0 and np.allclose(products[:, 0, 0], cells["mass"])
        wrong = "has negative squares or another weight than mass"
        expect(right, "tally", wrong, "non-negative sums, and the weight of the samples")

    def annealed(self, scaled: Array, targets: NDArray[Any]) -> tuple[Array, Labels]:
        """Inputs and weighted outputs side by side, with labels of zero."""
        joint = np.column_stack([scaled, self.output_weight * targets])
        return joint, np.zeros(len(joint), dtype=np.int64)

    def add(self, cells: Cells, at: Labels, scaled: Array, data: Data, closest: Array) -> None:
        """Update the bounds of the outputs, and add products of inputs and outputs."""
        if len(data.targets) > 0:
            self.bounds[0] = np.minimum(self.bounds[0], data.targets.min(axis=0))
            self.bounds[1] = np.maximum(self.bounds[1], data.targets.max(axis=0))
        kernels.add_products(self._basis(scaled), data.targets, data.weight, at, cells.tally)

    def predict_by_layer(self, tree: Tree, samples: Array, ways: Ways = None) -> Steps:
        """Yield smoothed outputs of samples by the models of the cells, (n_samples, n_outputs)."""
        root = np.zeros(len(samples), dtype=np.int64)
        scaled = tree.features(0, samples)
        above = self.apply(tree.layers[0], scaled, root)
        yield np.arange(len(samples)), root, above.copy()
        for layer, scaled, rows, at, _ in ways or tree.walk(samples):
            cells = tree.layers[layer]
            own = self.own_part(cells.mass[at])
            above[rows] += own[:, None] * (self.apply(cells, scaled, at) - above[rows])
            yield rows, at, above[rows]

    def own_part(self, mass: Array) -> Array:
        """The part of predictions that is due to cells with this `mass`, not to the cells above."""
        return np.asarray(mass / np.maximum(mass + self.smoothing, 1e-300))

    def sample_losses(self, predicted: Array, data: Data) -> Array:
        """Weighted squared errors, summed over the outputs."""
        return np.asarray(data.weight * ((predicted - data.targets) ** 2).sum(axis=1))

    def apply(self, cells: Cells, scaled: Array, at: Labels) -> Array:
        """Outputs of samples by the models of the cells `at`."""
        basis = self._basis(scaled)
        theta = cells.model[at].reshape(len(at), basis.shape[1], self.n_outputs)
        return within_reach(np.einsum("nq,nqm->nm", basis, theta), *self.bounds)

    def _basis(self, scaled: Array) -> Array:
        ones = np.ones((len(scaled), 1))
        return np.column_stack([ones, scaled]) if self.linear else ones

    def conclude(self, cells: Cells, prior: Prior | None, which: Labels | slice = ALL) -> None:
        """Fit the models by least squares, with slopes shrunk towards those of the cell above."""
        inherit = prior is not None and self.linear and prior.model.shape[1] == cells.model.shape[1]
        above = prior.model[cells.parent[which]] if inherit and prior else None
        found = self._models(cells.tally[which], cells.model.shape[1], above)
        cells.model[which], cells.loss[which] = found

    def prior(self, cells: Cells, n_parents: int) -> Prior:
        """Sums of the tallies, and models fitted to them."""
        found = super().prior(cells, n_parents)
        model, loss = np.zeros((n_parents, cells.model.shape[1])), np.zeros(n_parents)
        own = np.unique(cells.parent)
        model[own], loss[own] = self._models(found.tally[own], model.shape[1], None)
        return Prior(found.tally, model, loss)

    def losses(
        self, tree: Tree, depth: int, at: Labels, scaled: Array, data: Data, prior: Prior
    ) -> Array:
        """The sums of squared errors of models that are fitted to the same samples."""
        assert prior.loss is not None
        return prior.loss

    def _models(self, tally: Array, size: int, above: Array | None) -> tuple[Array, Array]:
        """Models (n_cells, size) for these tallies, given those `above` them, and their errors."""
        k, m = len(tally), self.n_outputs
        before = None if above is None else above.reshape(k, -1, m)
        theta, loss = fit_models(tally, size // m, m, self.ridge, before)
        return theta.reshape(k, size), loss
