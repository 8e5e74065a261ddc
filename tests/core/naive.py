"""Slow, obvious twins of the compiled kernels, written from the papers' equations."""

import numpy as np


def divergence(name, x, mu):
    if name == "squared_euclidean":
        return float(np.sum((x - mu) ** 2))
    if name == "itakura_saito":
        return float(np.sum(x / mu - np.log(x / mu) - 1))
    terms = [
        xi * (np.log(xi) - np.log(mi)) - (xi - mi) if xi > 0 else mi
        for xi, mi in zip(x, mu, strict=True)
    ]
    return float(np.sum(terms))


def associations(name, x, codevectors, weights, labels, label, temperature):
    """Equation 13, restricted to the cells of one label."""
    distance = np.array([divergence(name, x, mu) for mu in codevectors])
    distance[labels != label] = np.inf
    p = weights * np.exp(-(distance - distance.min()) / temperature)
    return p / p.sum()


def learning_rule(x, p, stepsize, codevectors, weights):
    """Equation 12: rho and sigma by stochastic approximation, mu as their ratio."""
    sigma = codevectors * weights[:, None]
    rho = weights + stepsize * (p - weights)
    sigma = sigma + stepsize * (x[None, :] * p[:, None] - sigma)
    return sigma / rho[:, None], rho


def cells(name, samples, codevectors):
    """The nearest codevector of every sample, its divergence and the second smallest."""
    table = np.array([[divergence(name, x, mu) for mu in codevectors] for x in samples])
    ordered = np.sort(table, axis=1)
    second = ordered[:, 1] if len(codevectors) > 1 else np.full(len(samples), np.inf)
    return table.argmin(axis=1), ordered[:, 0], second


def vector_quantization(samples, codevectors, a, b):
    """Definition 1 of the classification paper, with a stepsize per codevector."""
    codevectors = codevectors.copy()
    moved = np.zeros(len(codevectors))
    for x in samples:
        h = int(np.sum((codevectors - x) ** 2, axis=1).argmin())
        codevectors[h] += (x - codevectors[h]) / (a + b * moved[h])
        moved[h] += 1
    return codevectors, moved


def shares(x, codevectors, temperature):
    """Equation 6."""
    distance = ((codevectors - x) ** 2).sum(axis=1)
    p = np.exp(-(distance - distance.min()) / temperature)
    return p / p.sum()


def mixture(x, p, theta):
    """sum_i p_i f_i(x), with theta of shape (n_outputs, n_basis, n_cells)."""
    basis = np.r_[1.0, x] if theta.shape[1] > 1 else np.ones(1)
    return np.array([p @ (basis @ theta[c]) for c in range(len(theta))])
