# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What Python and a compiled loop hand to each other, and the environments' half of the loop.

The loop calls `play`, lets the agent `observe` what comes back, and calls `turn`. Between two calls of
the loop everything that it needs to go on stands in a `Rollout`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl._structs import TABLE

# Where a compiled run stands, int64
ROW = 0
ENV = 1  # whose turn it is
EPISODES = 2
FAILED_AFTER = 3  # steps of a call that ended in an error
ROUNDED = 4  # whether rewards are rounded to float32, as SB3's vectors of environments do
N_CURSOR = 5

# Where each environment stands, int64
STARTS_USED = 0
ELAPSED = 1
BEGINNING = 2
TIME_LIMIT = 3
N_CLOCK = 4

# What `observe` is told of: a transition, the beginning of an episode, a change of the agent's arrays
STEP = 0
BEGIN = 1
RECALL = 2

# What it returns instead of an action: an error, or that Python has something to do before the next step
BAD_OBSERVATION = -1
BAD_REWARD = -2
DIVERGED = -3
PAUSED = -10

# What each environment has paid, float64: the last reward, and the return of the running episode
REWARD = 0
RETURN = 1


class Rollout(NamedTuple):
    """Compiled environments on their way, which take turns; a row for each.

    `parameters`, `state` and `observation` are as `CompiledDynamics` describes them; `starts`
    (n_envs, n_starts, start_size) has the starts of the episodes to come; `cursor` (N_CURSOR,), `clock`
    (n_envs, N_CLOCK) and `played` (n_envs, 2) are indexed by the names above; `episodes`
    (n_envs * n_starts, 3) has environment, return and length of those that ended during the call.
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
    """Make one step of an environment. Returns the reward, whether terminated, and whether ended."""
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
def turn(env_reset, rollout, env, ended):
    """Let the next environment have its turn, or this one begin anew if its episode `ended`."""
    cursor, clock, played = rollout.cursor, rollout.clock[env], rollout.played[env]
    cursor[ROW] += 1
    if ended:
        episode = rollout.episodes[cursor[EPISODES]]
        episode[0], episode[1], episode[2] = env, played[RETURN], clock[ELAPSED]
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
    """What an agent does with an observation, for the compiled loop, which does not know the agent.

    Compiled code receives it by its signature and address: the loop is compiled once for all agents.

    It is a kernel `observe(state, env, observation, reward, terminated, ended, event, draws)`, which
    returns the next action or one of the codes above. `state` is a table of `oda_rl._structs`, the index
    `env` is that of the environment, `observation` and `draws` (uniform in [0, 1), for the choice of an
    action) are float64 vectors. What Python calls is this kernel itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Any = function

    def signature(self) -> Any:
        """The signature, as numba asks for it."""
        return OBSERVE_SIGNATURE

    def __wrapper_address__(self) -> int:
        self.function.compile(OBSERVE_SIGNATURE)
        made = self.function.overloads[OBSERVE_SIGNATURE.args]
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name))


@lean_kernel
def run(observe, agent, env_step, env_reset, rollout, n_steps, block, command):
    """Up to `n_steps` of compiled environments and of an agent, as the loop in Python would make them.

    `agent` is what the first-class function `observe` takes as its state, `command` (n_envs,
    action_size) where it leaves an environment's next action, `block` (n, n_draws) its random numbers.
    Comes back early when these or the starts of episodes are used up, or the agent has paused; `rollout`
    tells where, and is where it goes on. Returns the steps made, or an error of `observe`.
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
        turn(env_reset, rollout, env, ended)
        if code == PAUSED:
            break
    return t
