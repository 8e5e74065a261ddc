"""Where the compiled step of the agent on a tree finds what: the arrays by name."""

from typing import Any, NamedTuple

# Cells of a branch, at most. It is the same for all, and known to the compiler: a loop over the cells of
# a branch is then a few vector instructions, without a rest.
WIDTH = 16
# Where a branch has no cell; its square times a dimension is still a number.
NOWHERE = 1e60

# The tally, int64: searches made, comparisons with planes and distances to cells in all of these
SEARCHES = 0
PLANES = 1
DISTANCES = 2
N_TALLY = 3


class Planes(NamedTuple):
    """The inner nodes: a plane for each, and what is on its sides.

    `child` is another node, or ~g for branch g; side 1 is where normal . z > offset.
    """

    normal: Any
    offset: Any
    child: Any


class Blocks(NamedTuple):
    """The cells of each branch: the arrays of a codebook with one more axis, the branch, in front."""

    size: Any
    location: Any
    weight: Any
    axis: Any
    payload: Any


class Ledger(NamedTuple):
    """What the traces of each environment (first axis) have yet to do for the values of a branch.

    `owed` is the sum of the steps that were to be made along the traces; `paid` is the part of it that
    the values of a branch have seen. A branch whose traces are not zero is `alive`; `living` lists
    those, and `n_living` says how many they are.
    """

    owed: Any
    paid: Any
    alive: Any
    living: Any
    n_living: Any


class Near(NamedTuple):
    """The branches near an observation: `now` of the present one, `kept` of each environment's last.

    The rest is room for the search, and for what these branches say and weigh.
    """

    now: Any
    kept: Any
    n_kept: Any
    tally: Any
    key: Any
    node: Any
    sums: Any
    weight: Any
    density: Any
    label: Any
