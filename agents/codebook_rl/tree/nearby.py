# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels on a tree: look at an observation, remember it, move the cells near it."""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl.association import add_distances, associate, leverage, smallest
from oda_rl.agents.codebook_rl.behaviour import NEAR, best_action
from oda_rl.agents.codebook_rl.codebook_update import DENSITY_SAMPLES, is_level_done, slow_stepsize
from oda_rl.agents.codebook_rl.rules.q_lambda import FIGURE_RATE, trace_rows, value_temperature
from oda_rl.agents.codebook_rl.state import (
    DISTORTION,
    LEARNING,
    N_BASIS,
    N_CELLS,
    PHASE,
    SLOW_STEPS,
    SOFTNESS,
    TEMPERATURE,
)
from oda_rl.agents.codebook_rl.tree.layout import DISTANCES, WIDTH
from oda_rl.agents.codebook_rl.tree.search import find_near, value_reach
from oda_rl.agents.codebook_rl.tree.values import add_up, settle_branch
from oda_rl.codebook.learning import EXACT, MIN_WEIGHT, SQUARED_EUCLIDEAN, learn
from oda_rl.codebook.learning import associate as associate_weighted


@inline_kernel
def search(n_coordinates, settings, planes, blocks, near, scratch):
    """`find_near` for `scratch.z`, as far as cells speak at the present temperature."""
    reach = value_reach(settings[SOFTNESS], settings[TEMPERATURE])
    return find_near(scratch.z, n_coordinates, reach, planes, blocks, near, scratch.distance)


@inline_kernel
def settle_near(n_found, counters, blocks, ledger, near, scratch):
    """Bring the values of the branches found up to date."""
    n_actions, n_basis = scratch.values.shape[0], counters[N_BASIS]
    for k in range(n_found):
        settle_branch(
            near.now[k],
            n_actions * n_basis,
            n_actions,
            n_basis,
            blocks.payload,
            ledger.owed,
            ledger.paid,
            ledger.alive,
        )


@inline_kernel
def look(n_found, settings, counters, blocks, ledger, near, scratch):
    """See which of the cells found speak for `scratch.z`, and what the actions are worth.

    Returns the cell that alone speaks, counted as in `scratch.distance`, or -1.
    """
    n_actions, n_basis = scratch.values.shape[0], counters[N_BASIS]
    temperature = settings[SOFTNESS] * settings[TEMPERATURE]
    only = associate(scratch.distance, near.label, 1, n_found * WIDTH, temperature, scratch.share)
    add_up(
        n_found,
        near.now,
        scratch.share,
        only,
        n_actions,
        n_basis,
        blocks,
        ledger,
        near,
        scratch.sums,
    )
    for a in range(n_actions):
        scratch.values[a] = near.sums[a * n_basis]
        for j in range(n_basis - 1):
            scratch.values[a] += near.sums[a * n_basis + 1 + j] * scratch.z[j]
    return only


@lean_kernel
def known(row, branch, place, n_actions, n_basis, blocks, ledger):
    """A number of a cell's values, missed steps included."""
    value = blocks.payload[branch, row, place]
    for env in range(ledger.owed.shape[0]):
        if ledger.alive[env, branch]:
            first, _ = trace_rows(env, n_actions, n_basis)
            missed = ledger.owed[env] - ledger.paid[env, branch]
            value += missed * blocks.payload[branch, first + row, place]
    return value


@lean_kernel
def look_around(n_found, n_observed, temperature, n_basis, blocks, ledger, near, scratch):
    """Gather the cells that speak for the observation, whatever the action; returns their number.

    As `codebook_rl.behaviour.look_around`, from the branches found; `scratch.cells` tells where a cell
    stands in `scratch.distance`.
    """
    n_features = blocks.location.shape[1]
    interact = scratch.z.shape[0] > n_features and n_basis > 1
    first = 1 + n_features
    limit = smallest(scratch.distance, n_found * WIDTH) + NEAR * temperature
    n = 0
    for p in range(n_found * WIDTH):
        if scratch.distance[p] > limit:
            continue
        k, place = divmod(p, WIDTH)
        branch = near.now[k]
        scratch.cells[n] = p
        scratch.partial[n] = scratch.distance[p]
        value = known(0, branch, place, 1, n_basis, blocks, ledger)
        if n_basis > 1:
            for j in range(n_observed):
                value += known(1 + j, branch, place, 1, n_basis, blocks, ledger) * scratch.z[j]
        scratch.local[n] = value
        for j in range(scratch.trial.shape[0]):
            scratch.actions[j, n] = blocks.location[branch, n_observed + j, place]
            slope = 0.0
            if n_basis > 1:
                slope = known(1 + n_observed + j, branch, place, 1, n_basis, blocks, ledger)
            if interact:
                for o in range(n_observed):
                    row = first + j * n_observed + o
                    slope += known(row, branch, place, 1, n_basis, blocks, ledger) * scratch.z[o]
            scratch.slopes[j, n] = slope
        n += 1
    return n


