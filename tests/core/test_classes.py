"""Classes of a stream, of which new ones may come: of one kind, and none taken for another."""

import warnings

import numpy as np
import pytest

from oda_rl import KernelSGDClassifier, MultiResolutionODA, ODAClassifier
from oda_rl.estimators.classes import join_classes
from oda_rl.quantization import LVQ

X = np.random.default_rng(0).normal(size=(80, 2))
RIGHT = (X[:, 0] > 0.0).astype(int)
MAKERS = {
    "ODAClassifier": lambda: ODAClassifier(4, random_state=0),
    "LVQ": lambda: LVQ(2, random_state=0),
    "KernelSGDClassifier": lambda: KernelSGDClassifier(random_state=0),
    "MultiResolutionODA": lambda: MultiResolutionODA(ODAClassifier(4), random_state=0),
}
every_kind = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


def of(*classes):
    return np.array(classes)[RIGHT]


@every_kind
@pytest.mark.parametrize(("first", "then"), [("ab", [1, 2]), ([1, 2], "ab"), ([True, False], "ab")])
def test_classes_are_numbers_alone_or_texts_alone(make, first, then):
    first, then = of(*first), of(*then)
    model = make().partial_fit(X, first)
    before = model.predict(X)
    with pytest.raises(ValueError, match="classes must be only numbers or only strings, got"):
        model.partial_fit(X, then)
    np.testing.assert_array_equal(model.predict(X), before)
    np.testing.assert_array_equal(model.classes_, np.unique(first))
    model.partial_fit(X, first)


@every_kind
def test_large_whole_numbers_do_not_become_floats(make):
    large = of(2**60, 2**60 + 1)
    for first, then in [(large, of(1.0, 2.0)), (of(1.0, 2.0), large)]:
        with pytest.raises(ValueError, match=r"classes beyond 2\*\*53, such as 11529215046068469.., "):
            make().partial_fit(X, first).partial_fit(X, then)
    exact = make().partial_fit(X, of(0, 1)).partial_fit(X, large)
    assert exact.classes_.tolist() == [0, 1, 2**60, 2**60 + 1]


@every_kind
def test_classes_that_will_come_have_their_place_from_the_beginning(make):
    model = make().partial_fit(X, of("a", "c"), classes=["b", "d"])
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert set(model.partial_fit(X, of("a", "b")).predict(X)) <= set("abcd")
    assert make().partial_fit(X, of(1, 2), classes=range(4)).classes_.tolist() == [0, 1, 2, 3]


@every_kind
@pytest.mark.parametrize("classes", ["ab", 5, {0, 1}, ["a", 1], [0, None], [[0, 1]], [0.0, np.nan]])
def test_what_will_come_is_a_list_of_classes(make, classes):
    with pytest.raises(
        ValueError, match="classes must be a list of only finite numbers or only strings, got"
    ):
        make().partial_fit(X, of(0, 1), classes=classes)


def test_a_tree_is_refined_with_classes_of_its_kind():
    model = MAKERS["MultiResolutionODA"]().fit(X, of(0, 1))
    with pytest.raises(ValueError, match="only numbers or only strings, got 0 and '1'"):
        model.refine("0", X, of("0", "1"))
    with pytest.raises(ValueError, match=r"y must have only the known classes .* got 2"):
        model.refine("0", X, of(0, 2))


def test_numbers_of_half_precision_are_joined_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = join_classes(np.array([0.5, 1.0]), np.array([1.0, 2.0], dtype=np.float16))
    np.testing.assert_array_equal(found, [0.5, 1.0, 2.0])
