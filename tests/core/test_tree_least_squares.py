"""Local models of a tree from sums of products, against least squares over the samples themselves."""

import numpy as np
import pytest

from oda_rl.estimators.tree import kernels, least_squares
from oda_rl.estimators.tree.least_squares import fit_models


def summed(inputs, outputs, weight, at, k):
    """Tallies of k cells from samples (n, d) and outputs (n, m), and the basis of the models."""
    basis = np.column_stack([np.ones(len(inputs)), inputs])
    q, m = basis.shape[1], outputs.shape[1]
    tally = np.zeros((k, q * q + q * m + m))
    kernels.add_products(basis, outputs, weight, at, tally)
    return tally, basis


def naive_model(inputs, outputs, weight, pseudo, above):
    """Augmented least squares: the slopes above are `pseudo` further samples of average spread."""
    mean, level = (np.average(some, axis=0, weights=weight) for some in (inputs, outputs))
    d, mass, centred = inputs.shape[1], weight.sum(), inputs - mean
    strength = pseudo * (weight @ centred**2).sum() / (d * mass) + 1e-12 * mass
    root = np.sqrt(weight)[:, None]
    design = np.vstack([root * centred, np.sqrt(strength) * np.eye(d)])
    target = np.vstack([root * (outputs - level), np.sqrt(strength) * above[1:]])
    slopes = np.linalg.lstsq(design, target, rcond=None)[0]
    return np.vstack([level - mean @ slopes, slopes])


@pytest.mark.parametrize("block", [1, 1_000_000])
@pytest.mark.parametrize("ridge", [None, 0.0, 2.5])
@pytest.mark.parametrize("shrunk", [True, False])
def test_models_of_all_cells_at_once_are_those_of_each(monkeypatch, block, ridge, shrunk):
    monkeypatch.setattr(least_squares, "BLOCK", block)
    rng, k, d, m = np.random.default_rng(0), 5, 3, 2
    inputs, outputs = rng.normal(size=(200, d)), rng.normal(size=(200, m))
    weight, at = rng.uniform(0.5, 2.0, 200), rng.integers(k, size=200)
    outputs += 2.0 * inputs[:, :m] * at[:, None]
    tally, basis = summed(inputs, outputs, weight, at, k)
    above = rng.normal(size=(k, 1 + d, m)) if shrunk else np.zeros((k, 1 + d, m))
    theta, loss = fit_models(tally, 1 + d, m, ridge, above if shrunk else None)
    for i in range(k):
        own, pseudo = at == i, 1.0 + d if ridge is None else ridge
        expected = naive_model(inputs[own], outputs[own], weight[own], pseudo, above[i])
        np.testing.assert_allclose(theta[i], expected, atol=1e-8)
        residuals = outputs[own] - basis[own] @ theta[i]
        assert loss[i] == pytest.approx(weight[own] @ (residuals**2).sum(axis=1))


def test_constant_models_are_means_and_empty_cells_have_none():
    outputs, at = np.array([[1.0], [3.0], [10.0]]), np.array([0, 0, 2])
    tally = np.zeros((3, 1 + 1 + 1))
    kernels.add_products(np.ones((3, 1)), outputs, np.ones(3), at, tally)
    theta, loss = fit_models(tally, 1, 1, None, None)
    np.testing.assert_allclose(theta.ravel(), [2.0, 0.0, 10.0])
    np.testing.assert_allclose(loss, [2.0, 0.0, 0.0], atol=1e-12)
