"""The papers' algorithms as they are printed, beside a transcript of their lines."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import recall_score

from oda_rl import Codebook
from oda_rl.codebook.learning import Pace
from oda_rl.codebook.literal import learn_as_printed
from oda_rl.datasets import make_gaussians
from oda_rl.papers import LiteralClassifier, LiteralRegressor

A, B, TEMPERATURE, RATE, POWER = 1.0, 0.3, 0.7, 0.1, 0.6


def transcript(mu, rho, label, theta, samples, labels, outputs, over_all, linear):
    """The lines of Algorithms 1 to 4, with sigma_f from sigma_f, f(x) p averaged, and n from 1 on."""
    sigma, sigma_f = mu * rho[:, None], theta[:, :1] * rho[:, None]
    for n, (x, c, y) in enumerate(zip(samples, labels, outputs, strict=True), start=1):
        d = ((x - mu) ** 2).sum(axis=1)
        if linear:
            i, phi = d.argmin(), np.r_[1.0, x]
            gradient = 2.0 * (theta[i] @ phi - y) * phi
            theta[i] = theta[i] - RATE / n**POWER * gradient
        s = (label == c).astype(float)
        p = rho * np.exp(-d / TEMPERATURE)
        p = p / (p.sum() if over_all else (s * p).sum())
        alpha = 1.0 / (A + B * n)
        rho = rho + alpha * (s * p - rho)
        sigma = sigma + alpha * (s * p)[:, None] * x - alpha * sigma
        sigma_f = sigma_f + alpha * ((s * p)[:, None] * y - sigma_f)
        mu = sigma / rho[:, None]
        if not linear:
            theta = sigma_f / rho[:, None]
    return mu, rho, theta


@pytest.mark.parametrize(
    ("classes", "over_all", "linear"),
    [(1, True, False), (1, True, True), (2, True, False), (2, False, False)],
)
def test_updates_are_those_that_are_printed(classes, over_all, linear):
    rng = np.random.default_rng(0)
    samples, outputs = rng.normal(size=(300, 2)), rng.normal(size=(300, 1))
    labels, label = rng.integers(0, classes, 300), np.arange(6) % classes
    mu, rho = rng.normal(size=(6, 2)), rng.dirichlet(np.ones(6))
    theta = rng.normal(size=(6, 3 if linear else 1))
    book = Codebook(2, {"theta": (theta.shape[1], "mean")})
    for place, weight, own in zip(mu, rho, label, strict=True):
        book.add(place, weight, int(own))
    book["theta"][:] = theta.T
    pace = Pace(TEMPERATURE, A, B, 0, 10**6, 0.0, 10**6, np.inf)
    reference, own = book.location.copy(), book.payload[book.rows("theta")]
    rate = RATE if linear else 0.0
    used, n, distortion, finished = learn_as_printed(
        *(book.divergence.kind, samples, labels, outputs, pace, over_all),
        *(rate, POWER, 1, 0.0, book.arrays, 6, reference, own),
    )
    assert (used, n, finished) == (300, 301, False)
    assert 0.0 < distortion < 10.0
    wanted = transcript(mu, rho, label, theta, samples, labels, outputs, over_all, linear)
    for found, right in zip((book.codevectors, book.weights, own[:, :6].T), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-8)


def test_classes_compete_where_the_association_is_normalised_over_all_codevectors():
    """A class of one sample in sixteen, amid another, is lost as printed, and found by itself."""
    samples, labels = make_blobs(
        [1500, 100], centers=[[0, 0], [0.8, 0]], cluster_std=0.5, random_state=0
    )
    weight, recall = {}, {}
    for association in ("all", "class"):
        model = LiteralClassifier(40, association=association, random_state=0).fit(samples, labels)
        rare = model.codevector_labels_ == 1
        weight[association] = model.weights_[rare].sum()
        recall[association] = recall_score(labels, model.predict(samples))
    assert weight["class"] == pytest.approx(1 / 16, rel=0.5)
    assert weight["all"] < 0.5 * weight["class"]
    assert recall["all"] < recall["class"]


def test_classes_in_several_places_lose_some_as_printed_and_none_by_themselves():
    samples, component = make_gaussians(600, scale=0.05)
    labels, score = component % 2, {}
    for association in ("all", "class"):
        model = LiteralClassifier(40, association=association, random_state=0).fit(samples, labels)
        score[association] = model.score(samples, labels)
    assert score["class"] > 0.95 > score["all"]
    assert np.all(np.diff([point.temperature for point in model.history_]) < 0.0)


@pytest.mark.parametrize(("local_model", "least"), [("constant", 0.95), ("linear", 0.98)])
def test_functions(local_model, least):
    X = np.random.default_rng(0).uniform(0.0, 6.0, (1500, 1))
    y = np.sin(2.0 * X[:, 0])
    model = LiteralRegressor(40, local_model=local_model, random_state=0).fit(X, y)
    assert model.score(X, y) > least
    assert model.n_codevectors_ == len(model.codevectors_) <= 40
    cell = np.abs(X - model.codevectors_.T).argmin(axis=1)
    if local_model == "constant":  # piecewise
        np.testing.assert_allclose(model.predict(X), model.values_[cell])


def test_what_is_not_accepted_is_refused_by_name():
    X, y = np.zeros((10, 1)), np.arange(10) % 2
    with pytest.raises(ValueError, match="association"):
        LiteralClassifier(association="none").fit(X, y)
    with pytest.raises(ValueError, match="power"):
        LiteralRegressor(power=-1.0).fit(X, y)
