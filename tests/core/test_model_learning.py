"""The learning rule of local models against its NumPy twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import mixture, shares

from oda_rl.codebook import model_learning


def naive_step(x, y, p, weight, theta, gain):
    """Recursive least squares of every cell, driven by the error of the mixture."""
    basis = np.r_[1.0, x] if theta.shape[1] > 1 else np.ones(1)
    error = y - mixture(x, p, theta)
    theta, gain = theta.copy(), gain.copy()
    for i in range(len(p)):
        direction = gain[i] @ basis
        step = weight * p[i] / (1.0 + weight * p[i] * basis @ direction)
        gain[i] -= step * np.outer(direction, direction)
        theta[:, :, i] += step * np.outer(error, direction)
    return theta, gain, float((error**2).sum())


def make(seed, k, d, m, linear):
    rng = np.random.default_rng(seed)
    q = d + 1 if linear else 1
    roots = rng.normal(size=(k, q, q))
    gain = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(q)
    return rng, q, rng.normal(size=(m, q, k)), gain


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 8),
    d=st.integers(1, 4),
    m=st.integers(1, 3),
    linear=st.booleans(),
)
def test_one_step_of_the_models(seed, k, d, m, linear):
    rng, q, theta, gain = make(seed, k, d, m, linear)
    x, y = rng.normal(size=d), rng.normal(size=m)
    p = rng.dirichlet(np.ones(k))
    basis = np.r_[1.0, x] if linear else np.ones(1)
    rows, gains = theta.reshape(m * q, k).copy(), gain.reshape(k, q * q).T.copy()
    scratch = np.empty((q, k)), np.empty(k), np.empty(m)
    squared = model_learning.learn_models(y, basis, p, 0.7, k, rows, gains, *scratch, False)
    expected_theta, expected_gain, expected = naive_step(x, y, p, 0.7, theta, gain)
    assert squared == pytest.approx(expected)
    np.testing.assert_allclose(rows, expected_theta.reshape(m * q, k), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gains, expected_gain.reshape(k, q * q).T, rtol=1e-9, atol=1e-12)


def test_one_step_of_logits():
    """The same step with twice the error of the probabilities, which are the softmax of the mixture."""
    rng, q, theta, gain = make(3, 4, 2, 3, True)
    x, y, p = rng.normal(size=2), np.array([0.0, 1.0, 0.0]), rng.dirichlet(np.ones(4))
    basis = np.r_[1.0, x]
    logits = np.einsum("i,cji,j->c", p, theta, basis)
    proba = np.exp(logits) / np.exp(logits).sum()
    rows, gains = theta.reshape(3 * q, 4).copy(), gain.reshape(4, q * q).T.copy()
    scratch = np.empty((q, 4)), np.empty(4), np.empty(3)
    squared = model_learning.learn_models(y, basis, p, 1.0, 4, rows, gains, *scratch, True)
    assert squared == pytest.approx(((y - proba) ** 2).sum())
    step = [p[i] * gain[i] @ basis / (1.0 + p[i] * basis @ gain[i] @ basis) for i in range(4)]
    expected = theta + 2.0 * np.einsum("c,ij->cji", y - proba, step)
    np.testing.assert_allclose(rows, expected.reshape(3 * q, 4), rtol=1e-9, atol=1e-12)


def test_errors_are_averaged_in_the_cells_that_share_them():
    """Of samples of weight 0.5 or more: the weighted mean of squared errors, by the shares."""
    rng = np.random.default_rng(0)
    y, scores, weight = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), rng.uniform(0.5, 2.0, 30)
    share = rng.dirichlet(np.ones(3), 30)
    seen, noise = np.zeros(3), np.zeros((2, 3))
    for t in range(30):
        model_learning.follow_noise(y[t], scores[t], share[t], weight[t], 3, seen, noise)
    own = weight[:, None] * share
    np.testing.assert_allclose(seen, own.sum(axis=0))
    np.testing.assert_allclose(noise, ((y - scores) ** 2).T @ own / own.sum(axis=0))


def test_hard_constant_models_are_means():
    """Equation 28 with the stepsize 1 / n: theta is the mean of f(x) in the cell, not of x."""
    rng = np.random.default_rng(0)
    theta, gain = np.zeros((1, 2)), np.full((1, 2), 1e9)
    y = rng.normal(size=50)
    cell = rng.integers(2, size=50)
    for target, i in zip(y, cell, strict=True):
        p = np.eye(2)[i]
        scratch = np.empty((1, 2)), np.empty(2), np.empty(1)
        model_learning.learn_models(
            np.array([target]), np.ones(1), p, 1.0, 2, theta, gain, *scratch, False
        )
    np.testing.assert_allclose(theta[0], [y[cell == 0].mean(), y[cell == 1].mean()], rtol=1e-6)


def test_the_stream_of_overlapping_cells_comes_to_joint_least_squares():
    rng = np.random.default_rng(0)
    codevectors = np.array([[-1.0], [0.0], [1.0]])
    X = rng.uniform(-1.5, 1.5, (4000, 1))
    y = np.sin(2.0 * X)
    p = np.array([shares(x, codevectors, 0.3) for x in X])
    best = np.linalg.lstsq(p, y, rcond=None)[0]
    theta, gain = np.zeros((1, 3)), np.full((1, 3), 10.0)
    for t in range(4000):
        scratch = np.empty((1, 3)), np.empty(3), np.empty(1)
        model_learning.learn_models(y[t], np.ones(1), p[t], 1.0, 3, theta, gain, *scratch, False)
    np.testing.assert_allclose(theta[0], best[:, 0], atol=0.05)
