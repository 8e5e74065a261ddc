# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The environment's half of a compiled loop: play a step, turn to the next one.

An agent's own loop calls `play`, learns from what comes back, and calls `turn`. Between two calls of the
loop everything that it needs to go on stands in `clock` and `played`.
"""

from oda_rl._jit import lean_kernel

# Where a compiled run stands, int64
ROW = 0
STARTS_USED = 1
EPISODES = 2
ELAPSED = 3
BEGINNING = 4
N_CLOCK = 5

# What has been paid, float64: the last reward, and the return of the running episode
REWARD = 0
RETURN = 1


@lean_kernel
def used_up(clock, block, starts):
    """Whether the loop must go back to Python for random numbers or for starts of episodes."""
    return clock[ROW] == block.shape[0] or clock[STARTS_USED] == starts.shape[0]


@lean_kernel
def play(env_step, parameters, time_limit, clock, played, state, action, observation):
    """Make one step of the environment. Returns the reward, whether terminated, and whether ended."""
    reward, terminated = env_step(parameters, state, action, observation)
    clock[ELAPSED] += 1
    played[REWARD] = reward
    played[RETURN] += reward
    return reward, terminated, terminated or clock[ELAPSED] >= time_limit


@lean_kernel
def turn(env_reset, parameters, starts, ended, clock, played, state, observation, returns, lengths):
    """Count the random numbers of a step; if the episode `ended`, record it and begin the next."""
    clock[ROW] += 1
    clock[BEGINNING] = 0
    if ended:
        returns[clock[EPISODES]] = played[RETURN]
        lengths[clock[EPISODES]] = clock[ELAPSED]
        env_reset(parameters, state, starts[clock[STARTS_USED]], observation)
        clock[EPISODES] += 1
        clock[STARTS_USED] += 1
        clock[ELAPSED] = 0
        clock[BEGINNING] = 1
        played[RETURN] = 0.0
