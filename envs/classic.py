"""Gymnasium's classic control tasks with compiled dynamics, and the cart-pole with friction.

Each class inherits spaces, resets, options and rendering from Gymnasium's class; only `step` differs.
"""

from typing import Any, ClassVar

import numpy as np
from gymnasium import logger
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from gymnasium.envs.classic_control.pendulum import DEFAULT_X, DEFAULT_Y, PendulumEnv
from numpy.typing import NDArray

from oda_rl.envs import kernels
from oda_rl.envs.compiled import CompiledEnv

# Exponent of the squares that Gymnasium computes with a power function; see `kernels`.
SQUARE = 2.0


class _Classic(CompiledEnv):
    """Stores the state in the attribute that Gymnasium's classes use, and resets as they do.

    `render_mode` of every subclass is "human", "rgb_array" or None, as in Gymnasium.
    """

    state: Any = None
    # Attributes of Gymnasium's class, in the order of the kernel's `parameters`
    parameter_names: ClassVar[tuple[str, ...]]

    def get_parameters(self) -> list[Any]:
        """Masses, lengths, limits and variants, in the order that the kernel expects."""
        return [getattr(self, name) for name in self.parameter_names]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode; `options` are those of Gymnasium's environment."""
        self.refresh_parameters()
        # Skip CompiledEnv, whose reset would draw the start itself; Gymnasium's class comes next.
        observation, info = super(CompiledEnv, self).reset(seed=seed, options=options)
        return observation, info

    def get_state(self) -> NDArray[np.float64]:
        """A copy of the state in the form for the kernels, of shape (state_size,)."""
        return np.array(self.state, dtype=np.float64)

    def _keep_state(self, state: NDArray[np.float64]) -> None:
        self.state = state


