import numpy as np
import pytest

from oda_rl import Annealer, Codebook, Cooling, ODAPartition
from oda_rl.codebook import bifurcation


def make_annealer(samples, **options):
    book = Codebook(samples.shape[1], divergence=options.pop("divergence", "squared_euclidean"))
    book.add(samples.mean(axis=0))
    t_max = options.pop(
        "t_max", 2.5 * np.linalg.eigvalsh(np.cov(samples.T).reshape(book.n_features, -1))[-1]
    )
    return Annealer(book, t_max=t_max, t_min=options.pop("t_min", t_max * 1e-3), seed=0, **options)


def anneal(annealer, samples, seed=0):
    rng = np.random.default_rng(seed)
    while not annealer.done:
        annealer.observe(samples[rng.permutation(len(samples))])
    return annealer.codebook


def blobs(centres, n=400, scale=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(c, scale, (n, len(c))) for c in centres])


CENTRES = [(0.0, 0.0), (4.0, 0.0), (0.0, 3.0), (4.0, 4.0)]


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
def test_finds_the_clusters(bifurcation):
    samples = blobs(CENTRES)
    annealer = make_annealer(samples, bifurcation=bifurcation, t_min=0.5, check_every=200)
    book = anneal(annealer, samples)
    assert len(book) == 4
    for centre in CENTRES:
        nearest = np.linalg.norm(book.codevectors - centre, axis=1).min()
        assert nearest < 0.1
    np.testing.assert_allclose(book.weights, 0.25, atol=0.03)


@pytest.mark.parametrize("d", [1, 2, 10, 64])
def test_two_points_split_near_the_critical_temperature(d):
    """Two equal point masses at distance 2: T_c = 2, in any dimension (Theorem 5)."""
    samples = np.zeros((2, d))
    samples[:, 0] = [-1.0, 1.0]
    annealer = make_annealer(
        samples,
        t_max=3.0,
        max_codevectors=2,
        cooling=Cooling(0.97),
        tol_merge=0.01,
        max_samples=2000,
    )
    anneal(annealer, np.tile(samples, (500, 1)))
    last = annealer.history[-1]
    assert last.n_codevectors == 2
    assert 1.8 < last.temperature < 2.06


def test_one_codevector_above_the_critical_temperature():
    samples = blobs(CENTRES)
    annealer = make_annealer(samples, t_max=40.0, t_min=20.0, check_every=2000, max_samples=2000)
    book = anneal(annealer, samples)
    assert len(book) == 1
    np.testing.assert_allclose(book.codevectors[0], samples.mean(axis=0), atol=0.2)


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
@pytest.mark.parametrize("k_max", [1, 3, 7])
def test_k_max_is_not_exceeded(bifurcation, k_max):
    samples = np.random.default_rng(0).normal(size=(500, 2))
    annealer = make_annealer(samples, bifurcation=bifurcation, max_codevectors=k_max)
    book = anneal(annealer, samples)
    assert len(book) <= k_max
    assert max(level.n_codevectors for level in annealer.history) <= k_max
    assert book.weights.sum() == pytest.approx(1.0)


def test_poor_first_codevector_is_forgotten():
    samples = blobs(CENTRES)
    book = Codebook(2)
    book.add([1e4, -1e4])
    annealer = Annealer(book, t_max=30.0, t_min=0.01, max_codevectors=4, seed=0)
    anneal(annealer, samples)
    assert np.abs(book.codevectors).max() < 5.0


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunks_do_not_matter(chunk):
    samples = blobs(CENTRES)
    samples = samples[np.random.default_rng(1).integers(len(samples), size=4000)]
    whole, parts = make_annealer(samples), make_annealer(samples)
    whole.observe(samples)
    for start in range(0, len(samples), chunk):
        parts.observe(samples[start : start + chunk])
    assert whole.history == parts.history
    np.testing.assert_array_equal(whole.codebook.codevectors, parts.codebook.codevectors)


