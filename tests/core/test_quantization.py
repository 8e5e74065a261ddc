"""The baselines: stochastic vector quantization and batch deterministic annealing."""

import io

import numpy as np
import pytest

from oda_rl.quantization import DeterministicAnnealing, StochasticVQ

CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])


def blobs(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.permutation(np.concatenate([rng.normal(c, 0.2, (n, 2)) for c in CENTRES]))


def worst_miss(codevectors):
    return max(np.linalg.norm(codevectors - c, axis=1).min() for c in CENTRES)


def test_stochastic_vq_finds_the_clusters_from_a_fair_start():
    model = StochasticVQ(3, init=CENTRES + 0.8, random_state=0).fit(blobs())
    assert worst_miss(model.codevectors_) < 0.05
    assert model.history_[-1].distortion < model.history_[0].distortion
    assert model.n_samples_seen_ == 600 * len(model.history_)


def test_stochastic_vq_depends_on_its_start():
    """A codevector far outside the data never moves: what annealing is for."""
    init = np.array([[2.0, 1.0], [1e3, 1e3], [-1e3, 1e3]])
    model = StochasticVQ(3, init=init, random_state=0).fit(blobs())
    np.testing.assert_array_equal(model.codevectors_[1:], init[1:])


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_stream_in_chunks(chunk):
    samples = blobs()
    whole = StochasticVQ(5).partial_fit(samples)
    parts = StochasticVQ(5)
    for start in range(0, len(samples), chunk):
        parts.partial_fit(samples[start : start + chunk])
    np.testing.assert_array_equal(whole.codevectors_, parts.codevectors_)
    np.testing.assert_array_equal(whole.weights_, parts.weights_)


def test_a_stream_starts_from_given_codevectors():
    model = StochasticVQ(3, init=CENTRES).partial_fit(blobs()[:1])
    assert model.n_codevectors_ == 3
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": [[0.0, 0.0]]}, r"init must have shape \(8, 2\), got \(1, 2\)"),
        ({"stepsize": (0.1, 1.0)}, "a must be finite and at least 1"),
    ],
)
def test_bad_parameters_of_stochastic_vq(options, message):
    with pytest.raises(ValueError, match=message):
        StochasticVQ(**options).fit(blobs())


def test_batch_annealing_finds_the_clusters():
    model = DeterministicAnnealing(3).fit(blobs())
    assert worst_miss(model.codevectors_) < 0.05
    temperatures = [point.temperature for point in model.history_]
    np.testing.assert_allclose(np.divide(temperatures[1:], temperatures[:-1]), 0.9)
    counts = [point.n_codevectors for point in model.history_]
    assert counts[0] == 1
    assert max(counts) == 3


def test_batch_annealing_splits_at_the_critical_temperature():
    samples = np.repeat([[-1.0], [1.0]], 20, axis=0)
    model = DeterministicAnnealing(2, t_max=3.0, t_min=1.0, cooling=0.98, max_iter=2000).fit(samples)
    first = next(point for point in model.history_ if point.n_codevectors == 2)
    assert first.temperature == pytest.approx(2.0, rel=0.03)
    # Below it the pair is where tanh says: m = tanh(2 m / T)
    last = model.history_[-1]
    m = np.abs(last.codevectors).mean()
    assert m == pytest.approx(np.tanh(2 * m / last.temperature), abs=1e-3)


def test_batch_annealing_of_weighted_samples_is_that_of_repeated_ones():
    samples, weight = blobs()[:60], np.arange(60) % 3 + 1
    weighted = DeterministicAnnealing(4).fit(samples, sample_weight=weight)
    repeated = DeterministicAnnealing(4).fit(np.repeat(samples, weight, axis=0))
    np.testing.assert_allclose(weighted.codevectors_, repeated.codevectors_, rtol=1e-6)


@pytest.mark.parametrize("kind", [DeterministicAnnealing, StochasticVQ])
def test_the_inertia_is_a_sum_over_weights(kind):
    samples, weight = blobs()[:60], np.arange(60) % 3 + 1
    options = {"random_state": 0} if kind is StochasticVQ else {}
    models = [kind(4, **options).fit(samples, sample_weight=w) for w in (weight, 1000 * weight)]
    closest = models[0].transform(samples).min(axis=1)
    np.testing.assert_allclose([m.inertia_ for m in models], [weight @ closest, 1000 * weight @ closest])
    np.testing.assert_allclose(models[0].weights_, models[1].weights_)


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito"])
def test_batch_annealing_of_positive_data(divergence):
    samples = np.exp(np.random.default_rng(0).normal(size=(200, 3)))
    model = DeterministicAnnealing(6, divergence=divergence).fit(samples)
    assert model.n_codevectors_ == 6
    assert (model.codevectors_ > 0.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t_max": 1.0, "t_min": 2.0}, "t_min must be at most t_max"),
    ],
)
def test_bad_parameters_of_batch_annealing(options, message):
    with pytest.raises(ValueError, match=message):
        DeterministicAnnealing(**options).fit(blobs())


@pytest.mark.parametrize("model", [StochasticVQ(3, random_state=0), DeterministicAnnealing(3)])
def test_files_hold_what_was_learned(model):
    samples, file = blobs(), io.BytesIO()
    model.fit(samples).save(file)
    file.seek(0)
    loaded = type(model).load(file)
    np.testing.assert_array_equal(loaded.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(loaded.predict(samples), model.predict(samples))
    assert loaded.n_codevectors_ == model.n_codevectors_
    assert len(loaded.history_) == len(model.history_)
    assert loaded.history_[-1].distortion == model.history_[-1].distortion
    if hasattr(model, "partial_fit"):
        again = loaded.partial_fit(samples[:50]).codevectors_
        np.testing.assert_array_equal(again, model.partial_fit(samples[:50]).codevectors_)
