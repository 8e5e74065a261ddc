"""Functional gradients, matching pursuit and adaptation against NumPy with direct solves."""

import numpy as np
import pytest
from scipy.special import softmax

from oda_rl import KernelSGDClassifier, KernelSGDRegressor
from oda_rl.datasets import make_multidist
from oda_rl.rkhs.dictionary import DEPENDENT, Dictionary, factorise, rebuild
from oda_rl.rkhs.functional_sgd import FIRST_STATE, HINGE, SQUARED
from oda_rl.rkhs.hyperparameters import Rules
from oda_rl.rkhs.machine import KernelMachine


def kernel(a, b, d):
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * d**2))


def slope_of(loss, f, y):
    if loss == "hinge":
        others = np.where(np.arange(len(f)) == y, -np.inf, f)
        r = others.argmax()
        slope = np.zeros_like(f)
        if 1 + f[r] - f[y] > 0:
            slope[r], slope[y] = 1, -1
        return slope
    if loss == "logistic":
        return softmax(f) - np.eye(len(f))[y]
    error = f - y
    return np.clip(error, -0.3, 0.3) if loss == "huber" else error


def norm2(D, W, d):
    return np.trace(W.T @ kernel(D, D, d) @ W)


def komp(D, W, d, budget):
    """Destructive matching pursuit as it is defined: the error is always that against the whole."""
    keep = list(range(len(D)))
    best = W
    while keep:
        tries = []
        for j in keep:
            rest = [k for k in keep if k != j]
            w = np.linalg.solve(kernel(D[rest], D[rest], d), kernel(D[rest], D, d) @ W)
            both = np.vstack([W, -w])
            tries.append((norm2(np.vstack([D, D[rest]]), both, d), j, w))
        error, j, w = min(tries, key=lambda t: t[0])
        if error > budget**2:
            break
        keep.remove(j)
        best = w
    return D[keep], best


def twin(loss, X, Y, n_outputs, d, eta, lam, batch, K, weight, halving):
    D, W = np.empty((0, X.shape[1])), np.empty((0, n_outputs))
    for t in range(0, len(X), batch):
        x, y, w = X[t : t + batch], Y[t : t + batch], weight[t : t + batch]
        rate = eta / (1 + t / halving)
        slopes = np.array([slope_of(loss, f, c) for f, c in zip(kernel(x, D, d) @ W, y, strict=True)])
        W = (1 - rate * lam * len(x) / batch) * W
        new = np.any(slopes != 0, axis=1)
        D = np.vstack([D, x[new]])
        length = rate / batch * w
        if loss in ("squared", "huber"):  # not beyond the target
            length = np.where(w > 1.0, np.minimum(length, max(rate / batch, 1.0)), length)
        W = np.vstack([W, (-length[:, None] * slopes)[new]])
        D, W = komp(D, W, d, K * (rate * min(1.0, w.mean())) ** 1.5)
    return D, W


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "huber"])
def test_twin(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(72, 2))
    weight = rng.uniform(0.5, 2.0, 72)
    options = {
        "bandwidth": 0.8,
        "adapt": (),
        "stepsize": 4.0,
        "stepsize_halving": 100.0,
        "regularization": 0.01,
        "batch_size": 8,
        "parsimony": 0.04,
        "average": False,
    }
    if loss in ("hinge", "logistic"):
        y = (np.hypot(*X.T) * 1.5).astype(int).clip(0, 2)
        model = KernelSGDClassifier(loss, **options).partial_fit(X, y, [0, 1, 2], weight)
        Y, n = y, 3
    else:
        Y, n = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]), 2
        model = KernelSGDRegressor(loss, huber_width=0.3, **options)
        model.partial_fit(X, Y, weight)
    before = weight.cumsum()[:-1] / np.arange(1, 72)
    weight = np.append(1.0, weight[1:] / before)  # relative to the mean of those before
    D, W = twin(loss, X, Y, n, 0.8, 4.0, 0.01, 8, 0.04, weight, 100.0)
    assert 3 < len(D) < 60
    assert model.n_points_ == len(D)
    probe = rng.normal(size=(50, 2))
    mine = model.predict(probe) if n == 2 else model.decision_function(probe)
    np.testing.assert_allclose(mine, kernel(probe, D, 0.8) @ W, atol=1e-8)