def test_labels_keep_to_their_own_cells():
    left, right = blobs([(0.0, 0.0)]), blobs([(5.0, 0.0)])
    book = Codebook(2)
    book.add([2.5, 0.0], 0.5, label=0)
    book.add([2.5, 0.0], 0.5, label=1)
    annealer = Annealer(book, t_max=10.0, t_min=9.0, check_every=400, seed=0)
    order = np.random.default_rng(0).permutation(800)
    samples = np.concatenate([left, right])[order]
    annealer.observe(np.tile(samples, (3, 1)), np.tile((order >= 400).astype(np.int64), 3))
    np.testing.assert_allclose(book.codevectors[book.labels == 0], [[0.0, 0.0]], atol=0.1)
    np.testing.assert_allclose(book.codevectors[book.labels == 1], [[5.0, 0.0]], atol=0.1)


def test_kl_stays_in_its_domain():
    samples = np.random.default_rng(0).dirichlet([0.3, 0.3, 0.3], size=500)
    annealer = make_annealer(samples, divergence="kl", t_max=3.0, max_codevectors=8)
    book = anneal(annealer, samples)
    assert len(book) > 3
    assert (book.codevectors > 0).all()
    # phi'' moves with the mean, so that a split leaves the simplex in the second order; cells forget it
    # like everything they begin with, as one over their samples.
    np.testing.assert_allclose(book.codevectors.sum(axis=1), 1.0, atol=1e-5)


def test_state_resumes_exactly():
    samples = blobs(CENTRES)
    samples = samples[np.random.default_rng(1).integers(len(samples), size=6000)]
    first = make_annealer(samples, bifurcation="perturb")
    first.observe(samples[:2500])
    second = make_annealer(samples, bifurcation="perturb")
    second.codebook.set_state(first.codebook.get_state())
    second.set_state(first.get_state())
    first.observe(samples[2500:])
    second.observe(samples[2500:])
    assert first.history == second.history
    np.testing.assert_array_equal(first.codebook.codevectors, second.codebook.codevectors)


