"""Arrays as compiled code takes them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from lodcli.kernels.checks import Array

_LINE_BYTES = 64


def aligned(count: int, dtype: np.dtype[Any]) -> Array:
    """Return so many elements, unwritten, from the start of a cache line on.

    A vector of a whole line that lies in two costs two accesses.
    """
    spare = _LINE_BYTES // dtype.itemsize
    room = np.empty(count + spare, dtype)
    first = -room.ctypes.data % _LINE_BYTES // dtype.itemsize
    return room[first : first + count]


def flat(array: Array) -> Array:
    """Return all elements of an array in a row, for compiled code that only reads them.

    Shares memory where it can, and always counts as writeable: compiled code is made for one
    kind of array, and read-only ones would be another. The caller keeps `array`.
    """
    found = np.ascontiguousarray(array).reshape(-1)
    if found.flags.writeable:
        return found
    if not found.size:
        return found.copy()
    memory: Any = (ctypes.c_char * found.nbytes).from_address(found.ctypes.data)
    alias: Array = np.frombuffer(memory, found.dtype)
    return alias
