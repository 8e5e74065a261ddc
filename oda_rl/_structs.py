# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Dozens of arrays as one argument of compiled code.

A call from Python costs some 60 nanoseconds for each array, and counts its references: 40 arrays take
3.0 microseconds, as long as the step of an agent that they are for. A structref takes 0.9, and makes
every kernel that it is handed to count references. What stands here takes 0.2, counts none, and can be
handed on from kernel to kernel. So the arrays of an agent are declared in named tuples, whose fields say
what they are::

    class Memory(NamedTuple):
        z: Float2
        action: Int1

Their addresses and shapes stand in one array of integers, the table, which `slots` makes; a function
from `make_opener` gives compiled code the named tuple back.

A table is worth as much as the arrays behind it. Whoever makes one must keep the arrays, and make it
anew when one of them is replaced. It must never be copied along with them, pickled, or written to a
file: an object that holds one leaves it out of `__getstate__`, and makes it again.
"""

from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

Float1: TypeAlias = Annotated[NDArray[np.float64], (types.float64, 1)]
Float2: TypeAlias = Annotated[NDArray[np.float64], (types.float64, 2)]
Float3: TypeAlias = Annotated[NDArray[np.float64], (types.float64, 3)]
Int1: TypeAlias = Annotated[NDArray[np.int64], (types.int64, 1)]
Int2: TypeAlias = Annotated[NDArray[np.int64], (types.int64, 2)]
Bool1: TypeAlias = Annotated[NDArray[np.bool_], (types.boolean, 1)]
Bool2: TypeAlias = Annotated[NDArray[np.bool_], (types.boolean, 2)]

# Numbers of the table for each array: its address, and its shape
WIDTH = 4
TABLE = types.Array(types.int64, 1, "C")


def count_slots(*groups: type[NamedTuple]) -> int:
    """Numbers of the table for all arrays of these named tuples."""
    return WIDTH * sum(len(group._fields) for group in groups)


def slots(group: Any) -> NDArray[np.int64]:
    """The addresses and shapes of a named tuple's arrays.

    Parameters
    ----------
    group : NamedTuple
        Of a class whose fields are declared as above.

    Returns
    -------
    ndarray of shape (4 * n_fields,), int64

    Raises
    ------
    TypeError
        If an array is not what its field says, or not C-contiguous.
    """
    table = np.zeros((len(group), WIDTH), dtype=np.int64)
    for row, name, array, declared in zip(
        table, group._fields, group, _array_types(type(group)), strict=True
    ):
        dtype = np.dtype(str(declared.dtype).replace("boolean", "bool"))
        if array.dtype != dtype or array.ndim != declared.ndim or not array.flags.c_contiguous:
            raise TypeError(
                f"{type(group).__name__}.{name} must be a C-contiguous {declared.ndim}-dimensional "
                f"array of {dtype}, got {array.ndim} dimensions of {array.dtype}."
            )
        row[0] = array.__array_interface__["data"][0]
        row[1 : 1 + array.ndim] = array.shape
    return table.ravel()


def make_opener(group: type[Any], first: int) -> Any:
    """A function for compiled code: the named tuple `group` of a table.

    Parameters
    ----------
    group : type
        A NamedTuple class.
    first : int
        Where its slots begin in the table.

    Returns
    -------
    callable
        `open(table) -> group`, for kernels only.
    """
    made = types.NamedTuple(_array_types(group), group)

    def generate(context, builder, signature, args):
        table = make_array(TABLE)(context, builder, args[0])
        arrays = []
        for k, kind in enumerate(made.types):
            place = first + k * WIDTH
            numbers = [
                builder.load(cgutils.gep(builder, table.data, place + i)) for i in range(1 + kind.ndim)
            ]
            arrays.append(_make_array(context, builder, kind, numbers[0], numbers[1:]))
        return context.make_tuple(builder, made, arrays)

    @intrinsic
    def open_group(_, table):
        return made(TABLE), generate

    # A kernel that opens a group must be compiled anew when the group changes.
    opener: Any = open_group
    opener.declared_in = group.__module__
    return opener


def _make_array(context, builder, kind, address, shape):
    """The array of type `kind` at an address, without a count of references."""
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides, stride = [], item
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length, flags=["nsw"])
    array = make_array(kind)(context, builder)
    data = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=item, meminfo=None)
    return array._getvalue()


def _array_types(group: type[Any]) -> list[Any]:
    hints = get_type_hints(group, include_extras=True)
    found = []
    for name in group._fields:
        dtype, n_dimensions = hints[name].__metadata__[0]
        found.append(types.Array(dtype, n_dimensions, "C"))
    return found
