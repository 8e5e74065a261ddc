"""Learning vector quantization: the estimator, and its kernels against slow twins."""

import naive
import numpy as np
import pytest
from model_files import reloaded
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from oda_rl.codebook.divergences import get_divergence
from oda_rl.estimators.classification import fine_tuning as kernels
from oda_rl.quantization import LVQ


def naive_lvq1(samples, labels, codevectors, own):
    codevectors, count = codevectors.copy(), np.zeros(len(codevectors))
    for x, c in zip(samples, labels, strict=True):
        i = ((codevectors - x) ** 2).sum(axis=1).argmin()
        step = min(0.5, 1 / (kernels.OFFSET + count[i])) * (1 if own[i] == c else -1)
        codevectors[i] += step * (x - codevectors[i])
        count[i] += 1
    return codevectors


def naive_glvq(samples, labels, step, codevectors, own):
    """Gradient of the sigmoid of (d+ - d-) / (d+ + d-), from finite differences."""
    codevectors, typical = codevectors.copy(), 0.0

    def cost(plus, minus, x):
        near, far = (np.sum((x - mu) ** 2) for mu in (plus, minus))
        return 1 / (1 + np.exp(-kernels.STEEPNESS * (near - far) / (near + far)))

    def gradient(f, at):
        ends = [(at + 1e-6 * unit, at - 1e-6 * unit) for unit in np.eye(len(at))]
        return np.array([(f(up) - f(down)) / 2e-6 for up, down in ends])

    for n, (x, c) in enumerate(zip(samples, labels, strict=True)):
        distance = ((x - codevectors) ** 2).sum(axis=1)
        i = np.where(own == c, distance, np.inf).argmin()
        k = np.where(own != c, distance, np.inf).argmin()
        typical += (distance[i] + distance[k] - typical) / (n + 1)
        plus, minus = codevectors[i].copy(), codevectors[k].copy()
        # The slope of the sigmoid and of the squares: the steepness and 4 are part of the stepsize.
        unit = step * typical / kernels.STEEPNESS
        codevectors[i] -= unit * gradient(lambda at, x=x, minus=minus: cost(at, minus, x), plus)
        codevectors[k] -= unit * gradient(lambda at, x=x, plus=plus: cost(plus, at, x), minus)
    return codevectors


def naive_soft_lvq(name, samples, labels, weight, temperature, repel_only, codevectors, mass, own):
    """Equation 31: every codevector goes down d^l, which is d for its own class and -d for others."""
    codevectors, count, every = codevectors.copy(), np.zeros(len(codevectors)), np.zeros(len(own))
    for x, c, w in zip(samples, labels, weight, strict=True):
        p = naive.associations(name, x, codevectors, mass, every, 0, temperature)
        sign = np.where(own == c, 1.0, -1.0)
        moves = (p >= kernels.LEAST_SHARE) & ~(repel_only & (own == c))
        step = np.minimum(0.5, w * p / (kernels.OFFSET + count)) * sign * moves
        moved = codevectors + step[:, None] * (x - codevectors)
        inside = moved > (-np.inf if name == "squared_euclidean" else 0.0)
        codevectors = np.where(inside, moved, codevectors)
        count += w * p * (moves & (own == c))
    return codevectors, count


def problem(d=3, n=40, seed=0):
    rng = np.random.default_rng(seed)
    samples, labels = rng.normal(size=(n, d)), rng.integers(0, 2, n)
    return samples, labels, rng.normal(size=(4, d)), np.array([0, 0, 1, 1])


def test_lvq1_is_its_definition():
    samples, labels, codevectors, own = problem()
    location = np.ascontiguousarray(codevectors.T)
    kernels.lvq1(0, -np.inf, samples, labels, np.ones(40), location, own, np.zeros(4))
    np.testing.assert_allclose(location.T, naive_lvq1(samples, labels, codevectors, own))


def test_glvq_goes_down_its_cost():
    samples, labels, codevectors, own = problem()
    location = np.ascontiguousarray(codevectors.T)
    kernels.glvq(0, samples, labels, np.ones(40), 0.02, location, own)
    expected = naive_glvq(samples, labels, 0.02, codevectors, own)
    np.testing.assert_allclose(location.T, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["squared_euclidean", "kl"])
