"""The children of the cells of a tree: those codevectors of their regions that are needed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array, Labels
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.cells import Children
from oda_rl.estimators.tree.tree import Tree

if TYPE_CHECKING:
    from oda_rl.estimators.tree.growth import Region

# Largest relative difference between means of equal samples, due to rounding.
SAME = 1e-9


def rounding(location: Array) -> float:
    """Largest difference, due to rounding, between codevectors (n_features, n) of equal samples."""
    return SAME * float(np.abs(location).max())


def children_of(
    tree: Tree, depth: int, chosen: Labels, regions: Sequence["Region"], at: Labels, scaled: Array
) -> tuple[Children, Labels, Array]:
    """Make the children of cells from the codevectors of their regions that are nearest to a sample.

    Of equal codevectors of several classes, which result from equal samples, all are kept: their shares
    show which class is likelier. Returns the children, the child of each sample, and the divergence
    from it.
    """
    n = len(tree.layers[depth])
    counts = np.array([region.location.shape[1] for region in regions])
    location = np.ascontiguousarray(np.concatenate([region.location for region in regions], axis=1))
    own = np.concatenate([region.own for region in regions])
    share = np.concatenate([region.share for region in regions])
    parent = np.repeat(chosen, counts)
    count = np.bincount(parent, minlength=n)
    child, closest = at.copy(), np.zeros(len(at))
    first = np.cumsum(count) - count
    kernels.nearest_child(tree.divergence.kind, scaled, location, first, count, child, closest)
    used = np.zeros(len(parent) + 1, dtype=np.bool_)  # the last entry is for -1, samples without child
    used[child] = True
    used = used[:-1]
    if not used.all():
        used |= _coincide_with_used(used, location, parent, own)
    if not used.all():
        child = np.where(child >= 0, (np.cumsum(used) - 1)[child], -1)
        location, parent, own, share = location[:, used], parent[used], own[used], share[used]
        count = np.bincount(parent, minlength=n)
        first = np.cumsum(count) - count
        share = share / np.maximum(np.bincount(parent, share, n), 1e-300)[parent]
    cells = tree.new_cells(depth + 1)
    cells.append(location, parent, own=own, share=share)
    width, temperature = np.zeros(n), np.zeros(n)
    width[chosen] = [region.width for region in regions]
    temperature[chosen] = [region.temperature for region in regions]
    return Children(cells, first, count, width, temperature), child, closest


def _coincide_with_used(
    used: NDArray[np.bool_], location: Array, parent: Labels, own: Labels
) -> NDArray[np.bool_]:
    """Which unused codevectors (n_features, n) coincide with a used one of another class."""
    found, same = np.zeros_like(used), rounding(location)
    for i in np.flatnonzero(~used):
        others = used & (parent == parent[i]) & (own != own[i])
        apart = np.abs(location[:, others] - location[:, i : i + 1])
        found[i] = (apart <= same).all(axis=0).any()
    return found
