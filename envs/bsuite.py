"""Three tasks of bsuite with compiled dynamics: deep sea, catch, and the swing-up of a cart-pole.

Source: I. Osband et al., *Behaviour Suite for Reinforcement Learning*, ICLR 2020 (arXiv 1908.03568), and
for deep sea I. Osband, J. Aslanides and A. Cassirer, *Randomized Prior Functions for Deep Reinforcement
Learning*, NeurIPS 2018 (arXiv 1806.03335). Dynamics, rewards and observations are those of bsuite 0.3.
Random numbers come from other generators, so that only the distribution of episodes is the same.
"""

import math
from typing import Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from oda_rl._jit import kernel
from oda_rl._types import Array
from oda_rl._validation import check_at_least
from oda_rl.envs.compiled import CompiledEnv

# Modulus and multiplier of the generator for stochastic steps, which is stored in the state: S. K. Park
# and K. W. Miller, CACM 1988, with their multiplier of 1993. Products stay below 2^53, exact in doubles.
MODULUS, MULTIPLIER = 2_147_483_647.0, 48_271.0


@kernel
def draw_uniform(state: Array, place: int) -> float:
    """Draw the next number in (0, 1) from the generator in `state[place]`."""
    state[place] = (MULTIPLIER * state[place]) % MODULUS
    return state[place] / MODULUS


@kernel
def draw_normal(state: Array, place: int) -> float:
    """Draw the next standard normal number, by Box and Muller's method."""
    radius = math.sqrt(-2.0 * math.log(draw_uniform(state, place)))
    return radius * math.cos(2.0 * math.pi * draw_uniform(state, place))


@kernel
def write_cell(parameters: Array, state: Array, observation: Array) -> None:
    """Write the diver's cell: its number, or a board with a one in it, empty after the last step."""
    size = int(parameters[0])
    place = int(state[0]) * size + int(state[1])
    if parameters[3] == 0.0:
        observation[0] = min(place, size * size - 1)
    else:
        observation[:] = 0.0
        if state[0] < size:
            observation[place] = 1.0


class _Grid(CompiledEnv):
    """Rejects states with which its kernels would index beyond the ends of their arrays."""

    def limits(self) -> list[float]:
        """The largest value of each number of the state; the smallest is 0."""
        raise NotImplementedError

    def set_state(self, state: ArrayLike) -> None:
        """Continue from another state, in the kernels' form; a ValueError if it is out of range."""
        given, most = np.array(state, dtype=np.float64), self.limits()
        if given.shape == (len(most),) and not np.all(
            (given >= 0.0) & (given <= most) & (given % 1.0 == 0.0)
        ):
            raise ValueError(f"state must be integers from 0 to {most}, not {given.tolist()}")
        super().set_state(given)


