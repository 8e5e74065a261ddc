"""Slow, obvious twins of the compiled kernels, written from the papers' equations."""

import numpy as np


def divergence(name, x, mu):
    if name == "squared_euclidean":
        return float(np.sum((x - mu) ** 2))
    terms = [
        xi * (np.log(xi) - np.log(mi)) - (xi - mi) if xi > 0 else mi
        for xi, mi in zip(x, mu, strict=True)
    ]
    return float(np.sum(terms))


def associations(name, x, codevectors, weights, labels, label, temperature):
    """Equation 13, restricted to the cells of one label."""
    p = np.array(
        [
            weight * np.exp(-divergence(name, x, mu) / temperature) if own == label else 0.0
            for mu, weight, own in zip(codevectors, weights, labels, strict=True)
        ]
    )
    return p / p.sum()


def learning_rule(x, p, stepsize, codevectors, weights):
    """Equation 12: rho and sigma by stochastic approximation, mu as their ratio."""
    sigma = codevectors * weights[:, None]
    rho = weights + stepsize * (p - weights)
    sigma = sigma + stepsize * (x[None, :] * p[:, None] - sigma)
    return sigma / rho[:, None], rho
