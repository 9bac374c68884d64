"""Calls from Python to kernels through CPython's METH_FASTCALL convention.

A ctypes call takes about 0.4 microseconds, plus 0.3 for each converted argument; an op on ten rows
makes five calls. Only CPython's stable ABI is used, and of NumPy the offset of an array's data
pointer, which all compiled extensions rely on. See calls.py.
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Arguments, kernel
from lodcli.kernels.native.language_numba import pointer
from lodcli.kernels.native.system_numba import (
    bits_of,
    call_0,
    call_1,
    call_2,
    call_3,
    call_real_1,
    load,
    stack_words,
)

WORDS = 64
BYTES_AT = 32  # offset of the content of a bytes object
TYPE_AT, DATA_AT = 8, 16  # offsets of an object's type, and of an array's data pointer
# Words of a description: the function, its number of arguments, the table below, and the kind of
# each argument.
FUNCTION, COUNT, TABLE, KINDS = 0, 1, 2, 3
REAL = 1
# Words of the table: functions and types of CPython and NumPy.
TO_INTEGER, TO_REAL, FAILED, RELEASE, ACQUIRE, FROM_INTEGER = range(6)
RAISE, ERROR, MESSAGE, ARRAYS, IS_A, NONE, INTEGERS = range(6, 13)


@kernel()
def from_python(arguments: Arguments, first: int, last: int) -> int:
    """Call a kernel with Python objects: `first` and `last` piece, then its arguments.

    Args:
        arguments: the bytes object describing the kernel, `self` of the builtin function.
        first: the address of the argument pointers.
        last: the number of arguments.
    """
    described = pointer(arguments + BYTES_AT, WORDS, np.int64)
    table = pointer(described[TABLE], WORDS, np.int64)
    count = described[COUNT]
    if last != count + 2:
        call_2(table[RAISE], table[ERROR], table[MESSAGE])
        return 0
    given = pointer(first, last, np.int64)
    block = stack_words(WORDS)
    words = pointer(block, WORDS, np.int64)
    begin = call_1(table[TO_INTEGER], given[0])
    end = call_1(table[TO_INTEGER], given[1])
    for k in range(count):
        argument, kind = given[k + 2], described[KINDS + k]
        if kind == REAL:
            words[k] = bits_of(call_real_1(table[TO_REAL], argument))
        else:
            # An array is passed as its address, to pointers and integers alike.
            owner = load(argument + TYPE_AT)
            is_array = owner == table[ARRAYS]
            if not is_array and owner != table[INTEGERS] and argument != table[NONE]:
                # A C int: only the low half is defined.
                is_array = call_2(table[IS_A], owner, table[ARRAYS]) & 0xFFFFFFFF != 0
            if is_array:
                words[k] = load(argument + DATA_AT)
            elif argument == table[NONE]:
                words[k] = 0
            else:
                words[k] = call_1(table[TO_INTEGER], argument)
    # Checked once, not per argument: nothing has been done yet.
    if call_0(table[FAILED]):
        return 0
    state = call_0(table[RELEASE])
    status: int = call_3(described[FUNCTION], block, begin, end)
    call_1(table[ACQUIRE], state)
    result: int = call_1(table[FROM_INTEGER], status)
    return result


@kernel()
def keep(arguments: Arguments, first: int, last: int) -> int:
    """Copy the `last` argument words of a kernel to the address `first`."""
    given, kept = pointer(arguments, WORDS, np.int64), pointer(first, WORDS, np.int64)
    for k in range(last):
        kept[k] = given[k]
    return 0