def test_samples_are_not_changed():
    samples = blobs(CENTRES)
    samples.flags.writeable = False
    annealer = make_annealer(samples)
    annealer.observe(samples)
    assert annealer.n_samples_seen == len(samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t_min": 9.0, "t_max": 1.0}, "t_min <= t_max"),
        ({"bifurcation": "chance"}, "bifurcation must be one of"),
        ({"tol_merge": -1.0}, "tol_merge"),
        ({"perturbation": 0.0}, "perturbation"),
        ({"max_codevectors": 0}, "max_codevectors"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        make_annealer(blobs(CENTRES), **options)


def test_empty_codebook():
    with pytest.raises(ValueError, match="at least one cell"):
        Annealer(Codebook(2), t_max=1.0, t_min=0.1)


def transcript(samples, first, directions, temperatures, length, delta, tolerance, lightest):
    """Algorithm 1 of the paper, line by line; checks every `length` samples per cell."""
    mu, p, path, seen = first.copy(), np.full(len(first), 1.0 / len(first)), [], 0
    for t, temperature in enumerate(temperatures):
        if t > 0:
            step = delta * np.sqrt(temperatures[t - 1] / 2.0) * directions[t - 1]
            mu, p = np.concatenate([mu + step, mu - step]), np.concatenate([p, p]) / 2.0
        sigma = mu * p[:, None]
        for n in range(1, 2 * length * len(mu)):
            x, seen = samples[seen], seen + 1
            share = p * np.exp(-np.sum((x - mu) ** 2, axis=1) / temperature)
            share, a = share / share.sum(), 1.0 / (1.0 + n)
            p = p + a * (share - p)
            sigma = sigma + a * (x * share[:, None] - sigma)
            mu = sigma / p[:, None]
        i = 0
        while i < len(mu) - 1:  # effective codevectors; what is discarded leaves its weight behind
            distance = np.sum((mu[i + 1 :] - mu[i]) ** 2, axis=1)
            k = i + 1 + int(distance.argmin())
            if distance.min() >= tolerance * temperature:
                i += 1
                continue
            mu[i] = (p[i] * mu[i] + p[k] * mu[k]) / (p[i] + p[k])
            p[i] += p[k]
            mu[k], p[k] = mu[-1], p[-1]
            mu, p = mu[:-1], p[:-1]
        mu, p = mu[p >= lightest], p[p >= lightest]
        p = p / p.sum()
        path.append(mu)
    return path


def test_the_literal_algorithm_is_that_of_the_paper():
    """Twins with noise, eq. 12 and 13, merged by distance: against the paper's own lines."""
    rng = np.random.default_rng(3)
    samples = rng.permutation(np.concatenate([rng.normal(m, 0.3, (2000, 2)) for m in (-2.0, 0.0, 2.0)]))
    first = np.array([[-1.0, 0.0], [1.0, 0.5]])
    book = Codebook(2)
    for place in first:
        book.add(place, 0.5)
    annealer = Annealer(
        book,
        **{"t_max": 30.0, "t_min": 1.0, "bifurcation": "literal", "cooling": Cooling(0.6), "seed": 5},
        **{"tol_merge": 0.02, "tol_converge": 0.0, "check_every": 100, "max_samples": 100},
    )
    found = []
    annealer.at_level_end = lambda: found.append(book.codevectors) is not None
    annealer.observe(np.tile(samples, (2, 1)), until_done=True)
    draws = np.random.default_rng(5)
    bifurcation.seed_axes(Codebook(2), draws)
    bifurcation.random_directions(2, 2, draws)
    directions = [bifurcation.random_directions(len(mu), 2, draws) for mu in found]
    temperatures = [level.temperature for level in annealer.history]
    path = transcript(
        np.tile(samples, (2, 1)), first, directions, temperatures, 100, 0.1, 0.02, annealer.min_weight
    )
    assert [len(mu) for mu in found] == [len(mu) for mu in path]
    assert len(path[-1]) >= 3
    for ours, theirs in zip(found, path, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_beginning_with_given_codevectors():
    samples = np.random.default_rng(0).normal(size=(400, 2))
    stream = ODAPartition(
        4, init=[[-1.0, 0.0], [1.0, 0.0]], scale=[1.0, 2.0], t_max=0.5, t_min=0.4, n_warmup=1
    ).partial_fit(samples[:2])
    assert stream.n_codevectors_ == 2
    for wrong in ([[1.0]], np.zeros((5, 2)), [1.0, 2.0]):
        with pytest.raises(ValueError, match="init must have shape"):
            ODAPartition(4, init=wrong).fit(samples)


def one_cell():
    book = Codebook(2)
    book.add([0.0, 0.0])
    return book


def test_what_is_observed_need_not_be_arrays_of_the_right_kind():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(300, 2)).astype(np.float32)
    books = one_cell(), one_cell()
    Annealer(books[0], 10.0, 1.0, seed=0).observe(samples.astype(np.float64))
    Annealer(books[1], 10.0, 1.0, seed=0).observe(samples.tolist(), [0] * 300, np.ones(300, dtype=int))
    np.testing.assert_array_equal(books[0].codevectors, books[1].codevectors)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"samples": np.zeros((5, 3))}, r"samples must have 2 features, got shape \(5, 3\)"),
        ({"samples": np.zeros(5)}, r"samples must have 2 dimensions, got shape \(5,\)"),
        ({"samples": [["a", "b"]]}, "samples must be an array of numbers"),
        ({"labels": np.zeros(3, dtype=int)}, "labels must have one entry for each of 5 samples, got 3"),
        ({"labels": np.full(5, 0.5)}, "labels must be an array of integers"),
        (
            {"sample_weight": np.ones(4)},
            "sample_weight must have one entry for each of 5 samples, got 4",
        ),
    ],
)
def test_what_cannot_be_observed_is_named(told, message):
    with pytest.raises(ValueError, match=message):
        Annealer(one_cell(), 10.0, 1.0).observe(**({"samples": np.zeros((5, 2))} | told))


def test_schedules_are_schedules():
    for wrong in ({"cooling": 0.9}, {"stepsize": (1.0, 1.0)}):
        with pytest.raises(ValueError, match="cooling must be a Cooling and stepsize a Stepsize"):
            Annealer(one_cell(), 10.0, 1.0, **wrong)
