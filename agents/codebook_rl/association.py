# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""How active the cells are for an observation, and averages over them; all without the weights rho.

With the weights, the cells that are visited most would answer for their neighbours. `distance`, `share`
(n_places,) and the columns of `q` stand for cells; loops over them become vector code.
"""

from oda_rl._jit import inline_kernel, lean_kernel, vector_kernel
from oda_rl.agents.codebook_rl.state import SOFTNESS, TEMPERATURE
from oda_rl.codebook.association import smallest

# Cells with less than exp(-REACH) of the nearest one's share are not active.
REACH = 8.0


@inline_kernel
def fall(q):
    """exp(-q) for q in [0, 8], to a relative error of 1e-10.

    It is the 16th power of a short Taylor series: a loop over it becomes vector code, and takes a fifth
    of the time of one over the library's function.
    """
    y = q * (1.0 / 16.0)
    s = 1.0 / 362880.0 - y * (1.0 / 3628800.0)
    s = 1.0 / 40320.0 - y * s
    s = 1.0 / 5040.0 - y * s
    s = 1.0 / 720.0 - y * s
    s = 1.0 / 120.0 - y * s
    s = 1.0 / 24.0 - y * s
    s = 1.0 / 6.0 - y * s
    s = 0.5 - y * s
    s = 1.0 - y * s
    s = 1.0 - y * s
    s *= s
    s *= s
    s *= s
    return s * s


@vector_kernel
def shares_of_all(distance, n_cells, temperature, share):
    """Fill `share` with the association probabilities p(mu_i | z) at a temperature above 0 (eq. 6)."""
    nearest = smallest(distance, n_cells)
    inverse = 1.0 / temperature
    total = 0.0
    for i in range(n_cells):
        away = (distance[i] - nearest) * inverse
        part = fall(min(away, REACH)) * (1.0 if away <= REACH else 0.0)
        share[i] = part
        total += part
    inverse = 1.0 / total
    for i in range(n_cells):
        share[i] *= inverse


@vector_kernel
def four_dots(share, a, b, c, d, n):
    """Sums of products of `share` with each of the others: `share` is read once."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        first += share[i] * a[i]
        second += share[i] * b[i]
        third += share[i] * c[i]
        fourth += share[i] * d[i]
    return first, second, third, fourth


@vector_kernel
def dot(a, b, n):
    """Sum of the first n products."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@lean_kernel
def average_rows(share, only, q, first, last, n, sums):
    """Fill `sums` with the averages of rows `first` to `last` of `q` by the shares of `n` cells.

    Of the cell `only`, if it is not below 0, they are the entries themselves.
    """
    if only >= 0:
        for r in range(first, last):
            sums[r] = q[r, only]
        return
    r = first
    while r + 4 <= last:
        sums[r], sums[r + 1], sums[r + 2], sums[r + 3] = four_dots(
            share, q[r], q[r + 1], q[r + 2], q[r + 3], n
        )
        r += 4
    while r < last:
        sums[r] = dot(share, q[r], n)
        r += 1


@vector_kernel
def leverage(distance, share, only, n_cells, temperature, linear):
    """Sum of squares of the features p_i and, for `linear` cells, p_i (z - mu_i) / sqrt(T)."""
    per_distance = 1.0 / temperature if linear else 0.0
    if only >= 0:
        return 1.0 + distance[only] * per_distance
    total = 0.0
    for i in range(n_cells):
        total += share[i] * share[i] * (1.0 + distance[i] * per_distance)
    return total


@inline_kernel
def value_temperature(settings):
    """The temperature at which cells overlap for Q; with the nearest cell alone, the annealing's own."""
    softness = settings[SOFTNESS]
    return settings[TEMPERATURE] * (softness if softness > 0.0 else 1.0)