@pytest.mark.parametrize("repel_only", [False, True])
@pytest.mark.parametrize("temperature", [3.0, 0.2])
def test_annealed_lvq_is_equation_31(name, repel_only, temperature):
    samples, labels, codevectors, own = problem(seed=1)
    if name == "kl":
        samples, codevectors = np.abs(samples) + 0.1, np.abs(codevectors) + 0.1
    rng = np.random.default_rng(2)
    weight, mass = rng.uniform(0.5, 2.0, len(samples)), rng.dirichlet(np.ones(4))
    metric = get_divergence(name)
    location, count = np.ascontiguousarray(codevectors.T), np.zeros(4)
    kernels.soft_lvq(
        metric.kind,
        metric.minimum,
        samples,
        labels,
        weight,
        temperature,
        repel_only,
        location,
        mass,
        own,
        count,
    )
    expected, moved_by = naive_soft_lvq(
        name, samples, labels, weight, temperature, repel_only, codevectors, mass, own
    )
    assert not np.allclose(expected, codevectors)
    np.testing.assert_allclose(location.T, expected, rtol=1e-9)
    np.testing.assert_allclose(count, moved_by, rtol=1e-9)


@pytest.mark.parametrize("variant", ["lvq1", "glvq"])
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


def test_features_of_other_units_count_for_as_much():
    X, y = load_iris(return_X_y=True)
    units = np.array([1e9, 1e-9, 1.0, 1e3])
    plain = LVQ(3, scale="standard", random_state=0).fit(X, y)
    for scale in ("auto", X.std(axis=0) * units):
        model = LVQ(3, scale=scale, random_state=0).fit(X * units, y)
        np.testing.assert_allclose(model.codevectors_, plain.codevectors_ * units, rtol=1e-6)
        assert model.score(X * units, y) > 0.93
    stream = LVQ(3, scale=X.std(axis=0) * units, random_state=0)
    for part in np.array_split(np.random.default_rng(0).permutation(len(X)), 7):
        stream.partial_fit(X[part] * units, y[part])
    assert stream.score(X * units, y) > 0.9
    with pytest.warns(UserWarning, match="feature 0 has a standard deviation of .*, and feature 1"):
        LVQ(3, random_state=0).partial_fit(X * units, y)


def test_it_depends_on_its_start():
    """Codevectors far outside never move: what annealing is for."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0.0, 0.3, (50, 2)), rng.normal(3.0, 0.3, (50, 2))])
    y = np.repeat([0, 1], 50)
    init = [[40.0, 40.0], [50.0, 50.0], [60.0, 60.0]]
    model = LVQ(init=init, init_labels=[0, 1, 1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.codevectors_[1:], init[1:])


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_given_codevectors_may_have_classes_without_samples(way):
    init, X = [[0.0], [1.0], [10.0]], [[0.1], [9.0], [9.5]]
    model = LVQ(init=init, init_labels=["b", "a", "c"], random_state=0)
    getattr(model, way)(X, ["b", "c", "c"])
    assert model.predict([[0.0], [1.0], [9.6]]).tolist() == ["b", "a", "c"]
    assert model.codevectors_[1] == 1.0


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("names", [["a", "b", "c"], [0, 1, 2]])
def test_a_file_holds_given_codevectors_and_their_classes(kind, names):
    X, y = load_iris(return_X_y=True)
    classes = np.array(names)[y]
    model = LVQ(init=X[::50], init_labels=kind(names), random_state=0).fit(X, classes)
    read = reloaded(model)
    assert list(read.init_labels) == names
    for m in (model, read):
        m.partial_fit(X, classes)
    np.testing.assert_array_equal(read.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize("variant", ["lvq1", "glvq"])
def test_a_file_goes_on_where_it_was(variant):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = LVQ(2, variant=variant, random_state=0).fit(X, names)
    read = reloaded(model)
    for m in (model, read):
        m.partial_fit(X, names)
    np.testing.assert_array_equal(read.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "glvq", "divergence": "kl"}, "needs divergence='squared_euclidean', got 'kl'"),
        ({"init": [[0.0]]}, "init_labels must be given"),
        ({"init": [[0.0], [1.0]], "init_labels": [0, "b"]}, "init_labels must be a list of only"),
        ({"init": [[0.0], [1.0]], "init_labels": ["a", "b"]}, "classes must be only numbers or only"),
    ],
)
def test_errors_name_the_parameter(options, message):
    with pytest.raises(ValueError, match=message):
        LVQ(**options).fit([[0.0], [1.0]], [0, 1])
