"""Immutable arrays, which cannot be made writable again.

`array.flags.writeable = False` is only a request: any code with a reference to the array, or to a
view of it, can undo it. NumPy refuses only if the object that owns the memory is not an array and
exports it as read-only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.runtime.buffers import empty

Array = npt.NDArray[Any]

_INT64 = np.dtype(np.int64)
# Up to this size copying takes less time than sharing the memory.
_COPIED_BYTES = 1 << 14


class _Memory:
    """Exports the memory of an array as read-only; keeps the array alive."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        array = self._array
        return {
            "shape": (array.nbytes,),
            "typestr": "|u1",
            "data": (array.ctypes.data, True),
            "version": 3,
        }


def immutable(array: Array) -> Array:
    """Return an array of the same values that cannot be made writable.

    Args:
        array: any shape and any dtype but objects. Its memory is shared if it is large and
            contiguous, so the caller must keep no other reference to it or to a view of it.

    >>> offsets = immutable(np.array([0, 2, 5]))
    >>> offsets.flags.writeable = True
    Traceback (most recent call last):
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    if is_immutable(array):
        return array
    if array.nbytes <= _COPIED_BYTES or not array.flags.c_contiguous:
        copy: Array = np.frombuffer(array.tobytes(), array.dtype)
    else:
        copy = np.asarray(_Memory(array)).view(array.dtype)
    return copy if array.ndim == 1 else copy.reshape(array.shape)


def unwritten(count: int) -> npt.NDArray[np.int64]:
    """Return an immutable int64 array (count,) for a compiled kernel to fill before any other use.

    >>> unwritten(2).flags.writeable
    False
    """
    if 8 * count > _COPIED_BYTES:  # bytes() would write zeros first
        return immutable(empty((count,), _INT64))
    return np.frombuffer(bytes(8 * count), _INT64)


def is_immutable(array: Array) -> bool:
    """Return whether neither this array nor the owner of its memory can be written to."""
    if array.flags.writeable:
        return False
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return type(base) is bytes or type(base) is _Memory