@lean_kernel
def look_joint(draw, n_found, n_observed, settings, counters, units, blocks, ledger, near, scratch):
    """See which cells speak for the observation in `scratch.z`, and what its best action is.

    Returns the number of those cells, and the value of that action.
    """
    temperature = value_temperature(settings)
    n_near = look_around(
        n_found, n_observed, temperature, counters[N_BASIS], blocks, ledger, near, scratch
    )
    # `spread` will clear as many shares as there are cells, which may be fewer than there are places.
    for p in range(n_near, near.now.shape[0] * WIDTH):
        scratch.share[p] = 0.0
    if counters[PHASE] != LEARNING:
        for j in range(scratch.best.shape[0]):
            scratch.best[j] = 0.0
        return n_near, 0.0
    return n_near, best_action(draw, units.action_reach, temperature, n_near, scratch)


@inline_kernel
def measure(n_found, blocks, near, scratch):
    """Find the distances of `scratch.z`, action included, from the cells of the branches found."""
    for k in range(n_found):
        branch = near.now[k]
        away = scratch.distance[k * WIDTH : (k + 1) * WIDTH]
        for i in range(WIDTH):
            away[i] = 0.0
        add_distances(scratch.z, 0, blocks.location.shape[1], blocks.location[branch], WIDTH, away)
        near.tally[DISTANCES] += blocks.size[branch]


@inline_kernel
def remember(env, only, n_found, n_observed, settings, counters, blocks, near, memory, scratch):
    """Keep what the next step will learn from: the location, and the cells that speak for the action."""
    n_basis, n = counters[N_BASIS], n_found * WIDTH
    for j in range(scratch.z.shape[0]):
        memory.z[env, j] = scratch.z[j]
    for k in range(n_found):
        near.kept[env, k] = near.now[k]
    near.n_kept[env] = n_found
    kept = memory.share[env]
    memory.only[env] = only
    for p in range(n):
        kept[p] = scratch.share[p]
    temperature = value_temperature(settings)
    memory.norm[env] = leverage(scratch.distance, kept, only, n, temperature, n_basis)
    if scratch.z.shape[0] > blocks.location.shape[1] and n_basis > 1:
        # the squares of the products: (distance in observation) x (distance in action)
        for p in range(n):
            if kept[p] == 0.0:
                continue
            k, place = divmod(p, WIDTH)
            observed = 0.0
            for j in range(n_observed):
                observed += (scratch.z[j] - blocks.location[near.now[k], j, place]) ** 2
            acted = scratch.distance[p] - observed
            memory.norm[env] += kept[p] * kept[p] * observed * acted / (temperature * temperature)


@lean_kernel
def forget(near, n_found, keep_weight, keep_density, weight, density_row, payload):
    """Let the weights of the branches that were not found decay, and the frequencies of all."""
    for branch in range(weight.shape[0]):
        density = payload[branch, density_row]
        for i in range(WIDTH):
            density[i] *= keep_density
        found = False
        for k in range(n_found):
            found |= near[k] == branch
        if not found:
            row = weight[branch]
            for i in range(WIDTH):
                row[i] = max(row[i] * keep_weight, MIN_WEIGHT)


@lean_kernel
def learn_codebook(x, n_found, settings, counters, figures, blocks, near, scratch):
    """One step of the slow annealer at `x`, among the cells of the branches found.

    As `codebook_update.learn_codebook`: the cells elsewhere are too far away to have a share; they
    only lose weight. Returns whether the temperature is finished.
    """
    n_cells, n = counters[N_CELLS], n_found * WIDTH
    share = scratch.spare
    density_row = blocks.payload.shape[1] - 1
    for k in range(n_found):
        branch = near.now[k]
        for i in range(WIDTH):
            near.weight[k * WIDTH + i] = blocks.weight[branch, i]
            near.density[k * WIDTH + i] = blocks.payload[branch, density_row, i]
    nearest = associate_weighted(
        scratch.distance, near.weight, near.label, n, 0, settings[TEMPERATURE], EXACT, share
    )
    frequency = 0.0
    for p in range(n):
        frequency += share[p] * near.density[p]
    rate = 1.0 / (DENSITY_SAMPLES * n_cells)
    stepsize = slow_stepsize(frequency, settings, counters)
    forget(near.now, n_found, 1.0 - stepsize, 1.0 - rate, blocks.weight, density_row, blocks.payload)
    for k in range(n_found):
        branch = near.now[k]
        part = share[k * WIDTH : (k + 1) * WIDTH]
        density = blocks.payload[branch, density_row]
        for i in range(WIDTH):
            density[i] += rate * part[i]
        learn(
            SQUARED_EUCLIDEAN,
            x,
            part,
            stepsize,
            WIDTH,
            blocks.location[branch],
            blocks.weight[branch],
            blocks.axis[branch],
        )
    figures[DISTORTION] += FIGURE_RATE * (scratch.distance[nearest] - figures[DISTORTION])
    counters[SLOW_STEPS] += 1
    return is_level_done(counters)
