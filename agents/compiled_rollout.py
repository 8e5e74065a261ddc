# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What Python and a compiled loop hand to each other, and the environment's half of the loop.

The loop calls `play`, lets the agent `observe` what comes back, and calls `turn`. Between two calls of
the loop everything that it needs to go on stands in a `Rollout`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl._structs import TABLE

# Where a compiled run stands, int64
ROW = 0
STARTS_USED = 1
EPISODES = 2
ELAPSED = 3
BEGINNING = 4
FAILED_AFTER = 5  # steps of a call that ended in an error
N_CLOCK = 6

# What `observe` is told of: a transition, the beginning of an episode, a change of the agent's arrays
STEP = 0
BEGIN = 1
RECALL = 2

# What it returns instead of an action: an error, or that Python has something to do before the next step
BAD_OBSERVATION = -1
BAD_REWARD = -2
DIVERGED = -3
PAUSED = -10

# What has been paid, float64: the last reward, and the return of the running episode
REWARD = 0
RETURN = 1


class Rollout(NamedTuple):
    """A compiled environment on its way.

    `parameters`, `state` and `observation` are as `CompiledDynamics` describes them; `starts`
    (n_starts, start_size) has the starts of the episodes to come; `clock` (N_CLOCK,) and `played` (2,)
    are indexed by the names above; `returns` and `lengths` (n_starts,) are those of the episodes that
    ended during the call, float64 and int64.
    """

    parameters: Any
    starts: Any
    clock: Any
    played: Any
    state: Any
    observation: Any
    returns: Any
    lengths: Any


@inline_kernel
def used_up(rollout, block):
    """Whether the loop must go back to Python for random numbers or for starts of episodes."""
    clock = rollout.clock
    return clock[ROW] == block.shape[0] or clock[STARTS_USED] == rollout.starts.shape[0]


@inline_kernel
def play(env_step, rollout, time_limit, action):
    """Make one step of the environment. Returns the reward, whether terminated, and whether ended."""
    reward, terminated = env_step(rollout.parameters, rollout.state, action, rollout.observation)
    rollout.clock[ELAPSED] += 1
    rollout.played[REWARD] = reward
    rollout.played[RETURN] += reward
    return reward, terminated, terminated or rollout.clock[ELAPSED] >= time_limit


@inline_kernel
def turn(env_reset, rollout, ended):
    """Count the random numbers of a step; if the episode `ended`, record it and begin the next."""
    clock = rollout.clock
    clock[ROW] += 1
    clock[BEGINNING] = 0
    if ended:
        rollout.returns[clock[EPISODES]] = rollout.played[RETURN]
        rollout.lengths[clock[EPISODES]] = clock[ELAPSED]
        start = rollout.starts[clock[STARTS_USED]]
        env_reset(rollout.parameters, rollout.state, start, rollout.observation)
        clock[EPISODES] += 1
        clock[STARTS_USED] += 1
        clock[ELAPSED] = 0
        clock[BEGINNING] = 1
        rollout.played[RETURN] = 0.0


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
def run(observe, agent, env_step, env_reset, rollout, time_limit, n_steps, block, command):
    """Up to `n_steps` of a compiled environment and of an agent, as the loop in Python would make them.

    `agent` is what the first-class function `observe` takes as its state, `command` (action_size,) where
    it leaves the environment's next action, `block` (n, n_draws) its random numbers. Comes back early
    when these or the starts of episodes are used up, or the agent has paused; `rollout` tells where, and
    is where it goes on. Returns the steps made, or an error of `observe`.
    """
    t = 0
    while t < n_steps and not used_up(rollout, block):
        reward, terminated, ended, event = 0.0, False, False, BEGIN
        if rollout.clock[BEGINNING] == 0:
            reward, terminated, ended = play(env_step, rollout, time_limit, command)
            event = STEP
            t += 1
        draws = block[rollout.clock[ROW]]
        code = observe(agent, 0, rollout.observation, reward, terminated, ended, event, draws)
        if code < 0 and code != PAUSED:
            rollout.clock[FAILED_AFTER] = t
            return code
        turn(env_reset, rollout, ended)
        if code == PAUSED:
            break
    return t
