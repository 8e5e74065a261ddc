import warnings

import numpy as np
import pytest

from oda_rl._schema import GENERATOR, Either, Rules, Sized, check, expect, maybe
from oda_rl._schema_texts import ArraySpec, RefusedError

BOOK = {
    "location": "float[d, K]",
    "weight": "float[K] in [0, 1], sums to 1",
    "label": "int[K] in [0, C)",
    "first?": "int[K+1] in [-K, K], rising",
}


def book(k=3, d=2):
    return {
        "location": np.zeros((d, k)),
        "weight": np.full(k, 1.0 / k),
        "label": np.arange(k),
        "first": np.arange(k + 1),
    }


def refused(schema, value, sizes=None):
    with pytest.raises(RefusedError) as caught:
        check(schema, value, dict(sizes or {}))
    return caught.value.place, str(caught.value)


def test_what_is_as_declared_passes_and_tells_the_sizes():
    sizes = {"C": 3}
    check(BOOK, book(), sizes)
    assert sizes == {"C": 3, "d": 2, "K": 3}
    without = book()
    del without["first"]
    check(BOOK, without, {"C": 3})


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("location", np.zeros((2, 4)), "(2, 4)"),
        ("location", np.zeros(3), "(3,)"),
        ("location", np.full((2, 3), np.nan), "nan at [0, 0]"),
        ("location", np.full((2, 3), 1e200), "1e+200"),
        ("location", np.zeros((2, 3), dtype=np.float32), "float32"),
        ("location", np.zeros((2, 3), dtype=">f8"), "float64"),
        ("location", None, "None"),
        ("location", [[0.0] * 3] * 2, "[[0.0"),
        ("weight", np.array([0.5, 0.75, -0.25]), "-0.25 at [2]"),
        ("weight", np.full(3, 0.2), "sums to 1"),
        ("label", np.array([0, 1, 3]), "3 at [2]"),
        ("label", np.array([0, -1, 1]), "-1 at [1]"),
        ("first", np.array([0, 2, 1, 3]), "rising"),
        ("first", np.array([-4, 2, 2, 3]), "-4 at [0]"),
    ],
)
def test_what_is_not_is_refused_by_name(entry, value, message):
    place, text = refused({"book": BOOK}, {"book": book() | {entry: value}}, {"C": 3, "d": 2, "K": 3})
    assert place == f"book/{entry}"
    assert message in text
    assert "expected" in text


def test_missing_and_unknown_entries():
    missing = book()
    del missing["label"]
    assert refused(BOOK, missing)[0] == "label"
    assert refused(BOOK, book() | {"more": 1})[0] == "more"
    assert refused(BOOK, [1])[0] == ""


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ("int", [0, -5, 2**63 - 1], [True, 1.0, "1", None, 2**63]),
        ("float", [0, 0.5, 1e150], [np.inf, np.nan, 1e151, True, "1"]),
        ("float in [0, inf]", [0.0, np.inf, 1e300], [-1e-9, np.nan]),
        ("float in (0, 1)", [0.5], [0.0, 1.0, -1]),
        ("float in any", [np.nan, np.inf], [None, "nan"]),
        ("bool", [True, False], [0, 1, None]),
        ("text", ["", "a"], [b"a", 1]),
        ({"a", 1}, ["a", 1], ["b", True, 1.0, None]),
        (None, [None], [0, False]),
        (maybe("int in [0, 9]"), [None, 9], [10, "x"]),
        (Either("bool", "int"), [True, 3], [3.5]),
        (["int"], [[], [1, 2]], [[1, "2"], 1, "12"]),
        (("int", "text"), [[1, "a"]], [[1], [1, "a", 2], ["a", 1], {}]),
    ],
    ids=range(13),
)
def test_single_values(schema, good, bad):
    for value in good:
        check(schema, value, {})
    for value in bad:
        refused(schema, value)


def test_sizes_of_entries_of_a_list_are_their_own():
    layers = ["float[K]"]
    check({"layers": layers}, {"layers": [np.zeros(2), np.zeros(3)]}, {})
    refused({"all": "float[K]", "layers": layers}, {"all": np.zeros(2), "layers": [np.zeros(3)]})


def test_sizes_follow_from_others():
    schema = Sized({"x": "float[n]", "y": "float[n*n+2*d-1]"}, n="d+1")
    sizes = {"d": 2}
    check(schema, {"x": np.zeros(3), "y": np.zeros(12)}, sizes)
    assert sizes == {"d": 2, "n": 3}
    assert refused(schema, {"x": np.zeros(3), "y": np.zeros(11)}, {"d": 2})[0] == "y"


def test_labels_are_of_any_type():
    for labels in (np.array(["a", "b"]), np.array([1, 2]), np.array([True]), np.array(["a", 1], object)):
        check("label[C]", labels, {})
    refused("label[C]", np.zeros(2, dtype=complex))


def test_numbers_can_name_sizes():
    schema = {"n": "int in [1, inf) as n", "x": "float[n]"}
    check(schema, {"n": 2, "x": np.zeros(2)}, {})
    assert refused(schema, {"n": 3, "x": np.zeros(2)})[0] == "x"


def test_functions_choose_by_what_is_around_them():
    schema = {"kind": {"a", "b"}, "x": lambda around, sizes: "int" if around["kind"] == "a" else "text"}
    check(schema, {"kind": "a", "x": 1}, {})
    assert refused(schema, {"kind": "b", "x": 1})[0] == "x"


def test_rules_name_the_entry_within():
    def first_is_zero(state, sizes):
        expect(state["x"][0] == 0.0, "x", "begins elsewhere", "a beginning at 0")

    schema = {"part": Rules({"x": "float[n]"}, first_is_zero)}
    check(schema, {"part": {"x": np.zeros(2)}}, {})
    assert refused(schema, {"part": {"x": np.ones(2)}}) == (
        "part/x",
        "its entry 'part/x' begins elsewhere; expected a beginning at 0",
    )


@pytest.mark.filterwarnings("error")
def test_a_warning_that_the_user_has_made_an_error_is_not_a_fault_of_the_value():
    with pytest.raises(UserWarning, match="look out"):
        check(Rules("int", lambda value, sizes: warnings.warn("look out", stacklevel=1)), 1, {})


def test_shapes_are_checked_before_there_are_arrays():
    told = {
        "location": ArraySpec("<f8", (2, 3)),
        "weight": ArraySpec("<f8", (3,)),
        "label": ArraySpec("<i8", (3,)),
    }
    check(BOOK, told, {}, whole=False)
    with pytest.raises(RefusedError, match="label"):
        check(BOOK, told | {"label": ArraySpec("<i8", (4,))}, {}, whole=False)


def test_generators():
    state = np.random.default_rng(0).bit_generator.state
    check(GENERATOR, state, {})
    refused(GENERATOR, state | {"uinteger": -1})
    refused(GENERATOR, state | {"bit_generator": "MT19937"})


def test_a_declaration_that_is_none_is_an_error_of_the_program():
    for text in ("flaot", "float[K", "int in (0", "float, falling"):
        with pytest.raises(TypeError, match="not a valid schema"):
            check(text, 1, {})