class DeepSea(_Grid):
    """Find a treasure by N steps to the right, each of which has a small cost.

    A diver begins in the upper left corner of an N x N grid and sinks one row per step, to the left or
    to the right. Going right costs 0.01 / N. Going right in the last column has a reward of 1, which
    only the path that always goes right reaches. The best return is 0.99, and a random policy finds it
    once in 2^N episodes. Which of the two actions goes right is drawn once for each cell.

    Parameters
    ----------
    size : int, default=10
        N, the rows and columns of the grid, and the steps of an episode.
    stochastic : bool, default=False
        Going right succeeds only with probability 1 - 1/N; otherwise the diver sinks straight down, but
        pays the cost. A step from the lower left or right cell adds noise N(0, 1) to the reward.
    observation : {"number", "board"}, default="number"
        The index of the cell, row by row, in `Discrete(N * N)`; or a `Box` of shape (N, N) with a one in
        the cell. After the last step the index is that of the last cell, and the board is empty.
    mapping_seed : int or None, default=0
        Seed for drawing which action goes right in each cell; None for action 1 everywhere.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> env = gym.make("oda_rl/DeepSea-v0", size=4, mapping_seed=None)
    >>> env.reset(seed=0)[0], [float(env.step(1)[1]) for _ in range(4)]
    (np.int64(0), [-0.0025, -0.0025, -0.0025, 0.9975])
    """

    # Row, column, generator
    state_size = 3
    start_low, start_high = (0.0,), (1.0,)
    move_cost = 0.01

    def __init__(
        self,
        size: int = 10,
        stochastic: bool = False,
        observation: Literal["number", "board"] = "number",
        mapping_seed: int | None = 0,
    ) -> None:
        check_at_least(1, size=size)
        if observation not in ("number", "board"):
            raise ValueError(f"observation must be 'number' or 'board', not {observation!r}")
        self.size, self.stochastic, self.mapping_seed = size, stochastic, mapping_seed
        self.observation_space = (
            spaces.Discrete(size * size)
            if observation == "number"
            else spaces.Box(0.0, 1.0, (size, size), np.float32)
        )
        self.action_space = spaces.Discrete(2)
        self.rightward = np.ones((size, size), dtype=np.int64)
        if mapping_seed is not None:
            self.rightward = np.random.default_rng(mapping_seed).integers(2, size=(size, size))

    def get_parameters(self) -> list[float]:
        """Size, cost of going right, stochastic or not, board or not; then the actions to the right."""
        board = isinstance(self.observation_space, spaces.Box)
        return [self.size, self.move_cost, self.stochastic, board, *self.rightward.ravel()]

    def limits(self) -> list[float]:
        """Limits of row, column and generator."""
        return [self.size, self.size - 1, MODULUS - 1.0]

    @staticmethod
    def reset_kernel(parameters: Array, state: Array, start: Array, observation: Array) -> None:
        """Begin in the upper left corner."""
        state[0], state[1] = 0.0, 0.0
        state[2] = 1.0 + math.floor(start[0] * (MODULUS - 1.0))
        write_cell(parameters, state, observation)

    @staticmethod
    def step_kernel(
        parameters: Array, state: Array, action: Array, observation: Array
    ) -> tuple[float, bool]:
        """Sink one row, to the left or to the right."""
        size, row, column = parameters[0], state[0], state[1]
        if row >= size:  # on the ground already
            return 0.0, True
        random = parameters[2] != 0.0
        right = action[0] == parameters[4 + int(row * size + column)]
        reward = 1.0 if right and column == size - 1.0 else 0.0
        if random and row == size - 1.0 and (column == 0.0 or column == size - 1.0):
            reward += draw_normal(state, 2)
        if right:
            reward -= parameters[1] / size
            if not random or draw_uniform(state, 2) > 1.0 / size:
                state[1] = min(column + 1.0, size - 1.0)
        else:
            state[1] = max(column - 1.0, 0.0)
        state[0] = row + 1.0
        write_cell(parameters, state, observation)
        return reward, state[0] >= size


@kernel
def write_board(parameters: Array, state: Array, observation: Array) -> None:
    """Write a board with a one at the ball, and a one at the paddle, in the lowest row."""
    rows, columns = int(parameters[0]), int(parameters[1])
    observation[:] = 0.0
    observation[int(state[1]) * columns + int(state[0])] = 1.0
    observation[(rows - 1) * columns + int(state[2])] = 1.0


class Catch(_Grid):
    """Move a paddle under a ball that falls straight down: reward 1 if it is caught, -1 if not.

    The ball begins in a random column of the highest row and falls one row per step. The paddle begins
    in the middle of the lowest row and is moved to the left (0), not at all (1) or to the right (2). The
    episode ends when the ball reaches the lowest row. The best return is 1.

    Parameters
    ----------
    rows, columns : int, default=10 and 5
        Size of the board, which is the observation: a `Box` of shape (rows, columns), zeros and ones.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> gym.make("oda_rl/Catch-v0").reset(seed=0)[0].shape
    (10, 5)
    """

    # Column of the ball, its row, column of the paddle
    state_size = 3
    start_low, start_high = (0.0,), (1.0,)

    def __init__(self, rows: int = 10, columns: int = 5) -> None:
        check_at_least(2, rows=rows)
        check_at_least(1, columns=columns)
        self.rows, self.columns = rows, columns
        self.observation_space = spaces.Box(0.0, 1.0, (rows, columns), np.float32)
        self.action_space = spaces.Discrete(3)

    def get_parameters(self) -> list[float]:
        """Rows and columns."""
        return [self.rows, self.columns]

    def limits(self) -> list[float]:
        """Limits of the column of the ball, its row, and the column of the paddle."""
        return [self.columns - 1, self.rows - 1, self.columns - 1]

    @staticmethod
    def reset_kernel(parameters: Array, state: Array, start: Array, observation: Array) -> None:
        """Begin with the ball in a random column, and the paddle in the middle."""
        state[0] = math.floor(start[0] * parameters[1])
        state[1], state[2] = 0.0, parameters[1] // 2.0
        write_board(parameters, state, observation)

    @staticmethod
    def step_kernel(
        parameters: Array, state: Array, action: Array, observation: Array
    ) -> tuple[float, bool]:
        """Move the paddle, then let the ball fall a row."""
        if state[1] >= parameters[0] - 1.0:  # down already
            return 0.0, True
        state[2] = min(max(state[2] + action[0] - 1.0, 0.0), parameters[1] - 1.0)
        state[1] += 1.0
        write_board(parameters, state, observation)
        if state[1] < parameters[0] - 1.0:
            return 0.0, False
        return (1.0 if state[2] == state[0] else -1.0), True


