"""Buffer pool for large results, because fresh pages cost more than most ops.

The first write to a page has the system find and clear it, at 0.5 to 18 GB/s where this was
measured; the ops write at 30 to 80. What a result leaves behind when the last array that shows
it is gone is kept for the next one. The system may take it back meanwhile, so it is in nobody's
way: it is marked as free, which costs nothing until somebody else needs memory.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform.machine import advise

# Smaller ones the C library keeps itself.
LEAST_BYTES = 1 << 24
# Kept of all that are free.
MOST_BYTES = 1 << 30
# A block is taken for a result of at least one part in so many of it.
_WASTE = 2
_HUGE = 1 << 21  # bytes of a large page, which are cleared at one go

_free: list[mmap.mmap] = []


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array as numpy.empty does, its memory perhaps that of one that is gone.

    A large one does not own its memory, as no view does, so `resize` refuses it.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LEAST_BYTES or not hasattr(mmap, "MADV_FREE"):
        return np.empty(shape, dtype)
    block = _taken(size)
    if block is None:
        return np.empty(shape, dtype)
    found: Array = np.asarray(_Loan(block, size))
    return found.view(dtype).reshape(shape)


class _Loan:
    """A block while it is in use: every view of an array of it keeps this alive."""

    def __init__(self, block: mmap.mmap, size: int) -> None:
        self._block = block
        address = np.frombuffer(block, np.uint8).ctypes.data
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        # The interpreter may be ending, and this module's names be gone.
        if _give_back is not None:
            _give_back(self._block)


def _taken(size: int) -> mmap.mmap | None:
    """Return the smallest free block that is not too small or far too large, or a new one.

    None if there is no memory left, which is NumPy's to tell.
    """
    # Copied: an array may end, and its block come back, at any time.
    for block in sorted(_free.copy(), key=len):
        if size <= len(block) <= _WASTE * size:
            with contextlib.suppress(ValueError):  # another thread took it
                _free.remove(block)
                return block
    whole = -(-size // _HUGE) * _HUGE
    try:
        block = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError):
        _free.clear()
        return None
    advise(block, "MADV_HUGEPAGE")
    return block


def _give_back(block: mmap.mmap) -> None:
    if len(block) > MOST_BYTES:
        return
    advise(block, "MADV_FREE")
    _free.append(block)
    with contextlib.suppress(IndexError):  # another thread emptied it
        while sum(map(len, _free.copy())) > MOST_BYTES:
            _free.pop(0)
