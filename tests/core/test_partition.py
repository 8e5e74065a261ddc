"""The partitioner: what it promises of fits, streams, files and difficult data."""

import numpy as np
import pytest
from model_files import reloaded
from samples import CENTRES, blobs
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from threadpoolctl import threadpool_limits

from oda_rl import ODAPartition
from oda_rl.datasets import make_gaussians


def without_seconds(history):
    return [(*point[:4], *point[5:6], point.codevectors.tolist()) for point in history]


def test_finds_the_clusters():
    samples = blobs()
    model = ODAPartition(4, random_state=0).fit(samples)
    for centre in CENTRES:
        assert np.linalg.norm(model.codevectors_ - centre, axis=1).min() < 0.05
    np.testing.assert_allclose(model.weights_, 0.25, atol=0.01)
    np.testing.assert_allclose(model.spreads_, 0.04, rtol=0.25)
    np.testing.assert_array_equal(model.transform(samples).argmin(axis=1), model.predict(samples))
    np.testing.assert_array_equal(model.labels_, model.predict_clusters(samples))
    assert model.converged_


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
def test_the_path_is_as_good_as_k_means(bifurcation):
    samples = np.random.default_rng(0).normal(size=(1000, 2))
    model = ODAPartition(20, bifurcation=bifurcation, random_state=0).fit(samples)
    with threadpool_limits(1):
        best = {
            k: KMeans(k, n_init=10, random_state=0).fit(samples).inertia_ / len(samples)
            for k in {point.n_codevectors for point in model.history_}
        }
    ratios = [point.distortion / best[point.n_codevectors] for point in model.history_]
    assert np.median(ratios) < 1.03
    for point in model.history_:
        distance = ((samples[:, None, :] - point.codevectors[None]) ** 2).sum(axis=2).min(axis=1)
        assert point.distortion == pytest.approx(distance.mean())
        assert len(point.codevectors) == point.n_codevectors
    assert model.score(samples) == pytest.approx(-model.history_[-1].distortion, rel=1e-3)


