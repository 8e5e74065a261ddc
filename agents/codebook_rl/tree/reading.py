# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled code that reads a learner on a tree: what it thinks that actions are worth."""

from oda_rl._jit import lean_kernel
from oda_rl.agents.codebook_rl.association import scale_observation
from oda_rl.agents.codebook_rl.tree.nearby import look, look_joint, search


@lean_kernel
def action_values(
    observations,
    values,
    settings,
    counters,
    figures,
    units,
    planes,
    blocks,
    ledger,
    near,
    memory,
    scratch,
):
    """As `codebook_rl.action_values`; nothing is settled, so that learning does not change."""
    joint = units.action_centre.shape[0] > 0
    n_observed = units.centre.shape[0]
    for t in range(observations.shape[0]):
        if not scale_observation(observations[t], units.centre, units.scale, scratch.z):
            return False
        n_found = search(n_observed, settings, planes, blocks, near, scratch)
        if joint:
            values[t, 0] = look_joint(
                0.0, n_found, n_observed, settings, counters, units, blocks, ledger, near, scratch
            )[1]
        else:
            look(n_found, settings, counters, blocks, ledger, near, scratch)
            for a in range(values.shape[1]):
                values[t, a] = scratch.values[a]
    return True
