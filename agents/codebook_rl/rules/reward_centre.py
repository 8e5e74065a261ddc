# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The mean reward that the values of a table leave out if rewards are dense and episodes never end.

If the reward changes from step to step and episodes never terminate, values are large sums that hardly
depend on the action: learning them takes long, and the little that depends on the action is lost in
their noise. So if no episode terminated in the first `LOOK` steps, and no reward was that of most of
them, the values leave out a mean reward c from then on,

    delta = (r - c) + gamma max_b Q(s', b) - Q(s, a),       c <- c + 0.01 alpha delta

which begins at the mean of the first `LOOK` rewards, and approaches that of the greedy policy, however
much the behaviour explores. Errors of the first `GROWING` visits of a pair do not count: their sum is
how much its value grows, and with many pairs all these sums would drive c far above any mean reward.
The discount factor is also smaller at first (`traces.find_discount`). Without terminations, all
values lack the same c / (1 - gamma), and the greedy policy is the same. If an episode terminates, c is
given up for good. If it was a gain, it is added to the values again; a loss is not, since the values of
actions that are not chosen would stay too low.

References
----------
Naik, Wan, Tomar and Sutton, "Reward centering", Reinforcement Learning Conference, 2024. Boyer and
Moore, "MJRTY: a fast majority vote algorithm", in "Automated Reasoning", 1991, on the most frequent
reward.
"""

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.rules.traces import catch_up, find_discount
from oda_rl.agents.codebook_rl.state import open_branches, open_numbers, open_scratch

# Steps after which it is known whether rewards are dense; share of them by which those with the most
# frequent reward may outnumber the others; ratio of the stepsize of the mean reward to that of values;
# visits of a pair whose errors do not count for the mean reward
LOOK, LEAD, CENTRE_RATE, GROWING = 1000.0, 0.1, 0.01, 25.0
# Steps in which the discount rises if rewards are dense (`traces.find_discount`)
SHORT_STEPS = 10_000.0


@inline_kernel
def find_centre(state):
    """The mean reward that values leave out; 0 unless rewards are dense."""
    figures = open_numbers(state).figures
    return figures[names.CENTRE] if figures[names.DENSE] > 0.0 else 0.0


@lean_kernel
def add_centre(state):
    """Give up the mean reward that values leave out: if it is a gain, they contain it again."""
    branches, lost = open_branches(state), max(find_centre(state), 0.0) / (1.0 - find_discount(state))
    open_numbers(state).figures[names.DENSE] = 0.0
    for k in range(branches.payload.shape[0]):
        catch_up(state, k)
        values = branches.payload[k, : open_scratch(state).values.shape[0]]
        for a in range(values.shape[0]):
            for i in range(values.shape[1]):
                values[a, i] += lost


@inline_kernel
def move_centre(state, step):
    """Move the mean reward by an error of a value times its stepsize, if rewards are dense."""
    figures = open_numbers(state).figures
    if figures[names.DENSE] > 0.0:
        figures[names.CENTRE] += CENTRE_RATE * step


@inline_kernel
def follow_rewards(state, reward, terminated):
    """Determine from the first rewards whether they are dense, and what their mean is."""
    figures = open_numbers(state).figures
    if figures[names.VOTES] == np.inf:  # an episode has terminated
        return
    if terminated:
        figures[names.VOTES] = np.inf
        if figures[names.DENSE] > 0.0:
            add_centre(state)
        return
    n = figures[names.KNOWN_STEPS] + 1.0
    if n > LOOK:
        return
    figures[names.CENTRE] += (reward - figures[names.CENTRE]) / n
    if figures[names.VOTES] == 0.0:
        figures[names.USUAL_REWARD] = reward
    figures[names.VOTES] += 1.0 if reward == figures[names.USUAL_REWARD] else -1.0
    if n == LOOK and figures[names.VOTES] <= LEAD * LOOK:
        figures[names.DENSE] = SHORT_STEPS