def test_a_stream_comes_close_to_k_means():
    """Annealed, then at temperature zero, where cells that are worth little move."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(2000, 3))
    with threadpool_limits(1):
        best = KMeans(15, n_init=10, random_state=0).fit(samples).inertia_ / len(samples)
    ratios = []
    for seed in range(3):
        model = ODAPartition(15, random_state=seed)
        for _ in range(40):
            model.partial_fit(rng.permutation(samples))
        ratios.append(-model.score(samples) / best)
    assert np.median(ratios) < 1.06


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
@pytest.mark.parametrize("k_max", [1, 2, 3, 7])
def test_k_never_overshoots(bifurcation, k_max):
    samples = np.random.default_rng(0).normal(size=(400, 2))
    model = ODAPartition(k_max, bifurcation=bifurcation, random_state=0).fit(samples)
    assert model.n_codevectors_ == k_max
    assert max(point.n_codevectors for point in model.history_) == k_max


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
def test_chunks_do_not_matter(bifurcation):
    samples = np.tile(blobs(), (2 if bifurcation == "critical" else 8, 1))
    whole = ODAPartition(6, bifurcation=bifurcation, random_state=0).partial_fit(samples)
    for chunk in (1, 7, 1000):
        parts = ODAPartition(6, bifurcation=bifurcation, random_state=0)
        for start in range(0, len(samples), chunk):
            parts.partial_fit(samples[start : start + chunk])
        np.testing.assert_array_equal(whole.codevectors_, parts.codevectors_)
        np.testing.assert_array_equal(whole.weights_, parts.weights_)
        np.testing.assert_array_equal(whole.spreads_, parts.spreads_)
        assert without_seconds(whole.history_) == without_seconds(parts.history_)
        assert whole.n_samples_seen_ == parts.n_samples_seen_ == len(samples)


def test_a_stream_finds_the_clusters_and_their_variances():
    samples = np.tile(blobs(), (10, 1))
    model = ODAPartition(4, random_state=0).partial_fit(samples)
    assert model.n_codevectors_ == 4
    assert -model.score(samples) < 0.1
    np.testing.assert_allclose(np.sort(model.weights_), 0.25, atol=0.05)
    np.testing.assert_allclose(model.spreads_, 0.04, rtol=0.5)


def test_before_a_stream_has_warmed_up_there_is_its_mean():
    samples = blobs()[:30]
    model = ODAPartition(random_state=0).partial_fit(samples)
    np.testing.assert_allclose(model.codevectors_, samples.mean(axis=0)[None, :])
    assert model.temperature_ == np.inf
    assert model.history_ == []
    np.testing.assert_array_equal(model.association(samples), 1.0)


def test_annealing_goes_on_with_more_codevectors():
    samples = blobs()
    model = ODAPartition(2, random_state=0).fit(samples)
    temperature = model.temperature_
    model.set_params(max_codevectors=4)
    for _ in range(20):
        model.partial_fit(samples)
    assert model.n_codevectors_ == 4
    assert model.temperature_ < temperature


def test_stops():
    samples = blobs()
    by_temperature = ODAPartition(50, t_max=20.0, t_min=1.0, random_state=0).fit(samples)
    assert 1.0 <= by_temperature.temperature_ < 1.12
    by_distortion = ODAPartition(50, target_distortion=1.0, random_state=0).fit(samples)
    assert -by_distortion.score(samples) <= 1.0
    assert by_distortion.n_codevectors_ < 8
    by_samples = ODAPartition(50, max_samples=1500, random_state=0).fit(samples)
    assert by_samples.n_samples_seen_ == 1500
    assert not by_samples.converged_


@pytest.mark.parametrize(("schedule", "second"), [("temperature", 7.2), ("lambda", 2.571)])
def test_both_schedules(schedule, second):
    model = ODAPartition(4, t_max=9.0, t_min=0.1, schedule=schedule, cooling=0.8, random_state=0)
    assert model.fit(blobs()).history_[1].temperature == pytest.approx(second, abs=1e-3)


def test_associations():
    samples = blobs()
    model = ODAPartition(4, random_state=0).fit(samples)
    p = model.association(samples)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    expected = model.weights_ * np.exp(-model.transform(samples) / model.temperature_)
    np.testing.assert_allclose(p, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


def test_density_of_a_uniform_interval():
    samples = np.random.default_rng(0).uniform(0.0, 4.0, (4000, 1))
    model = ODAPartition(20, random_state=0).fit(samples)
    inside = np.exp(model.score_samples(np.linspace(0.1, 3.9, 200)[:, None]))
    np.testing.assert_allclose(inside.mean(), 0.25, rtol=0.05)
    np.testing.assert_allclose(np.quantile(inside, [0.1, 0.9]), 0.25, rtol=0.2)
    assert (model.score_samples([[-3.0], [7.0]]) < -100.0).all()


def test_sample_weights_move_the_mean():
    samples = np.array([[0.0], [1.0]] * 50)
    weight = np.tile([1.0, 3.0], 50)
    model = ODAPartition(1, random_state=0).fit(samples, sample_weight=weight)
    assert model.codevectors_[0, 0] == pytest.approx(0.75, abs=1e-9)
    assert model.score(samples, sample_weight=weight) == pytest.approx(-0.1875)


# -- difficult data ------------------------------------------------------------------------------


def test_poor_first_samples_are_left_behind():
    """Codevectors that begin far outside the data, as in Fig. 1d of the classification paper."""
    rng = np.random.default_rng(0)
    far = rng.normal(100.0, 1.0, (100, 2))
    model = ODAPartition(8, random_state=0).partial_fit(far)
    for _ in range(20):
        model.partial_fit(blobs())
    for centre in CENTRES:
        assert np.linalg.norm(model.codevectors_ - centre, axis=1).min() < 0.5


def test_duplicated_points():
    samples = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]], 50, axis=0)
    model = ODAPartition(10, random_state=0).fit(samples)
    assert -model.score(samples) < 1e-6
    assert np.isfinite(model.score_samples(samples)).all()


@pytest.mark.parametrize("value", [0.0, 3.7, 1e9])
def test_constant_data(value):
    samples = np.full((40, 3), value)
    for model in (ODAPartition(random_state=0).fit(samples), ODAPartition(random_state=0)):
        for _ in range(10):
            model.partial_fit(samples)
        assert model.n_codevectors_ == 1
        np.testing.assert_allclose(model.codevectors_, value)


def test_a_stream_that_is_constant_at_first():
    model = ODAPartition(4, random_state=0).partial_fit(np.zeros((1000, 2)))
    for _ in range(10):
        model.partial_fit(blobs())
    assert model.n_codevectors_ == 4
    assert model.n_samples_seen_ == 1000 + 10 * 1200


def test_constant_columns():
    samples = np.column_stack([blobs(), np.full(1200, 5.0)])
    model = ODAPartition(4, random_state=0).fit(samples)
    np.testing.assert_allclose(model.codevectors_[:, 2], 5.0)
    assert -model.score(samples) < 0.1


def test_one_sample():
    for model in (ODAPartition().fit([[1.0, 2.0]]), ODAPartition().partial_fit([[1.0, 2.0]])):
        np.testing.assert_array_equal(model.codevectors_, [[1.0, 2.0]])
        assert model.predict([[0.0, 0.0]])[0] == 0


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scales(scale):
    samples = blobs()
    plain = ODAPartition(6, random_state=0).fit(samples)
    scaled = ODAPartition(6, random_state=0).fit(scale * samples)
    np.testing.assert_allclose(scaled.codevectors_, scale * plain.codevectors_, rtol=1e-3)


def test_outliers_get_cells_of_their_own():
    samples = np.concatenate([blobs(), [[60.0, 60.0]]])
    model = ODAPartition(8, random_state=0).fit(samples)
    assert np.linalg.norm(model.codevectors_ - 60.0, axis=1).min() < 1e-6


def test_many_samples_in_large_chunks():
    rng = np.random.default_rng(0)
    model = ODAPartition(16, random_state=0)
    for _ in range(4):
        model.partial_fit(rng.uniform(size=(50_000, 2)))
    assert model.n_samples_seen_ == 200_000
    assert model.n_codevectors_ == 16
    assert -model.score(rng.uniform(size=(10_000, 2))) < 1.1 / (6 * 16)


def test_data_are_never_changed():
    samples = np.asfortranarray(np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 300))
    samples[:5, 0] = 0.0
    before = samples.copy()
    samples.flags.writeable = False
    ODAPartition(5, divergence="kl", random_state=0).fit(samples).partial_fit(samples)
    np.testing.assert_array_equal(samples, before)


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito"])
def test_positive_divergences(divergence):
    samples = np.exp(np.random.default_rng(0).normal(size=(500, 4)))
    model = ODAPartition(12, divergence=divergence, random_state=0).fit(samples)
    assert model.n_codevectors_ == 12
    assert (model.codevectors_ > 0.0).all()
    assert model.history_[-1].distortion < 0.4 * model.history_[0].distortion


def test_outside_the_domain():
    samples = np.ones((20, 3))
    samples[4, 1] = -2.0
    with pytest.raises(ValueError, match=r"X is outside the domain of.*'kl'.*column 1 is -2.0 in row 4"):
        ODAPartition(divergence="kl").fit(samples)
    samples[4, 1] = 0.0
    with pytest.raises(ValueError, match=r"column 1 is 0.0 in row 4; it must be greater than 0"):
        ODAPartition(divergence="itakura_saito").partial_fit(samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t_max": 1.0, "t_min": 2.0}, "t_min must be at most t_max"),
        ({"divergence": "l1"}, "divergence must be one of"),
        ({"stepsize": (0.5, 1.0)}, "a must be finite and at least 1"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        ODAPartition(**options).fit(blobs())


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
@pytest.mark.parametrize("n", [40, 900, 9000])
def test_a_stream_goes_on_from_its_file(bifurcation, n):
    samples = np.tile(blobs(), (20, 1))
    model = ODAPartition(6, bifurcation=bifurcation, random_state=0).partial_fit(samples[:n])
    again = reloaded(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(samples), model.predict(samples))
    assert without_seconds(again.history_) == without_seconds(model.history_)
    for one in (model, again):
        one.partial_fit(samples[n:])
    np.testing.assert_array_equal(again.codevectors_, model.codevectors_)
    assert without_seconds(again.history_) == without_seconds(model.history_)


def test_names_of_the_columns():
    assert ODAPartition(2).fit(blobs()).get_feature_names_out().tolist() == [
        "odapartition0",
        "odapartition1",
    ]


def test_what_users_of_k_means_look_for():
    X = make_gaussians(300, seed=1)[0]
    model = ODAPartition(max_codevectors=6, random_state=0).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, model.codevectors_)
    assert model.inertia_ == pytest.approx(-300 * model.score(X))
    again = model.inverse_transform(model.transform(X))
    np.testing.assert_array_equal(again, model.codevectors_[model.predict(X)])
    with pytest.raises(ValueError, match="each of 6 codevectors"):
        model.inverse_transform(X)
    model.partial_fit(X)
    assert not hasattr(model, "inertia_")


def test_cells_at_any_temperature_of_the_path():
    X = make_gaussians(300, seed=1)[0]
    model = ODAPartition(max_codevectors=6, random_state=0).fit(X)
    for point in model.history_:
        nearest = ((X[:, None] - point.codevectors) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_array_equal(model.predict_at(X, point.temperature), nearest)
    for wrong in (1e6, -1.0, np.nan):
        with pytest.raises(ValueError, match=f"temperature must be from 0 to .*got {wrong}"):
            model.predict_at(X, wrong)


@pytest.mark.parametrize("chunk", [1, 10, 1000])
def test_a_stream_is_annealed_within_two_thousand_samples(chunk):
    """Six blobs with eight codevectors, as k-means has them when it has seen all samples."""
    samples = make_blobs(2000, centers=6, cluster_std=0.6, random_state=3)[0]
    model = ODAPartition(8, random_state=0)
    for start in range(0, 2000, chunk):
        model.partial_fit(samples[start : start + chunk])
    assert model.converged_
    assert model.n_samples_seen_ == 2000
    best = KMeans(8, n_init=5, random_state=0).fit(samples).inertia_ / 2000
    assert -model.score(samples) < 1.3 * best
    whole = ODAPartition(8, random_state=0).partial_fit(samples)
    np.testing.assert_allclose(model.codevectors_, whole.codevectors_)
    path = [point.n_samples_seen for point in model.history_]
    assert path[-1] <= 10 * 2000


@pytest.mark.parametrize(("divergence", "n"), [("squared_euclidean", 6), ("kl", 6), ("kl", 20)])
def test_a_file_of_no_more_samples_than_cells_is_read(divergence, n, tmp_path):
    for seed in range(100, 104):
        samples = np.exp(np.random.default_rng(seed).normal(size=(n, 3)))
        model = ODAPartition(60, divergence=divergence, random_state=0).fit(samples)
        assert model.inertia_ >= 0.0
        again = ODAPartition.load(model.save(tmp_path / "model"))
        np.testing.assert_array_equal(again.predict(samples), model.predict(samples))


# -- a stream after a fit --------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"scale": "standard"}])
def test_one_sample_after_a_fit_hardly_changes_what_it_has_found(options):
    """Weights, variances and stepsizes of the stream are those of the samples of the fit."""
    X = np.random.default_rng(100).normal(size=(2000, 2)) * [1.0, 3.0]
    model = ODAPartition(20, random_state=0, **options).fit(X)
    weights, spreads, codevectors = model.weights_, model.spreads_, model.codevectors_
    model.partial_fit(X[:1])
    np.testing.assert_allclose(model.weights_, weights, atol=0.002)
    np.testing.assert_allclose(model.spreads_, spreads, rtol=0.1)
    np.testing.assert_allclose(model.codevectors_, codevectors, atol=0.05)


@pytest.mark.parametrize(("d", "k"), [(1, 8), (2, 20), (10, 8)])
def test_a_stream_like_the_samples_of_a_fit_does_not_make_it_worse(d, k):
    """Neither by large steps nor by moving cells to where nothing is gained."""
    before, after = 0.0, np.zeros(3)
    for seed in (100, 101, 102):
        rng = np.random.default_rng(seed)
        X, stream, new = (rng.normal(size=(n, d)) for n in (2000, 600, 4000))
        model = ODAPartition(k, random_state=seed).fit(X)
        before -= model.score(new)
        after -= [model.partial_fit(part).score(new) for part in np.split(stream, 3)]
        assert not model.drifts_
    assert (after < 1.01 * before).all()


@pytest.mark.parametrize("divergence", ["squared_euclidean", "kl"])
def test_a_fit_goes_on_from_its_file(divergence):
    X = np.exp(np.random.default_rng(0).normal(size=(600, 2)))
    model = ODAPartition(60, divergence=divergence, random_state=0).fit(X[:300])
    again = reloaded(model)
    for one in (model, again):
        one.partial_fit(X[300:])
    np.testing.assert_array_equal(again.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(again.predict_clusters(X), model.predict_clusters(X))


def test_one_sample_after_a_fit_does_not_change_the_number_of_clusters_on_the_path():
    X = np.exp(np.random.default_rng(3).normal(size=(300, 2)))
    model = ODAPartition(100, divergence="kl", random_state=1).fit(X)
    found = model.n_clusters_
    assert model.partial_fit(X[:1]).n_clusters_ == found <= np.sqrt(len(X) / 2)
