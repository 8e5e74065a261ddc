# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled loop of agents and environments, and the data that Python exchanges with it.

The loop calls `play`, passes the result to the agent's `observe`, and calls `turn`. A `Rollout` stores
everything that the loop needs to continue in its next call.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl._structs import TABLE

# Entries of `Rollout.cursor`, int64: the position of a compiled run
ROW = 0  # next row of random numbers
ENV = 1  # environment to step next
EPISODES = 2  # episodes that ended during the call
FAILED_AFTER = 3  # steps of a call that ended in an error
ROUNDED = 4  # whether rewards are rounded to float32, as by SB3's vectorised environments
N_CURSOR = 5

# Columns of `Rollout.clock`, int64: the position of each environment
STARTS_USED = 0
ELAPSED = 1
BEGINNING = 2  # whether an episode begins in the next turn
TIME_LIMIT = 3
N_CLOCK = 4

# Events of `observe`: a transition, the beginning of an episode, a change of the agent's arrays
STEP = 0
BEGIN = 1
RECALL = 2

# Codes that `observe` returns instead of an action: errors, and a pause for work that Python has to do
BAD_OBSERVATION = -1
BAD_REWARD = -2
DIVERGED = -3
PAUSED = -10

# Columns of `Rollout.played`, float64: the last reward, and the return of the running episode
REWARD = 0
RETURN = 1


class Rollout(NamedTuple):
    """State of compiled environments that are stepped in turn; arrays have a row for each.

    `parameters`, `state` and `observation` are described in `CompiledDynamics`. `starts`
    (n_envs, n_starts, start_size) has the starts of future episodes. `cursor` (N_CURSOR,), `clock`
    (n_envs, N_CLOCK) and `played` (n_envs, 2) are indexed by the constants above. `episodes`
    (n_envs * n_starts, 4) has environment, return and length of the episodes that ended during the call,
    and 1 if they terminated.
    """

    parameters: Any
    starts: Any
    cursor: Any
    clock: Any
    played: Any
    state: Any
    observation: Any
    episodes: Any


@inline_kernel
def play(env_step, rollout, env, action):
    """Make one step of an environment; returns the reward, and whether it terminated and ended."""
    clock, played = rollout.clock[env], rollout.played[env]
    reward, terminated = env_step(
        rollout.parameters[env], rollout.state[env], action, rollout.observation[env]
    )
    clock[ELAPSED] += 1
    played[RETURN] += reward
    if rollout.cursor[ROUNDED] == 1:
        reward = float(np.float32(reward))
    played[REWARD] = reward
    return reward, terminated, terminated or clock[ELAPSED] >= clock[TIME_LIMIT]


@inline_kernel
def turn(env_reset, rollout, env, terminated, ended):
    """Move on to the next environment, or reset this one if its episode `ended`."""
    cursor, clock, played = rollout.cursor, rollout.clock[env], rollout.played[env]
    cursor[ROW] += 1
    if ended:
        episode = rollout.episodes[cursor[EPISODES]]
        episode[0], episode[1], episode[2] = env, played[RETURN], clock[ELAPSED]
        episode[3] = 1.0 if terminated else 0.0
        start = rollout.starts[env, clock[STARTS_USED]]
        env_reset(rollout.parameters[env], rollout.state[env], start, rollout.observation[env])
        cursor[EPISODES] += 1
        clock[STARTS_USED] += 1
        clock[ELAPSED] = 0
        played[RETURN] = 0.0
    else:
        cursor[ENV] = (env + 1) % rollout.state.shape[0]
    clock[BEGINNING] = ended


# observe(state, env, observation, reward, terminated, ended, event, draws) -> action or code
OBSERVE_SIGNATURE = types.int64(
    TABLE,
    types.int64,
    types.float64[::1],
    types.float64,
    types.boolean,
    types.boolean,
    types.int64,
    types.float64[::1],
)


class ObserveFunction(types.WrapperAddressProtocol):
    """First-class function by which the compiled loop calls an agent's `observe`.

    Compiled code receives it by signature and address, so the loop is compiled once for all agents.

    It wraps a kernel `observe(state, env, observation, reward, terminated, ended, event, draws)`, which
    returns the next action or one of the codes above. `state` is a table of `oda_rl._structs`, and `env`
    is the index of the environment. `observation` and `draws` (uniform in [0, 1), for the choice of an
    action) are float64 vectors. Python calls the kernel itself, `function`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Any = function

    def __call__(self, *arguments: Any) -> int:
        """Call the kernel, as the loop does where compilation is disabled."""
        return int(self.function(*arguments))

    def signature(self) -> Any:
        """The signature of the kernel, for numba."""
        return OBSERVE_SIGNATURE

    def __wrapper_address__(self) -> int:
        self.function.compile(OBSERVE_SIGNATURE)
        made = self.function.overloads[OBSERVE_SIGNATURE.args]
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name))


@lean_kernel
def run(observe, agent, env_step, env_reset, rollout, n_steps, block, command):
    """Run an agent in compiled environments for up to `n_steps`, with the results of the Python loop.

    `agent` is the state that the first-class function `observe` takes, `command` (n_envs, action_size)
    the array in which it leaves the next action of each environment, and `block` (n, n_draws) its random
    numbers. Returns early if these or the starts of episodes are used up, or the agent has paused;
    `rollout` then holds the position from which the next call continues. Returns the number of steps
    made, or an error code of `observe`.
    """
    t, cursor = 0, rollout.cursor
    while t < n_steps and cursor[ROW] < block.shape[0]:
        env = cursor[ENV]
        if rollout.clock[env, STARTS_USED] == rollout.starts.shape[1]:
            break
        reward, terminated, ended, event = 0.0, False, False, BEGIN
        if rollout.clock[env, BEGINNING] == 0:
            reward, terminated, ended = play(env_step, rollout, env, command[env])
            event = STEP
            t += 1
        draws, observation = block[cursor[ROW]], rollout.observation[env]
        code = observe(agent, env, observation, reward, terminated, ended, event, draws)
        if code < 0 and code != PAUSED:
            cursor[FAILED_AFTER] = t
            return code
        turn(env_reset, rollout, env, terminated, ended)
        if code == PAUSED:
            break
    return t
