import pickle
from copy import deepcopy

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oda_rl import Codebook

PAYLOAD = {"q": (2, "mean"), "visits": (1, "count")}


def make_codebook(k=5, d=2, seed=0, capacity=2):
    rng = np.random.default_rng(seed)
    book = Codebook(d, payload=PAYLOAD, capacity=capacity)
    for weight in rng.dirichlet(np.ones(k)):
        book.add(rng.normal(size=d), weight)
    book["q"][:] = rng.normal(size=(2, k))
    book["visits"][:] = rng.integers(1, 50, size=(1, k))
    return book


def test_room_is_made_and_nothing_is_lost():
    book = make_codebook(k=9, capacity=1)
    assert len(book) == 9
    assert book.capacity >= 9
    same = make_codebook(k=9, capacity=64)
    np.testing.assert_array_equal(book.codevectors, same.codevectors)
    np.testing.assert_array_equal(book["q"], same["q"])


def test_split_children_inherit_values_and_share_counts():
    book = make_codebook()
    before = book.get_state()
    new = book.split(1, [0.5, -0.25])
    assert new == 5
    np.testing.assert_allclose(book.codevectors[1], before["location"][:, 1] + [0.5, -0.25])
    np.testing.assert_allclose(book.codevectors[new], before["location"][:, 1] - [0.5, -0.25])
    for child in (1, new):
        np.testing.assert_array_equal(book["q"][:, child], before["payload"][:2, 1])
        assert book["visits"][0, child] == before["payload"][2, 1] / 2
        assert book.weights[child] == before["weight"][1] / 2


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), events=st.lists(st.integers(0, 3), max_size=12))
def test_events_conserve_mass_counts_and_the_mean(seed, events):
    """Whatever splits and merges happen, the total weight, counts and centre of mass stay."""
    book = make_codebook(seed=seed)
    rng = np.random.default_rng(seed)

    def invariants():
        w = book.weights
        return [w.sum(), *(w @ book.codevectors), *(book["q"] @ w), book["visits"].sum()]

    before = invariants()
    for event in events:
        i = int(rng.integers(len(book)))
        if event == 0 and len(book) > 1:
            book.merge(i, (i + 1) % len(book))
        else:
            book.split(i, rng.normal(size=2))
    np.testing.assert_allclose(invariants(), before, rtol=1e-9, atol=1e-9)


def test_merge_of_what_was_split_restores_the_cell():
    book = make_codebook()
    before = book.get_state()
    book.merge(2, book.split(2, [0.1, 0.2]))
    after = book.get_state()
    for name in ("location", "weight", "payload"):
        np.testing.assert_allclose(after[name], before[name], atol=1e-12)


def test_remove_moves_the_last_cell_to_the_gap():
    book = make_codebook()
    last = book.codevectors[-1]
    book.remove(0)
    assert len(book) == 4
    np.testing.assert_array_equal(book.codevectors[0], last)


def test_merge_close_keeps_labels_apart():
    book = Codebook(1)
    for x, label in ((0.0, 0), (0.01, 0), (0.005, 1), (3.0, 0)):
        book.add([x], 0.25, label)
    assert book.merge_close(0.1) == 1
    assert sorted(book.labels) == [0, 0, 1]
    np.testing.assert_allclose(sorted(book.codevectors[book.labels == 0].ravel()), [0.005, 3.0])


def test_prune_keeps_one_cell_of_each_label_and_the_total_weight():
    book = Codebook(1)
    for weight, label in ((0.9, 0), (1e-6, 0), (1e-7, 1), (1e-8, 1)):
        book.add([0.0], weight, label)
    assert book.prune_idle(1e-3) == 2
    assert sorted(book.labels) == [0, 1]
    assert book.weights.sum() == pytest.approx(1.0)


def test_kl_splits_stay_positive():
    book = Codebook(2, divergence="kl")
    book.add([0.1, 5.0])
    book.split(0, [3.0, -3.0])
    assert (book.codevectors > 0).all()


def test_state_round_trip():
    book = make_codebook()
    other = Codebook(2, payload=PAYLOAD)
    other.set_state(book.get_state())
    for name, array in book.get_state().items():
        np.testing.assert_array_equal(other.get_state()[name], array)


def test_state_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="'location' does not fit"):
        Codebook(3, payload=PAYLOAD).set_state(make_codebook().get_state())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: b.add([1.0]), ValueError, r"shape \(2,\), got \(1,\)"),
        (lambda b: b.add([np.nan, 0.0]), ValueError, "location contains NaN"),
        (lambda b: b.split(99, [0.0, 0.0]), IndexError, "no cell 99"),
        (lambda b: b.merge(1, 1), ValueError, "itself"),
        (lambda b: b["nothing"], KeyError, "no field 'nothing'"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(make_codebook())


def test_reorder_takes_everything_along():
    book = make_codebook(k=5)
    book.label[:5] = np.arange(5)
    before = book.get_state()
    order = np.array([3, 1, 4, 0, 2])
    book.reorder(order)
    for name, array in book.get_state().items():
        np.testing.assert_array_equal(array, before[name][..., order])
    with pytest.raises(ValueError, match=r"permutation of range\(5\)"):
        book.reorder(np.array([0, 0, 1, 2, 3]))


def test_copies_of_a_codebook_hold_every_array_once(tmp_path):
    book = Codebook(2, {"q": (1, "mean")})
    book.add([1.0, 2.0])
    joblib.dump(book, tmp_path / "book")
    for copy in (joblib.load(tmp_path / "book"), pickle.loads(pickle.dumps(book)), deepcopy(book)):
        copy.location[0, 0] = 5.0
        copy["q"][:] = 3.0
        assert copy.arrays.location[0, 0] == 5.0
        assert copy.arrays.payload[0, 0] == 3.0
        assert book.location[0, 0] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda book: Codebook(2.0), "n_features must be an integer, got 2.0"),
        (lambda book: Codebook(True), "n_features must be an integer, got True"),
        (lambda book: Codebook(2, capacity=np.inf), "capacity must be an integer, got inf"),
        (
            lambda book: book.add([0.0, 0.0], weight=np.nan),
            "weight must be a non-negative and finite number",
        ),
        (lambda book: book.add([0.0, 0.0], label=0.5), "label must be an integer, got 0.5"),
        (lambda book: book.split(0, [np.nan, 0.0]), "offset must be 2 finite numbers"),
        (
            lambda book: book.merge_close("near"),
            "tolerance must be a non-negative and finite number, got 'near'",
        ),
        (
            lambda book: book.merge_ineffective(-1.0),
            "temperature must be a non-negative and finite number",
        ),
        (lambda book: book.prune_idle(np.nan), "min_weight must be a non-negative and finite number"),
        (
            lambda book: book.split_critical(None, 4, 0.1),
            "temperature must be a non-negative and finite number",
        ),
    ],
)
def test_arguments_are_named(change, message):
    book = Codebook(2)
    book.add([0.0, 0.0])
    with pytest.raises(ValueError, match=message):
        change(book)
    assert len(book) == 1
    with pytest.raises(IndexError, match=r"no cell 0\.5"):
        book.remove(0.5)


def test_thresholds_may_be_whole_numbers():
    book = Codebook(2)
    for place in ([0.0, 0.0], [1.0, 0.0]):
        book.add(place)
    assert book.prune_idle(0) == book.merge_close(0) == 0
    assert book.merge_close(10**30) == 1
