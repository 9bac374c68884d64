"""Calls from Python to kernels with CPython's METH_FASTCALL convention.

A call by ctypes takes some 0.4 microseconds and 0.3 more for each argument that is converted; op
on ten rows makes five of them. What is used of CPython is its stable ABI, and of NumPy's the
place of an array's data, which every compiled extension relies on. See calls.py.
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
BYTES_AT = 32  # where the content of a bytes object begins
TYPE_AT, DATA_AT = 8, 16  # where an object's type is, and an array's data
# The words of a description: what is called, how many arguments it takes, the table below, and
# for each argument its kind.
FUNCTION, COUNT, TABLE, KINDS = 0, 1, 2, 3
REAL = 1
# The words of the table: functions and types of CPython and NumPy.
TO_INTEGER, TO_REAL, FAILED, RELEASE, ACQUIRE, FROM_INTEGER = range(6)
RAISE, ERROR, MESSAGE, ARRAYS, IS_A, NONE, INTEGERS = range(6, 13)


@kernel()
def from_python(arguments: Arguments, first: int, last: int) -> int:
    """Call a kernel with Python objects: `first` and `last` of pieces, then its arguments.

    Args:
        arguments: the bytes object that describes the kernel, `self` of the builtin function.
        first: where the arguments' addresses lie.
        last: how many they are.
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
            # An array is its address, for a pointer and for a whole number alike.
            owner = load(argument + TYPE_AT)
            is_array = owner == table[ARRAYS]
            if not is_array and owner != table[INTEGERS] and argument != table[NONE]:
                # A C int: only its low half is defined.
                is_array = call_2(table[IS_A], owner, table[ARRAYS]) & 0xFFFFFFFF != 0
            if is_array:
                words[k] = load(argument + DATA_AT)
            elif argument == table[NONE]:
                words[k] = 0
            else:
                words[k] = call_1(table[TO_INTEGER], argument)
    # Asked once and not for every argument: nothing was done yet.
    if call_0(table[FAILED]):
        return 0
    state = call_0(table[RELEASE])
    status: int = call_3(described[FUNCTION], block, begin, end)
    call_1(table[ACQUIRE], state)
    result: int = call_1(table[FROM_INTEGER], status)
    return result


@kernel()
def keep(arguments: Arguments, first: int, last: int) -> int:
    """Copy the arguments of a kernel, `last` words, to the address `first`."""
    given, kept = pointer(arguments, WORDS, np.int64), pointer(first, WORDS, np.int64)
    for k in range(last):
        kept[k] = given[k]
    return 0
