"""Buffer pool for large results, because fresh pages cost more than most ops.

The first write to a page makes the system find and clear it, at 0.5 to 18 GB/s where this was
measured; the ops write at 30 to 80. When the last array over a result is gone, its memory is kept
for the next result. The system may reclaim it meanwhile: most of it is marked as free, which costs
nothing until another program needs memory.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.platform.machine import advise

# Smaller results are left to the C library, which keeps their memory. It returns the memory of
# larger ones to the system when neighbours are free: each op of a chain would write to fresh pages.
LEAST_BYTES = 1 << 18
# Free memory beyond this is marked as free for the system, largest and oldest blocks first: the
# next write to each of their pages takes longer.
UNMARKED_BYTES = 1 << 26
# The C library returns the end of its heap to the system as soon as 128 KiB of it are free: smaller
# results would be fresh pages each time. After it has freed a block of this size, it keeps twice as
# much. Most programs free such a block with NumPy, but not if their large results come from here.
_HEAP_BYTES = 4 << 20
# Limits on free memory, and on the number of free blocks, which are searched one by one.
MOST_BYTES, MOST_BLOCKS = 1 << 30, 64
# A block is reused only for a result of at least 1 / _WASTE of its size.
_WASTE = 2


class _Block(mmap.mmap):
    """Memory mapped from the system, with its address."""

    address: int


# Free blocks; in each list the last one was returned last.
_free: list[_Block] = []
_marked: list[_Block] = []
np.empty(_HEAP_BYTES, np.uint8)  # freed at once


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array as numpy.empty does, perhaps in the memory of an earlier result.

    A large array is a view, which does not own its memory, so `resize` raises an error for it.
    """
    size = dtype.itemsize
    for count in shape:  # for few dimensions faster than math.prod
        size *= count
    if size < LEAST_BYTES:
        return np.empty(shape, dtype)
    block = _taken(size) if hasattr(mmap, "MADV_FREE") else None
    if block is None:
        return np.empty(shape, dtype)
    found: npt.NDArray[Any] = np.asarray(_Loan(block, size))
    return found.view(dtype).reshape(shape)


class _Loan:
    """A block while it is in use: every view of an array of it keeps this alive."""

    def __init__(self, block: _Block, size: int) -> None:
        self._block = block
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (block.address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        # At interpreter shutdown the names of this module may be None already.
        if _give_back is not None:
            _give_back(self._block)


def _taken(size: int) -> _Block | None:
    """Return a free block that is large enough and not far too large, or a new one.

    Prefers the block returned last, which may still be in a CPU cache. None if there is no memory
    left: NumPy then raises the error.
    """
    for blocks in (_free, _marked):
        # A copy: an array may be deleted, and its block returned, at any time.
        for block in reversed(blocks.copy()):
            if size <= len(block) <= _WASTE * size:
                try:
                    blocks.remove(block)
                except ValueError:  # another thread took it
                    continue
                return block
    whole = -(-size // LEAST_BYTES) * LEAST_BYTES
    try:
        block = _Block(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError):
        clear()
        return None
    block.address = np.frombuffer(block, np.uint8).ctypes.data
    advise(block, "MADV_HUGEPAGE")
    return block


def clear() -> None:
    """Return all free blocks to the system."""
    _free.clear()
    _marked.clear()


def _give_back(block: _Block) -> None:
    if len(block) > MOST_BYTES:
        return
    if len(block) > UNMARKED_BYTES:
        _mark(block)
    else:
        _free.append(block)
    try:
        while _bytes(_free) > UNMARKED_BYTES:
            _mark(_free.pop(0))
        while len(kept := _marked + _free) > MOST_BLOCKS or _bytes(kept) > MOST_BYTES:
            (_marked or _free).pop(0)
    except IndexError:  # another thread emptied it
        return


def _mark(block: _Block) -> None:
    """Mark the memory of a block as free for the system, and add the block to `_marked`."""
    advise(block, "MADV_FREE")
    _marked.append(block)


def _bytes(blocks: list[_Block]) -> int:
    return sum(map(len, blocks.copy()))
