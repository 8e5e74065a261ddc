"""The cart-pole with friction: against the equations as they are printed, and against physics."""

import gymnasium as gym
import numpy as np
import pytest

import oda_rl.envs  # noqa: F401

G, CART, POLE, HALF, F, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MU_CART, MU_POLE = 0.0005, 0.000002


def accelerations(state, force):
    """Barto, Sutton and Anderson (1983), appendix."""
    _, x_dot, theta, theta_dot = state
    total = CART + POLE
    sine, cosine = np.sin(theta), np.cos(theta)
    inner = (-force - POLE * HALF * theta_dot**2 * sine + MU_CART * np.sign(x_dot)) / total
    theta_acc = (G * sine + cosine * inner - MU_POLE * theta_dot / (POLE * HALF)) / (
        HALF * (4 / 3 - POLE * cosine**2 / total)
    )
    swing = POLE * HALF * (theta_dot**2 * sine - theta_acc * cosine)
    return (force + swing - MU_CART * np.sign(x_dot)) / total, theta_acc


def test_friction_equals_the_printed_equations():
    env = gym.make("oda_rl/CartPoleFriction-v0").unwrapped
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(500):
        state = rng.uniform([-2, -3, -0.2, -3], [2, 3, 0.2, 3])
        action = int(rng.integers(2))
        env.reset()
        env.set_state(state)
        observation, reward, terminated, _, _ = env.step(action)
        x_acc, theta_acc = accelerations(state, F if action else -F)
        expected = state + TAU * np.array([state[1], x_acc, state[3], theta_acc])
        np.testing.assert_allclose(env.get_state(), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(observation, env.get_state().astype(np.float32))
        assert reward == 1.0
        assert terminated == (abs(expected[0]) > 2.4 or abs(expected[2]) > np.deg2rad(12))


def energy(state):
    """Kinetic and potential energy of cart and pole."""
    _, x_dot, theta, theta_dot = state
    kinetic = 0.5 * (CART + POLE) * x_dot**2 + POLE * HALF * x_dot * theta_dot * np.cos(theta)
    kinetic += 0.5 * (4 / 3) * POLE * HALF**2 * theta_dot**2
    return kinetic + POLE * G * HALF * np.cos(theta)


@pytest.mark.parametrize("friction", [(0.0, 0.0), (0.02, 0.0), (0.0, 0.002), (0.02, 0.002)])
def test_friction_takes_the_energy_that_it_should(friction):
    """Without the motor, energy is lost to friction as force times path, and kept without it."""
    env = gym.make("oda_rl/CartPoleFriction-v0").unwrapped
    env.friction_cart, env.friction_pole = friction
    env.force_mag, env.tau = 0.0, 1e-5
    env.reset(seed=0)
    env.set_state([0.0, 0.8, 2.5, 1.0])
    start, lost = energy(env.get_state()), 0.0
    for _ in range(30_000):
        _, x_dot, _, theta_dot = env.get_state()
        lost += env.tau * (friction[0] * abs(x_dot) + friction[1] * theta_dot**2)
        env._compiled_step(env._parameters, env.state, np.zeros(1), np.empty(4))
    assert start - energy(env.get_state()) == pytest.approx(lost, rel=0.02, abs=2e-5)
    assert lost > 1e-3 or friction == (0.0, 0.0)


def test_friction_changes_the_trajectory_but_little():
    """The coefficients are small: after 20 steps the states agree to a thousandth, not to the bit."""
    states = []
    for name in ("oda_rl/CartPole-v1", "oda_rl/CartPoleFriction-v0"):
        env = gym.make(name)
        env.reset(seed=0)
        for t in range(20):
            env.step(t % 2)
        states.append(env.unwrapped.get_state())
    np.testing.assert_allclose(states[0], states[1], atol=1e-3)
    assert (states[0] != states[1]).all()
