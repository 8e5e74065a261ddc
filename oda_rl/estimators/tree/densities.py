"""Histograms over the leaves of a tree as densities."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from oda_rl._types import Array
from oda_rl.density import histogram
from oda_rl.estimators.tree.settings import kind_of
from oda_rl.estimators.tree.tree import Tree


class TreeDensities:
    """Densities from the leaves, for a `MultiResolutionODA`."""

    weights_: Any
    _template: Any
    _check_again: Any

    @property
    def tree_(self) -> Tree:
        """The cells, layer by layer."""
        raise NotImplementedError

    def histogram_density(
        self, X: ArrayLike, box: ArrayLike, n_draws: int = 100_000, seed: int = 0
    ) -> tuple[Array, Array]:
        """The density at every sample, by the leaves cut off by a box (Theorem 8).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to evaluate.
        box : array-like of shape (2, n_features)
            Lower and upper ends; the density is 0 outside.
        n_draws, seed : int
            Points that measure the volumes of the leaves, uniform in the box, and what draws them.

        Returns
        -------
        tuple of two ndarrays of shape (n_samples,)
            Densities in the units of the features, and their relative standard errors of the draws.
        """
        samples, leaf = self._check_again(X), self.tree_.leaf_numbers
        return histogram(samples, box, leaf, self.weights_, n_draws, seed)

    @available_if(lambda self: kind_of(self._template) == "classifier")
    def class_density(
        self, X: ArrayLike, box: ArrayLike, n_draws: int = 100_000, seed: int = 0
    ) -> tuple[Array, Array]:
        """The density of each class at every sample (n_samples, n_classes) (Theorem 9).

        All else is as for `histogram_density`.
        """
        samples, tree = self._check_again(X), self.tree_
        votes = tree.of_leaves("tally")
        return histogram(samples, box, tree.leaf_numbers, votes / votes.sum(axis=0), n_draws, seed)