class CartPole(_Classic, CartPoleEnv):
    """CartPole-v1, compiled.

    Parameters
    ----------
    sutton_barto_reward : bool, default=False
        Reward -1 for the last step and 0 for the others, instead of 1 for each.
    render_mode : str, optional
        As in Gymnasium.
    """

    step_kernel = staticmethod(kernels.step_cart_pole)
    reset_kernel = staticmethod(kernels.reset_plain)
    state_size = 4
    start_low, start_high = (-0.05,) * 4, (0.05,) * 4

    steps_beyond_terminated: Any
    # Coefficients of friction, of the cart and of the pole
    friction_cart = 0.0
    friction_pole = 0.0

    parameter_names = (
        *("gravity", "masspole", "total_mass", "length", "polemass_length", "force_mag", "tau"),
        *("x_threshold", "theta_threshold_radians", "_semi_implicit", "_sutton_barto_reward"),
        *("friction_cart", "friction_pole"),
    )

    @property
    def _semi_implicit(self) -> bool:
        return self.kinematics_integrator != "euler"

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Push the cart left (0) or right (1). After the pole has fallen, rewards are at most 0."""
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated:
            if self.steps_beyond_terminated is None:
                self.steps_beyond_terminated = 0
            else:
                if self.steps_beyond_terminated == 0:
                    logger.warn("step() was called after the episode had terminated; call reset().")
                self.steps_beyond_terminated += 1
                reward = min(reward, 0.0)
        return observation, reward, terminated, truncated, info


class CartPoleFriction(CartPole):
    """The cart-pole with friction of Barto, Sutton and Anderson (1983).

    Track and joint have friction. Everything else is as in CartPole-v1, including the order of the state
    (x, x_dot, theta, theta_dot). The registered environment is truncated after 1,000 steps. Parameters
    are as for `CartPole`.
    """

    friction_cart = 0.0005
    friction_pole = 0.000002


class MountainCar(_Classic, MountainCarEnv):
    """MountainCar-v0, compiled.

    Parameters
    ----------
    render_mode : str, optional
        As in Gymnasium.
    goal_velocity : float, default=0
        Least velocity at the goal.
    """

    step_kernel = staticmethod(kernels.step_mountain_car)
    reset_kernel = staticmethod(kernels.reset_plain)
    state_size = 2
    start_low, start_high = (-0.6,), (-0.4,)

    parameter_names = (
        *("force", "gravity", "max_speed", "min_position", "max_position"),
        *("goal_position", "goal_velocity"),
    )


class MountainCarContinuous(_Classic, Continuous_MountainCarEnv):
    """MountainCarContinuous-v0, compiled.

    Parameters
    ----------
    render_mode : str, optional
        As in Gymnasium.
    goal_velocity : float, default=0
        Least velocity at the goal.
    """

    step_kernel = staticmethod(kernels.step_mountain_car_continuous)
    reset_kernel = staticmethod(kernels.reset_mountain_car_continuous)
    state_size = 3
    start_low, start_high = (-0.6,), (-0.4,)

    parameter_names = (
        *("power", "max_speed", "min_position", "max_position"),
        *("goal_position", "goal_velocity", "min_action", "max_action"),
    )

    def get_state(self) -> NDArray[np.float64]:
        """Position, velocity, and 1 if they are in double precision, as after a reset, else 0."""
        state = np.asarray(self.state)
        return np.array([state[0], state[1], state.dtype == np.float64], dtype=np.float64)

    def _keep_state(self, state: NDArray[np.float64]) -> None:
        self.state = state[:2].astype(np.float64 if state[2] else np.float32)


class Pendulum(_Classic, PendulumEnv):
    """Pendulum-v1, compiled.

    Parameters
    ----------
    render_mode : str, optional
        As in Gymnasium.
    g : float, default=10.0
        Acceleration of gravity, m/s^2.
    """

    step_kernel = staticmethod(kernels.step_pendulum)
    reset_kernel = staticmethod(kernels.reset_pendulum)
    state_size = 2
    start_low, start_high = (-DEFAULT_X, -DEFAULT_Y), (DEFAULT_X, DEFAULT_Y)

    parameter_names = ("g", "m", "l", "dt", "max_speed", "max_torque", "_square")
    _square = SQUARE

    def encode_action(self, action: Any) -> NDArray[np.float64]:
        """Convert the torque for the kernels, and store it for rendering."""
        torque = super().encode_action(action)
        self.last_u = float(np.clip(torque[0], -self.max_torque, self.max_torque))
        return torque


class Acrobot(_Classic, AcrobotEnv):
    """Acrobot-v1, compiled.

    Torque noise (`torque_noise_max`) raises a ValueError, as steps draw no random numbers.

    Parameters
    ----------
    render_mode : str, optional
        As in Gymnasium.
    """

    step_kernel = staticmethod(kernels.step_acrobot)
    reset_kernel = staticmethod(kernels.reset_acrobot)
    state_size = 4
    start_low, start_high = (-0.1,) * 4, (0.1,) * 4

    parameter_names = (
        *("LINK_LENGTH_1", "LINK_MASS_1", "LINK_MASS_2", "LINK_COM_POS_1", "LINK_COM_POS_2"),
        *("LINK_MOI", "dt", "MAX_VEL_1", "MAX_VEL_2"),
    )

    def get_parameters(self) -> list[Any]:
        """Lengths, masses, limits, the variant and the torques, in the order that the kernel expects."""
        if self.torque_noise_max > 0:
            raise ValueError(
                f"torque_noise_max must be 0 for compiled dynamics, got {self.torque_noise_max}; "
                "gymnasium.make('Acrobot-v1') supports noise"
            )
        variant = self.book_or_nips == "nips"
        return [*super().get_parameters(), variant, *self.AVAIL_TORQUE, SQUARE]

    def draw_starts(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw states in single precision, with the cosines and sines of their angles appended."""
        states = super().draw_starts(generator, n).astype(np.float32)
        theta1, theta2 = states[:, 0], states[:, 1]
        angles = (np.cos(theta1), np.sin(theta1), np.cos(theta2), np.sin(theta2))
        return np.column_stack((states, *angles)).astype(np.float64)