@kernel
def write_swing(parameters: Array, state: Array, observation: Array) -> None:
    """Write the eight observed numbers; lengths are in units of half the length of the track."""
    x_limit, x_reward, spin_reward = parameters[8], parameters[9], parameters[10]
    observation[0] = np.float32(state[0] / x_limit)
    observation[1] = np.float32(state[1] / x_limit)
    observation[2] = np.float32(math.sin(state[2]))
    observation[3] = np.float32(math.cos(state[2]))
    observation[4] = np.float32(state[3])
    observation[5] = np.float32(state[4] / parameters[11])
    observation[6] = 1.0 if abs(state[0]) < x_reward else -1.0
    observation[7] = 1.0 if abs(state[3]) < spin_reward else -1.0


class CartPoleSwingup(CompiledEnv):
    """Swing a hanging pole up and keep it there, although every push has a cost.

    The reward is 1 for each step with the pole high (cos angle > `height_threshold`), slow (less than
    1 rad/s) and the cart near the middle (less than 1 m from it). A push to the left (0) or to the right
    (2) costs `move_cost`; no push (1) costs nothing. An agent that does not explore keeps still, with a
    return of 0. The episode ends after ten seconds (1,001 steps), or 3 m from the middle. The time is
    part of the observation.

    Parameters
    ----------
    height_threshold : float, default=0.5
        Cosine of the angle above which the pole is high; bsuite has 0, 0.05, ..., 0.95.
    move_cost : float, default=0.1
        Cost of a push.

    Notes
    -----
    The observation consists of position and velocity (in units of 3 m), sine, cosine and velocity of the
    angle, the time (in units of ten seconds), and 1 or -1 for being near the middle and for being slow.
    Cart 1 kg, pole 0.1 kg of half length 0.5 m, force 10 N, steps of 0.01 s by Euler's method, without
    friction.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import oda_rl.envs
    >>> env = gym.make("oda_rl/CartPoleSwingup-v0", height_threshold=0.9)
    >>> _ = env.reset(seed=0)
    >>> env.step(1)[1], env.step(0)[1]
    (0.0, -0.1)
    """

    # Position, velocity, angle from upright, its velocity, time
    state_size = 5
    start_low = (-0.05, -0.05, math.pi - 0.05, -0.05)
    start_high = (0.05, 0.05, math.pi + 0.05, 0.05)

    def __init__(self, height_threshold: float = 0.5, move_cost: float = 0.1) -> None:
        self.height_threshold, self.move_cost = height_threshold, move_cost
        high = np.array([np.inf, np.inf, 1.0, 1.0, np.inf, np.inf, 1.0, 1.0], dtype=np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(3)

    def get_parameters(self) -> list[float]:
        """Gravity, masses, half length, force, time step; then thresholds, cost of a push, limits."""
        physics = [9.8, 1.0, 0.1, 0.5, 10.0, 0.01]
        return [*physics, self.height_threshold, self.move_cost, 3.0, 1.0, 1.0, 10.0]

    @staticmethod
    def reset_kernel(parameters: Array, state: Array, start: Array, observation: Array) -> None:
        """Begin near rest, with the pole hanging."""
        state[:4] = start
        state[4] = 0.0
        write_swing(parameters, state, observation)

    @staticmethod
    def step_kernel(
        parameters: Array, state: Array, action: Array, observation: Array
    ) -> tuple[float, bool]:
        """Push for a hundredth of a second."""
        gravity, pole, half_length, tau = parameters[0], parameters[2], parameters[3], parameters[5]
        mass = parameters[1] + pole
        x_dot, theta, theta_dot = state[1], state[2], state[3]
        sine, cosine = math.sin(theta), math.cos(theta)
        force = (action[0] - 1.0) * parameters[4]
        push = (force + pole * half_length * theta_dot * theta_dot * sine) / mass
        theta_acc = (gravity * sine - cosine * push) / (
            half_length * (4.0 / 3.0 - pole * cosine * cosine / mass)
        )
        x_acc = push - pole * half_length * theta_acc * cosine / mass
        state[0] += tau * x_dot
        state[1] += tau * x_acc
        state[2] = (theta + tau * theta_dot) % (2.0 * math.pi)
        state[3] += tau * theta_acc
        state[4] += tau
        write_swing(parameters, state, observation)
        paid = math.cos(state[2]) > parameters[6] and observation[6] > 0.0 and observation[7] > 0.0
        reward = (1.0 if paid else 0.0) - abs(action[0] - 1.0) * parameters[7]
        return reward, state[4] > parameters[11] or abs(state[0]) > parameters[8]
