# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Dozens of arrays as one argument of compiled code.

A call from Python costs some 60 nanoseconds for each array, and counts its references: 40 arrays take
3.0 microseconds, as long as the agent's step that uses them. A structref takes 0.9 microseconds, and
every kernel that gets it counts references. The tables of this module take 0.2, count none, and can be
passed on from kernel to kernel. The arrays of an agent are declared in named tuples, with their types::

    class Memory(NamedTuple):
        z: Float2
        action: Int1

`slots` writes their addresses and shapes to one array of integers, the table. A function made by
`make_opener` turns it back into the named tuple in compiled code.

A table is valid only as long as its arrays exist. Its owner must keep the arrays, and make a new table
when one of them is replaced. It must never be copied along with them, pickled, or written to a file: an
object that holds one leaves it out of `__getstate__`, and makes it again.
"""

import ctypes
import math
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from oda_rl._jit import DISABLED

Float1: TypeAlias = Annotated[NDArray[np.float64], (types.float64, 1)]
Float2: TypeAlias = Annotated[NDArray[np.float64], (types.float64, 2)]
Float3: TypeAlias = Annotated[NDArray[np.float64], (types.float64, 3)]
Int1: TypeAlias = Annotated[NDArray[np.int64], (types.int64, 1)]
Int2: TypeAlias = Annotated[NDArray[np.int64], (types.int64, 2)]
Bool1: TypeAlias = Annotated[NDArray[np.bool_], (types.boolean, 1)]
Bool2: TypeAlias = Annotated[NDArray[np.bool_], (types.boolean, 2)]

# Numbers in the table for each array: its address, and its shape padded to three dimensions
WIDTH = 4
TABLE = types.Array(types.int64, 1, "C")


def count_slots(*groups: type[NamedTuple]) -> int:
    """The length of a table with all arrays of these named tuples."""
    return WIDTH * sum(len(group._fields) for group in groups)


def slots(group: Any) -> NDArray[np.int64]:
    """The addresses and shapes (4 * n_fields,) of the arrays of a named tuple, declared as above.

    Raises a TypeError if an array is not of the declared type, or not C-contiguous.
    """
    numbers: list[int] = []
    own: Any = type(group)
    declared = _array_types(own), _dtypes(own)
    for name, array, kind, dtype in zip(group._fields, group, *declared, strict=True):
        if array.dtype != dtype or array.ndim != kind.ndim or not array.flags.c_contiguous:
            raise TypeError(
                f"{type(group).__name__}.{name} must be a C-contiguous {kind.ndim}-dimensional "
                f"array of {dtype}, got {array.ndim} dimensions of {array.dtype}."
            )
        unused = (0,) * (WIDTH - 1 - array.ndim)
        numbers += (array.__array_interface__["data"][0], *array.shape, *unused)
    return np.array(numbers, dtype=np.int64)


class _Group(types.Type):
    """The numba type of a named tuple in a table: a pointer to its slots."""

    def __init__(self, group: Any) -> None:
        self.arrays = dict(zip(group._fields, _array_types(group), strict=True))
        super().__init__(name=f"{group.__module__}.{group.__name__}")


@register_model(_Group)
class _GroupModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@infer_getattr
class _GroupAttributes(AttributeTemplate):
    key = _Group

    def generic_resolve(self, kind, name):
        return kind.arrays.get(name)


@lower_getattr_generic(_Group)
def _get_array(context, builder, kind, pointer, name):
    """The array of a field, without reference counting."""
    array_type, place = kind.arrays[name], WIDTH * list(kind.arrays).index(name)
    item = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    )
    address, *shape = [_load(builder, pointer, place + number) for number in range(1 + array_type.ndim)]
    strides, stride = [], item
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length, flags=["nsw"])
    array = make_array(array_type)(context, builder)
    data = builder.inttoptr(address, context.get_data_type(array_type.dtype).as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=item, meminfo=None)
    return array._getvalue()


def _load(builder, pointer, place):
    """Load a number of a table, marked as constant during a call, so that loops need not reload it."""
    number = builder.load(cgutils.gep(builder, pointer, place))
    number.set_metadata("invariant.load", builder.module.add_metadata([]))
    return number


def make_opener(group: type[Any], first: int) -> Any:
    """Make a function `open(table) -> group` for kernels, which returns the named tuple `group`.

    Its slots begin at index `first` of the table.
    """
    if DISABLED:
        return partial(_open_in_python, group, first)
    made = _Group(group)

    def generate(context, builder, signature, args):
        table = make_array(TABLE)(context, builder, args[0])
        return cgutils.gep(builder, table.data, first)

    @intrinsic
    def open_group(_, table):
        return made(TABLE), generate

    # A kernel that opens a group must be compiled again when the group changes.
    opener: Any = open_group
    opener.declared_in = group.__module__
    return opener


def _open_in_python(group: Any, first: int, table: NDArray[np.int64]) -> Any:
    """What the functions of `make_opener` do, where compilation is disabled."""
    arrays = []
    for kind, dtype in zip(_array_types(group), _dtypes(group), strict=True):
        address, *shape = table[first : first + 1 + kind.ndim].tolist()
        data = (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(address)
        arrays.append(np.frombuffer(data, dtype).reshape(shape))
        first += WIDTH
    return group(*arrays)


@cache
def _array_types(group: Any) -> list[Any]:
    hints = get_type_hints(group, include_extras=True)
    found = []
    for name in group._fields:
        dtype, n_dimensions = hints[name].__metadata__[0]
        found.append(types.Array(dtype, n_dimensions, "C"))
    return found


@cache
def _dtypes(group: Any) -> list[Any]:
    """The NumPy dtypes of the arrays of a named tuple."""
    return [np.dtype(str(kind.dtype).replace("boolean", "bool")) for kind in _array_types(group)]