def log_likelihood(x, past, d):
    """Of one sample under a Gaussian kernel density estimate of past ones, up to a constant."""
    return np.log(kernel(x[None], past, d).mean()) - len(x) * np.log(d)


class Chain:
    """A hyperparameter that moves, as Algorithm 1 has it: eqs. 7 and 8, slowly."""

    def __init__(self, given, ratio, reach, rate, limit=np.inf):
        half = int(np.ceil(np.log(reach) / np.log(ratio)))
        values = given * ratio ** np.arange(-half, half + 1.0)
        self.values = np.minimum(values, max(limit, given))
        self.state, self.rate, self.half_step = half, rate, 0.5 * np.log(ratio)
        self.fitness, self.size, self.n = 0.0, 0.0, 0

    @property
    def value(self):
        return self.values[self.state]

    def credit(self, fitness, size):
        self.n += 1
        rate = max(self.rate, 1 / self.n)
        self.fitness = (1 - rate) * self.fitness + rate * fitness
        self.size = (1 - rate) * self.size + rate * size

    def move(self, draw, probability, newton):
        # By Newton's method the best value is fitness / size away, in log; by the loss only signs count.
        least = self.half_step * max(self.size, 0.0) if newton else 0.1 * self.size
        if self.n == 0 or abs(self.fitness) <= least:
            return
        way = np.sign(self.fitness) * (1 if draw < probability else -1)
        before = self.value
        self.state = int(np.clip(self.state + way, 0, len(self.values) - 1))
        if self.value != before:
            self.n //= 2
            if newton:
                self.fitness -= max(self.size, 0.0) * np.log(self.value / before)


def add_points(D, W, x, steps, d):
    """Add samples as points one after the other; one that the others span is expressed by them."""
    for point, step in zip(x, steps, strict=True):
        row = kernel(point[None], D, d)[0]
        span = np.linalg.solve(kernel(D, D, d), row)
        if 1.0 - row @ span < DEPENDENT:
            W = W + np.outer(span, step)
        else:
            D, W = np.vstack([D, point]), np.vstack([W, step])
    return D, W


def adaptive_twin(x, y, rules, draws):
    """BARRETTE with the squared loss; returns the points, the weights and the values that it took."""
    reach, rate, batch = rules.reach, rules.fitness_rate, rules.batch_size
    eta = Chain(rules.stepsize, rules.ratio, reach, rate, 0.25 / (rules.parsimony**2 * batch))
    largest = eta.values[-1] if "stepsize" in rules.adapt else eta.value
    lam = Chain(rules.regularization, rules.ratio, reach, rate, 0.5 / largest)
    width = Chain(rules.bandwidth, rules.ratio, reach, rate)
    newton = rules.fitness == "likelihood"
    D, W, path, since = np.empty((0, x.shape[1])), np.empty((0, y.shape[1])), [], 0
    last, steps = D, W
    for k, t in enumerate(range(0, len(x), batch)):
        d, n = width.value, len(x[t : t + batch])
        slopes = []
        for i in range(t, t + n):
            f = (kernel(x[i : i + 1], D, d) @ W)[0]
            slopes.append(f - y[i])
            shrinking = eta.value * lam.value * f
            if newton and i % 4 == 0 and i >= 16:
                past, h = x[max(i - rules.window, 0) : i], 1e-3
                low, mid, high = (log_likelihood(x[i], past, d * np.exp(e)) for e in (-h, 0, h))
                p = x.shape[1]
                width.credit((high - low) / (2 * h * p), -(high - 2 * mid + low) / (h * h * p))
            if k == 0:
                continue
            if not newton:
                h = 1e-5
                wide, slim = (kernel(x[i : i + 1], D, d * np.exp(e)) @ W - y[i] for e in (h, -h))
                gain = -0.5 * ((wide**2).sum() - (slim**2).sum()) / (2 * h)
                width.credit(gain, abs(gain))
            moving = (kernel(x[i : i + 1], last, d) @ steps)[0]
            for chain, change in ((eta, moving - shrinking), (lam, -shrinking)):
                gain = -slopes[-1] @ change
                chain.credit(gain, abs(gain))
        used = eta.value
        last, steps = x[t : t + n], -used / batch * np.array(slopes)
        D, W = add_points(D, (1 - used * lam.value * n / batch) * W, last, steps, d)
        D, W = komp(D, W, d, rules.parsimony * used**1.5)
        since += n
        if since >= max(32, rules.slowing * (t + n)):
            since = 0
            chains = {"bandwidth": width, "stepsize": eta, "regularization": lam}
            for draw, (name, chain) in zip(draws[k], chains.items(), strict=True):
                if name in rules.adapt:
                    chain.move(draw, rules.move_probability, newton and chain is width)
            if rules.transfer == "project" and width.value != d:
                W = np.linalg.solve(kernel(D, D, width.value), kernel(D, D, d) @ W)
        path.append([width.value, eta.value, lam.value])
    return D, W, np.array(path)


