# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Dynamics of the classic control tasks, compiled through `CompiledFunction`.

Every step has the signature (parameters, state, action, observation) -> (reward, terminated), every
reset (parameters, state, start, observation). The arithmetic follows Gymnasium's operation by operation,
so that the results are equal bit for bit; this explains expressions that look odd. Gymnasium squares
some numbers with a power function, whose result sometimes differs from x * x in the last bit. In these
places the exponent is a parameter, because the compiler would turn a power with a known exponent of 2
into a product.
"""

import math

import numpy as np

from oda_rl._jit import kernel


def reset_plain(parameters, state, start, observation):
    """Begin with `start` as state and observation; further entries of the state are 0."""
    for j in range(state.shape[0]):
        state[j] = start[j] if j < start.shape[0] else 0.0
    for j in range(observation.shape[0]):
        observation[j] = np.float32(state[j])


# -- cart-pole -----------------------------------------------------------------------------------


def step_cart_pole(parameters, state, action, observation):
    """Step the cart-pole, with friction of the cart on its track and of the pole in its joint.

    The state is x, x_dot, theta, theta_dot. The equations are Gymnasium's, with the friction terms of
    Barto, Sutton and Anderson (1983), which are 0 for Gymnasium's task.
    """
    gravity, mass_pole, mass, half_length = parameters[0], parameters[1], parameters[2], parameters[3]
    pole_moment, force_size, tau = parameters[4], parameters[5], parameters[6]
    x_limit, theta_limit = parameters[7], parameters[8]
    x, x_dot, theta, theta_dot = state[0], state[1], state[2], state[3]
    force = force_size if action[0] == 1.0 else -force_size
    cosine = math.cos(theta)
    sine = math.sin(theta)
    track = parameters[11] * np.sign(x_dot)
    joint = parameters[12] * theta_dot / pole_moment
    push = (force + pole_moment * (theta_dot * theta_dot) * sine - track) / mass
    theta_acc = (gravity * sine - cosine * push - joint) / (
        half_length * (4.0 / 3.0 - mass_pole * (cosine * cosine) / mass)
    )
    x_acc = push - pole_moment * theta_acc * cosine / mass
    if parameters[9] == 0.0:
        x = x + tau * x_dot
        x_dot = x_dot + tau * x_acc
        theta = theta + tau * theta_dot
        theta_dot = theta_dot + tau * theta_acc
    else:
        x_dot = x_dot + tau * x_acc
        x = x + tau * x_dot
        theta_dot = theta_dot + tau * theta_acc
        theta = theta + tau * theta_dot
    state[0], state[1], state[2], state[3] = x, x_dot, theta, theta_dot
    for j in range(4):
        observation[j] = np.float32(state[j])
    terminated = x < -x_limit or x > x_limit or theta < -theta_limit or theta > theta_limit
    if parameters[10] == 0.0:
        return 1.0, terminated
    return (-1.0 if terminated else 0.0), terminated


# -- mountain cars -------------------------------------------------------------------------------


def step_mountain_car(parameters, state, action, observation):
    """Step the car in a valley, pushed left, not at all, or right. State: position and velocity."""
    force, gravity, max_speed = parameters[0], parameters[1], parameters[2]
    lowest, highest = parameters[3], parameters[4]
    position, velocity = state[0], state[1]
    velocity += (action[0] - 1.0) * force + math.cos(3.0 * position) * (-gravity)
    velocity = min(max(velocity, -max_speed), max_speed)
    position += velocity
    position = min(max(position, lowest), highest)
    if position == lowest and velocity < 0.0:
        velocity = 0.0
    state[0], state[1] = position, velocity
    observation[0], observation[1] = np.float32(position), np.float32(velocity)
    return -1.0, position >= parameters[5] and velocity >= parameters[6]


@kernel
def narrow(value, single):
    """Round `value` to single precision if `single`, as Gymnasium computes in it."""
    return np.float64(np.float32(value)) if single else value


def reset_mountain_car_continuous(parameters, state, start, observation):
    """Begin at rest. `state[2]` is 1 while the others are not in single precision yet."""
    state[0], state[1], state[2] = start[0], 0.0, 1.0
    observation[0], observation[1] = np.float32(start[0]), 0.0


def step_mountain_car_continuous(parameters, state, action, observation):
    """Step the car in a valley, pushed by a force from -1 to 1.

    Gymnasium computes the first step of an episode in double precision and the others in single, except
    for the push, which is in double if the action is beyond its limits. Sums and products of single
    numbers may be computed in double and rounded once, with the same result. (Converting with `float`
    would not work: numba leaves a single number single.)
    """
    power, max_speed = parameters[0], parameters[1]
    lowest, highest = parameters[2], parameters[3]
    single = state[2] == 0.0
    position, velocity = state[0], state[1]
    asked = np.float64(np.float32(action[0]))
    slope = 0.0025 * math.cos(narrow(3.0 * position, single))
    if asked < parameters[6] or asked > parameters[7]:
        push = min(max(asked, parameters[6]), parameters[7]) * power - slope
    else:
        push = narrow(narrow(asked * narrow(power, True), True) - narrow(slope, True), True)
    velocity = narrow(velocity + narrow(push, single), single)
    limit = narrow(max_speed, single)
    velocity = min(max(velocity, -limit), limit)
    position = narrow(position + velocity, single)
    position = min(max(position, narrow(lowest, single)), narrow(highest, single))
    if position == narrow(lowest, single) and velocity < 0.0:
        velocity = 0.0
    terminated = position >= narrow(parameters[4], single) and velocity >= narrow(parameters[5], single)
    reward = 100.0 if terminated else 0.0
    reward -= asked * asked * 0.1
    state[0], state[1], state[2] = narrow(position, True), narrow(velocity, True), 0.0
    observation[0], observation[1] = state[0], state[1]
    return reward, terminated


# -- pendulum ------------------------------------------------------------------------------------


def reset_pendulum(parameters, state, start, observation):
    """Begin with the angle and the angular velocity in `start`."""
    state[0], state[1] = start[0], start[1]
    observation[0] = np.float32(math.cos(state[0]))
    observation[1] = np.float32(math.sin(state[0]))
    observation[2] = np.float32(state[1])


def step_pendulum(parameters, state, action, observation):
    """Step the pendulum with a torque at its joint. State: the angle from upright and its velocity."""
    gravity, mass, length = parameters[0], parameters[1], parameters[2]
    dt, max_speed, max_torque = parameters[3], parameters[4], parameters[5]
    two = parameters[6]
    theta, theta_dot = state[0], state[1]
    torque = np.float32(min(max(np.float32(action[0]), np.float32(-max_torque)), np.float32(max_torque)))
    upright = ((theta + np.pi) % (2.0 * np.pi)) - np.pi
    effort = np.float32(np.float32(0.001) * np.float32(torque ** np.float32(two)))
    cost = upright**two + 0.1 * theta_dot**two + effort
    pull = np.float32(np.float32(3.0 / (mass * (length * length))) * torque)
    theta_dot = theta_dot + (3.0 * gravity / (2.0 * length) * math.sin(theta) + pull) * dt
    theta_dot = min(max(theta_dot, -max_speed), max_speed)
    theta = theta + theta_dot * dt
    state[0], state[1] = theta, theta_dot
    observation[0] = np.float32(math.cos(theta))
    observation[1] = np.float32(math.sin(theta))
    observation[2] = np.float32(theta_dot)
    return -cost, False


# -- acrobot -------------------------------------------------------------------------------------


def reset_acrobot(parameters, state, start, observation):
    """Begin with the first four numbers of `start`; the others are the cosines and sines observed.

    Gymnasium computes these in single precision, in which NumPy's results differ from those of the C
    library. They are therefore part of `start`.
    """
    for j in range(4):
        state[j] = start[j]
        observation[j] = start[4 + j]
    observation[4], observation[5] = start[2], start[3]


@kernel
def acrobot_rates(parameters, theta1, theta2, dtheta1, dtheta2, torque):
    """Rates of change of the four states, after Sutton's book or his NIPS paper (`parameters[9]`)."""
    l1, m1, m2 = parameters[0], parameters[1], parameters[2]
    lc1, lc2, moi = parameters[3], parameters[4], parameters[5]
    two = parameters[13]
    g = 9.8
    cosine2 = math.cos(theta2)
    sine2 = math.sin(theta2)
    d1 = m1 * (lc1 * lc1) + m2 * (l1 * l1 + lc2 * lc2 + 2.0 * l1 * lc2 * cosine2) + moi + moi
    d2 = m2 * (lc2 * lc2 + l1 * lc2 * cosine2) + moi
    phi2 = m2 * lc2 * g * math.cos(theta1 + theta2 - np.pi / 2.0)
    phi1 = (
        -m2 * l1 * lc2 * dtheta2**two * sine2
        - 2.0 * m2 * l1 * lc2 * dtheta2 * dtheta1 * sine2
        + (m1 * lc1 + m2 * l1) * g * math.cos(theta1 - np.pi / 2.0)
        + phi2
    )
    moment = m2 * (lc2 * lc2) + moi - d2**two / d1
    if parameters[9] == 0.0:
        rate2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * dtheta1**two * sine2 - phi2) / moment
    else:
        rate2 = (torque + d2 / d1 * phi1 - phi2) / moment
    return dtheta1, dtheta2, -(d2 * rate2 + phi1) / d1, rate2


