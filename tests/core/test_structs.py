"""Arrays behind a table of addresses, as compiled code reads and writes them."""

from typing import NamedTuple

import numpy as np
import pytest

from oda_rl import _structs as structs
from oda_rl._jit import lean_kernel


class Pair(NamedTuple):
    first: structs.Float1
    number: structs.Int2


class Flags(NamedTuple):
    flag: structs.Bool1
    block: structs.Float3


open_pair = structs.make_opener(Pair, 0)
open_flags = structs.make_opener(Flags, structs.count_slots(Pair))


@lean_kernel
def add_up(table, place):
    """Write to all arrays; the sum of the last axis of `block` at `place`, and the shapes."""
    pair, flags = open_pair(table), open_flags(table)
    for i in range(pair.number.shape[0]):
        for j in range(pair.number.shape[1]):
            pair.number[i, j] += 1
    pair.first[place] = 7.0
    flags.flag[place] = not flags.flag[place]
    total = 0.0
    for value in flags.block[0, place]:
        total += value
    return total, flags.block.shape, pair.number.shape


def make():
    pair = Pair(np.zeros(3), np.arange(6).reshape(2, 3))
    flags = Flags(np.array([True, False]), np.arange(24.0).reshape(2, 3, 4))
    return pair, flags, np.concatenate([structs.slots(pair), structs.slots(flags)])


def test_compiled_code_works_on_the_arrays_themselves():
    pair, flags, table = make()
    assert len(table) == structs.count_slots(Pair, Flags)
    total, block, number = add_up(table, 1)
    assert (total, block, number) == (4.0 + 5.0 + 6.0 + 7.0, (2, 3, 4), (2, 3))
    np.testing.assert_array_equal(pair.first, [0.0, 7.0, 0.0])
    np.testing.assert_array_equal(pair.number, np.arange(1, 7).reshape(2, 3))
    assert flags.flag.tolist() == [True, True]


@pytest.mark.parametrize(
    ("first", "number", "message"),
    [
        (np.zeros(3, np.float32), np.zeros((2, 3), int), "Pair.first must be a C-contiguous 1-dim"),
        (np.zeros((3, 1)), np.zeros((2, 3), int), "got 2 dimensions of float64"),
        (np.zeros(3), np.zeros((2, 3)), "Pair.number must be .* array of int64"),
        (np.zeros(3), np.zeros((3, 2), int).T, "Pair.number"),
        (np.zeros(6)[::2], np.zeros((2, 3), int), "Pair.first"),
    ],
)
def test_arrays_that_are_not_what_was_declared(first, number, message):
    with pytest.raises(TypeError, match=message):
        structs.slots(Pair(first, number))


def test_empty_arrays():
    table = structs.slots(Pair(np.zeros(0), np.zeros((0, 3), int)))
    assert table[1] == 0
    assert table[structs.WIDTH + 1 : structs.WIDTH + 3].tolist() == [0, 3]