@pytest.mark.parametrize(
    ("fitness", "transfer", "adapt"),
    [
        ("likelihood", "keep", ("bandwidth",)),
        ("likelihood", "keep", ("bandwidth", "stepsize", "regularization")),
        ("loss", "project", ("bandwidth", "stepsize", "regularization")),
    ],
)
def test_twin_of_the_adaptation(fitness, transfer, adapt):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(330, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] ** 2])
    rules = Rules(
        SQUARED,
        bandwidth=2.0,
        stepsize=2.0,
        regularization=0.02,
        batch_size=8,
        parsimony=0.1,
        adapt=adapt,
        fitness=fitness,
        transfer=transfer,
        reach=3.0,
        slowing=0.0,
        window=100,
        fitness_rate=0.02,
    )
    machine = KernelMachine(2, 2, rules, np.random.default_rng(5))
    machine.learn(x, y, np.ones(len(x)))
    machine.finish()
    draws = np.random.default_rng(5).random((len(machine.records), 3))
    D, W, path = adaptive_twin(x, y, rules, draws)
    assert all(len(set(column)) > 2 for column in path.T[: len(adapt)])
    np.testing.assert_allclose(machine.records[:, FIRST_STATE:], path, rtol=1e-12)
    assert 5 < len(D) == machine.n_points
    probe = rng.normal(size=(50, 2))
    np.testing.assert_allclose(machine(probe), kernel(probe, D, path[-1, 0]) @ W, atol=1e-6)


def test_the_average_is_that_of_the_functions():
    x, y, probe, _ = make_multidist(160, 20)
    last = KernelSGDClassifier(adapt=(), average=False, parsimony=0.0, bandwidth=0.3)
    mean = KernelSGDClassifier(adapt=(), average=True, parsimony=0.0, bandwidth=0.3)
    functions = []
    for t in range(0, 160, 16):
        last.partial_fit(x[t : t + 16], y[t : t + 16], classes=range(5))
        functions.append(last.decision_function(probe))
    mean.partial_fit(x, y, classes=range(5))
    average = functions[0]
    for k, function in enumerate(functions[1:], 2):
        average = average + 4 / (3 + k) * (function - average)
    np.testing.assert_allclose(mean.decision_function(probe), average, atol=1e-8)


def test_a_dictionary_of_coinciding_points():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (600, 2)) * 0.5 + 1e-9 * rng.integers(0, 3, (600, 2))
    y = (2 * x[:, 0] + 2 * x[:, 1]).astype(int) % 2
    model = KernelSGDClassifier(bandwidth=0.4, parsimony=0.0, random_state=0).fit(x, y)
    assert model.n_points_ <= 16
    assert model.score(x, y) == 1.0
    assert np.abs(model.dual_coef_).max() < 100