@kernel
def shifted(parameters, state, h, k, torque):
    """Rates of change at the state plus `h` times the rates `k`."""
    return acrobot_rates(
        parameters,
        state[0] + h * k[0],
        state[1] + h * k[1],
        state[2] + h * k[2],
        state[3] + h * k[3],
        torque,
    )


@kernel
def wrap_angle(x):
    """Wrap an angle to the range from -pi to pi."""
    while x > np.pi:
        x = x - 2.0 * np.pi
    while x < -np.pi:
        x = x + 2.0 * np.pi
    return x


def step_acrobot(parameters, state, action, observation):
    """Step two links with a torque at the joint between them, by one Runge-Kutta step of order 4.

    The state is the two angles and their velocities.
    """
    dt, max_speed1, max_speed2 = parameters[6], parameters[7], parameters[8]
    torque = parameters[10 + int(action[0])]
    k1 = acrobot_rates(parameters, state[0], state[1], state[2], state[3], torque)
    k2 = shifted(parameters, state, dt / 2.0, k1, torque)
    k3 = shifted(parameters, state, dt / 2.0, k2, torque)
    k4 = shifted(parameters, state, dt, k3, torque)
    for j in range(4):
        state[j] = state[j] + dt / 6.0 * (k1[j] + 2.0 * k2[j] + 2.0 * k3[j] + k4[j])
    state[0], state[1] = wrap_angle(state[0]), wrap_angle(state[1])
    state[2] = min(max(state[2], -max_speed1), max_speed1)
    state[3] = min(max(state[3], -max_speed2), max_speed2)
    cosine1 = math.cos(state[0])
    observation[0], observation[1] = np.float32(cosine1), np.float32(math.sin(state[0]))
    observation[2], observation[3] = np.float32(math.cos(state[1])), np.float32(math.sin(state[1]))
    observation[4], observation[5] = np.float32(state[2]), np.float32(state[3])
    terminated = -cosine1 - math.cos(state[1] + state[0]) > 1.0
    return (0.0 if terminated else -1.0), terminated


# -- several environments ------------------------------------------------------------------------


@kernel
def step_many(step, parameters, states, actions, observations, rewards, terminated):
    """Step several environments with the same parameters; each array has one row per environment."""
    for i in range(states.shape[0]):
        rewards[i], terminated[i] = step(parameters, states[i], actions[i], observations[i])
