"""Learning vector quantization: the estimator, and its kernels against slow twins."""

import io

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from oda_rl.estimators import lvq_kernels
from oda_rl.estimators.quantization import LVQ


def naive_lvq1(samples, labels, a, b, codevectors, own):
    codevectors, count = codevectors.copy(), np.zeros(len(codevectors))
    for x, c in zip(samples, labels, strict=True):
        i = ((codevectors - x) ** 2).sum(axis=1).argmin()
        step = min(0.5, 1 / (a + b * count[i])) * (1 if own[i] == c else -1)
        codevectors[i] += step * (x - codevectors[i])
        count[i] += 1
    return codevectors


def naive_gmlvq(samples, labels, step, steepness, step_omega, omega, codevectors, own, diagonal):
    """Gradient of the sigmoid of (d+ - d-) / (d+ + d-), from finite differences."""
    codevectors, omega = codevectors.copy(), omega.copy()
    d, typical = samples.shape[1], 0.0

    def cost(om, plus, minus, x):
        near, far = (np.sum((om @ (x - mu)) ** 2) for mu in (plus, minus))
        return 1 / (1 + np.exp(-steepness * (near - far) / (near + far)))

    def gradient(f, at):
        result = np.zeros_like(at)
        for index in np.ndindex(at.shape):
            up, down = at.copy(), at.copy()
            up[index] += 1e-6
            down[index] -= 1e-6
            result[index] = (f(up) - f(down)) / 2e-6
        return result

    def gradients(om, plus, minus, x):
        return (
            gradient(lambda at: cost(om, at, minus, x), plus),
            gradient(lambda at: cost(om, plus, at, x), minus),
            gradient(lambda at: cost(at, plus, minus, x), om),
        )

    for n, (x, c) in enumerate(zip(samples, labels, strict=True)):
        distance = (((x - codevectors) @ omega.T) ** 2).sum(axis=1)
        i = np.where(own == c, distance, np.inf).argmin()
        k = np.where(own != c, distance, np.inf).argmin()
        typical += (distance[i] + distance[k] - typical) / (n + 1)
        toward, away, turn = gradients(omega, codevectors[i].copy(), codevectors[k].copy(), x)
        # The slope of the sigmoid and of the squares: `steepness` and 4 are part of the stepsize.
        codevectors[i] -= step * typical / steepness * toward
        codevectors[k] -= step * typical / steepness * away
        if not diagonal:
            omega -= step_omega * d / steepness * turn
            omega *= np.sqrt(d / (omega**2).sum())
    return codevectors, omega


def problem(d=3, n=40, seed=0):
    rng = np.random.default_rng(seed)
    samples, labels = rng.normal(size=(n, d)), rng.integers(0, 2, n)
    return samples, labels, rng.normal(size=(4, d)), np.array([0, 0, 1, 1])


def test_lvq1_is_its_definition():
    samples, labels, codevectors, own = problem()
    location = np.ascontiguousarray(codevectors.T)
    lvq_kernels.lvq1(
        0, samples, labels, np.ones(40), 5.0, 1.0, -np.inf, location, own, np.zeros(4), np.empty((3, 4))
    )
    np.testing.assert_allclose(location.T, naive_lvq1(samples, labels, 5, 1, codevectors, own))


@pytest.mark.parametrize("full", [False, True])
def test_glvq_and_gmlvq_go_down_their_cost(full):
    samples, labels, codevectors, own = problem()
    omega = np.eye(3)
    location, scratch = np.ascontiguousarray(codevectors.T), np.empty((3, 4))
    part = samples, labels, np.ones(40)
    expected = naive_gmlvq(samples, labels, 0.02, 2.0, 0.01, omega, codevectors, own, not full)
    if full:
        lvq_kernels.gmlvq(*part, 0.02, 2.0, 0.01, omega, location, own, scratch)
    else:
        lvq_kernels.glvq(*part, 0.02, 2.0, 0.0, np.ones(3), location, own, scratch)
    np.testing.assert_allclose(location.T, expected[0], atol=1e-6)
    np.testing.assert_allclose(omega, expected[1], atol=1e-6)


@pytest.mark.parametrize("variant", ["lvq1", "glvq", "grlvq", "gmlvq"])
def test_iris(variant):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LVQ(3, variant=variant, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.93
    stream = LVQ(3, variant=variant)
    order = np.random.default_rng(0).permutation(np.tile(np.arange(150), 5))
    for i in order:
        stream.partial_fit(X[i : i + 1], y[i : i + 1])
    assert stream.score(X, y) > 0.88
    assert stream.n_samples_seen_ == 750


@pytest.mark.parametrize("variant", ["grlvq", "gmlvq"])
def test_noise_is_found_irrelevant(variant):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 4))
    X[:, 1] += 3.0 * y
    model = LVQ(2, variant=variant, random_state=0).fit(X, y)
    assert model.relevances_.argmax() == 1
    assert model.relevances_[1] > 0.35


def test_it_depends_on_its_start():
    """Codevectors far outside never move: what annealing is for."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0.0, 0.3, (50, 2)), rng.normal(3.0, 0.3, (50, 2))])
    y = np.repeat([0, 1], 50)
    init = [[40.0, 40.0], [50.0, 50.0], [60.0, 60.0]]
    model = LVQ(init=init, init_labels=[0, 1, 1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.codevectors_[1:], init[1:])


@pytest.mark.parametrize("variant", ["lvq1", "gmlvq"])
def test_a_file_goes_on_where_it_was(variant):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = LVQ(2, variant=variant, random_state=0).fit(X, names)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    read = LVQ.load(file)
    for m in (model, read):
        m.partial_fit(X, names)
    np.testing.assert_array_equal(read.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "lvq9"}, "variant must be one of"),
        ({"variant": "glvq", "divergence": "kl"}, "needs divergence='squared_euclidean', got 'kl'"),
        ({"init": [[0.0]]}, "init_labels must be given"),
        ({"n_codevectors": 0}, "n_codevectors must be at least 1"),
    ],
)
def test_errors_name_the_parameter(options, message):
    with pytest.raises(ValueError, match=message):
        LVQ(**options).fit([[0.0], [1.0]], [0, 1])