def test_rebuilding_for_another_bandwidth():
    x, y, *_ = make_multidist(800, seed=3)
    rules = Rules(kind=HINGE, bandwidth=0.4, stepsize=6.0, regularization=1e-6)
    for project in (False, True):
        machine = KernelMachine(2, 5, rules, np.random.default_rng(0))
        machine.learn(x, y[:, None].astype(float), np.ones(800))
        points, weights, values = machine.points, machine.weights, machine(machine.points)
        rebuild(machine.dictionary, 0.4, 0.3, project)
        n = machine.n_points
        inverse = machine.dictionary.inverse[:n, :n]
        np.testing.assert_allclose(kernel(points, points, 0.3) @ inverse, np.eye(n), atol=1e-6)
        if project:
            np.testing.assert_allclose(kernel(points, points, 0.3) @ machine.weights, values, atol=1e-6)
        else:
            np.testing.assert_allclose(machine.weights, weights)


def test_a_wrong_inverse_is_found_and_mended():
    x, y, *_ = make_multidist(2400, seed=3)
    rules = Rules(kind=HINGE, bandwidth=0.4, stepsize=6.0, regularization=1e-6)
    machine = KernelMachine(2, 5, rules, np.random.default_rng(0))
    machine.learn(x[:800], y[:800, None].astype(float), np.ones(800))
    machine.dictionary.inverse[:] *= 1.01
    machine.learn(x[800:], y[800:, None].astype(float), np.ones(1600))
    n = machine.n_points
    product = kernel(machine.points, machine.points, 0.4) @ machine.dictionary.inverse[:n, :n]
    np.testing.assert_allclose(product, np.eye(n), atol=1e-4)


def test_factorising():
    """The inverse becomes that of NumPy; coinciding points are joined, and the function stays."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 1.0, (12, 1)), axis=0)
    x = x[rng.permutation(np.repeat(np.arange(12), [1, 2] * 6))]
    machine = KernelMachine(1, 2, Rules(SQUARED, 0.1, 1.0, 0.0), rng)
    weights, probe = rng.normal(size=(18, 2)), rng.uniform(0.0, 1.0, (50, 1))
    machine.dictionary = Dictionary.of(64, x.T.copy(), weights, rng.normal(size=(18, 18)))
    values = machine(probe)
    factorise(machine.dictionary, 0.1)
    n = machine.n_points
    assert n == len(np.unique(machine.points)) <= 12
    np.testing.assert_allclose(machine(probe), values, atol=0.01)
    gram = kernel(machine.points, machine.points, 0.1)
    found = machine.dictionary.inverse[:n, :n]
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(gram @ found, np.eye(n), atol=1e-8)


@pytest.mark.parametrize("seed", [100, 101, 105])
@pytest.mark.parametrize("parsimony", [0.0, 1e-4])
@pytest.mark.parametrize("adapt", [(), ("bandwidth",)])
def test_the_inverse_stays_right_if_hardly_any_point_is_dropped(parsimony, adapt, seed):
    """New points make earlier ones almost dependent on the others."""
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.normal(size=(3000, 1)), axis=0)
    y = np.sin(x / 5.0)
    rules = Rules(SQUARED, 3.0, 0.5, 1e-6, batch_size=4, parsimony=parsimony, adapt=adapt)
    machine = KernelMachine(1, 1, rules, rng)
    for t in range(0, 3000, 20):
        machine.learn(x[t : t + 20], y[t : t + 20], np.ones(20))
        n = machine.n_points
        gram = kernel(machine.points, machine.points, machine.value_of("bandwidth"))
        np.testing.assert_allclose(gram @ machine.dictionary.inverse[:n, :n], np.eye(n), atol=0.002)
    assert np.abs(machine(x[-500:]) - y[-500:]).mean() < 0.1
