# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled code that reads a learner: what it thinks that actions are worth."""

from oda_rl._jit import lean_kernel
from oda_rl.agents.codebook_rl.association import scale_observation
from oda_rl.agents.codebook_rl.step import look, look_joint


@lean_kernel
def action_values(observations, values, settings, counters, figures, units, book, memory, scratch):
    """Fill the rows of `values` with Q(x, a); with continuous actions, with the best action's alone.

    False for an observation that is not finite.
    """
    joint = units.action_centre.shape[0] > 0
    for t in range(observations.shape[0]):
        if not scale_observation(observations[t], units.centre, units.scale, scratch.z):
            return False
        if joint:
            values[t, 0] = look_joint(0.0, settings, counters, units, book, scratch)[1]
        else:
            look(settings, counters, book, scratch)
            for a in range(values.shape[1]):
                values[t, a] = scratch.values[a]
    return True
