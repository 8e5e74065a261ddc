"""Numbers that stay with cells: through splits, merges, pruning, files, and however a stream is cut."""

import numpy as np
import pytest

from oda_rl import Codebook, ODAPartition
from oda_rl.codebook.identities import FIELD, Birth, Identities


def make(limit=8, k=1):
    book = Codebook(1, payload=FIELD)
    for i in range(k):
        book.add([10.0 * i])
    identities = Identities(limit)
    identities.restart(book)
    return book, identities


def where(book, identities):
    """Where the cell of every number is."""
    return dict(zip(identities.of(book).tolist(), book.codevectors.ravel().tolist(), strict=True))


def test_a_split_keeps_one_number_and_gives_a_new_one():
    book, identities = make(k=2)
    book.split(0, [1.0])
    assert identities.of(book).tolist() == [0, 1, 0]  # not numbered yet: it counts as its parent
    identities.update(book)
    assert where(book, identities) == {0: 1.0, 1: 10.0, 2: -1.0}
    assert identities.births == [Birth(2, 0)]


def test_the_heavier_of_two_that_merge_keeps_its_number():
    book, identities = make(k=3)
    book.weight[:3] = [0.2, 0.5, 0.3]
    book.merge(0, 1)  # the last cell moves to the gap
    identities.update(book)
    assert set(where(book, identities)) == {1, 2}
    assert where(book, identities)[2] == 20.0


def test_children_that_merge_again_leave_no_trace():
    book, identities = make()
    new = book.split(0, [1.0])
    book.weight[new] = 5.0
    book.merge(0, new)
    identities.update(book)
    assert identities.of(book).tolist() == [0]
    assert identities.births == []


def test_a_child_goes_on_as_its_parent_if_that_is_gone():
    book, identities = make(k=2)
    book.split(0, [1.0])
    book.remove(0)
    identities.update(book)
    assert where(book, identities) == {0: -1.0, 1: 10.0}
    assert identities.births == []


def test_numbers_are_used_again_only_when_there_are_no_others():
    book, identities = make(limit=4, k=3)
    book.remove(1)
    identities.update(book)
    book.split(0, [1.0])
    identities.update(book)
    assert set(identities.of(book)) == {0, 2, 3}
    book.remove(0)
    identities.update(book)
    book.split(0, [1.0])
    identities.update(book)
    assert identities.births[-1].cell == 1  # gone longer than 0
    assert identities.n_given == 4


def test_more_cells_than_numbers_are_refused():
    book, identities = make(limit=2, k=2)
    book.split(0, [1.0])
    with pytest.raises(ValueError, match="numbered below 2"):
        identities.update(book)


def chain(n=3000, seed=0):
    """Samples of a walk that wanders off, so that cells come and go."""
    steps = np.random.default_rng(seed).normal(scale=0.1, size=(n, 2))
    return np.cumsum(steps, axis=0)


def test_a_cell_is_the_same_cell_from_one_sample_to_the_next():
    """Followed by their numbers, cells move little by little; by their places in the array they jump."""
    model = ODAPartition(12, random_state=0, n_warmup=20, forgetting=None)
    births, before, places, by_number, by_place = 0, {}, [], 0.0, 0.0
    for x in np.random.default_rng(0).uniform(size=(4000, 2)):
        model.partial_fit(x[None, :])
        now = dict(zip(model.cell_ids_.tolist(), model.codevectors_, strict=True))
        assert max(now) < 12
        log = model._run.identities.births
        newborn = {birth.cell for birth in log[births:]}
        births = len(log)
        if len(before) >= 6:
            assert now.keys() <= before.keys() | newborn
            for number in now.keys() & before.keys() - newborn:
                by_number = max(by_number, np.linalg.norm(now[number] - before[number]))
            for old, new in zip(places, model.codevectors_, strict=False):
                by_place = max(by_place, np.linalg.norm(new - old))
        before, places = now, model.codevectors_
    assert births > 11  # a number was used again
    assert by_number < 0.25 < 0.5 < by_place, (by_number, by_place)


def test_twins_have_their_parents_number_until_they_separate():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 8.0], [9.0, 8.0]])
    samples = centres[rng.integers(4, size=120_000)] + rng.normal(scale=0.2, size=(120_000, 2))
    options = {"bifurcation": "perturb", "t_min": 3.0, "cooling": 0.7, "forgetting": None}
    model = ODAPartition(8, random_state=0, **options)
    homes = []
    for chunk in np.array_split(samples, 60):
        model.partial_fit(chunk)
        assert len(set(model.cell_ids_)) <= 4
        if len(set(model.cell_ids_)) == 4:
            where = np.linalg.norm(model.codevectors_[:, None] - centres, axis=2).argmin(axis=1)
            homes.append(sorted(set(zip(model.cell_ids_.tolist(), where.tolist(), strict=True))))
    assert len(homes) > 5
    assert all(home == homes[-1] for home in homes[1:])
    assert [birth.cell for birth in model._run.identities.births] == [1, 2, 3]


def test_chunks_and_files_make_no_difference(tmp_path):
    samples = chain(seed=1)
    whole = ODAPartition(10, forgetting=None, random_state=0).partial_fit(samples)
    parts = ODAPartition(10, forgetting=None, random_state=0)
    for chunk in np.array_split(samples, 7):
        parts.partial_fit(chunk)
        parts = ODAPartition.load(parts.save(tmp_path / "parts"))
    np.testing.assert_array_equal(parts.cell_ids_, whole.cell_ids_)
    assert parts._run.identities.get_state() == whole._run.identities.get_state()


def test_a_fit_numbers_its_cells_in_their_order():
    model = ODAPartition(6, random_state=0).fit(chain(500))
    np.testing.assert_array_equal(model.cell_ids_, np.arange(model.n_codevectors_))
    before = model.codevectors_
    model.partial_fit(before[:1])
    np.testing.assert_array_equal(model.cell_ids_, np.arange(len(before)))
    np.testing.assert_allclose(model.codevectors_, before)


def test_a_fit_of_a_stream_continues_the_numbers():
    samples = np.random.default_rng(0).normal(size=(300, 2))
    model = ODAPartition(20, n_warmup=20, random_state=0).partial_fit(samples[:255])
    before = dict(zip(model.cell_ids_.tolist(), model.codevectors_, strict=True))
    known = len(model._run.identities.births)
    assert not model.converged_
    assert model.partial_fit(samples[255:256]).converged_
    now = dict(zip(model.cell_ids_.tolist(), model.codevectors_, strict=True))
    born = {birth.cell for birth in model._run.identities.births[known:]}
    assert 1 < len(before) <= len(now) == model.n_codevectors_ <= 20
    assert max(now) < 20
    assert now.keys() <= before.keys() | born
    numbers, old = np.array(list(before)), np.array(list(before.values()))
    for number in now.keys() & before.keys() - born:  # it is in the old cell of that number
        assert numbers[np.linalg.norm(old - now[number], axis=1).argmin()] == number
    model.partial_fit(samples[256:])
    assert sorted(model.cell_ids_) == sorted(now)
