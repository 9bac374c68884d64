"""Buffer pool for large results, because fresh pages cost more than most ops.

The first write to a page has the system find and clear it, at 0.5 to 18 GB/s where this was
measured; the ops write at 30 to 80. The memory of a result is kept for the
next one when the last array over it is gone. The system may reclaim it meanwhile: most of it is
marked as free, which costs nothing until another program needs memory.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.platform.machine import advise

# Smaller ones the C library keeps itself. Memory of larger ones it returns to the system when some
# of them are free side by side: each op of a chain would write to fresh pages.
LEAST_BYTES = 1 << 18
# Free memory beyond this, that of the largest blocks and of those free longest, is marked as such:
# the next write to each page then takes longer.
UNMARKED_BYTES = 1 << 26
# The C library returns the end of its heap to the system as soon as 128 KiB of it are free, and
# smaller results would be fresh pages each time. Once a block this large was freed, it keeps twice
# as much. Most programs free one with NumPy; those whose large results come from here would not.
_HEAP_BYTES = 4 << 20
# Kept of all that are free, and how many: they are searched one by one.
MOST_BYTES, MOST_BLOCKS = 1 << 30, 64
# A block is taken for a result of at least one part in so many of it.
_WASTE = 2


class _Block(mmap.mmap):
    """Memory of the system's, and where it lies."""

    address: int


# Free blocks, each list with the one that came back last at its end.
_free: list[_Block] = []
_marked: list[_Block] = []
np.empty(_HEAP_BYTES, np.uint8)  # freed at once


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array as numpy.empty does, its memory perhaps that of one that is gone.

    A large one does not own its memory, as no view does, so `resize` refuses it.
    """
    size = dtype.itemsize
    for count in shape:  # few: math.prod takes longer
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
        # The interpreter may be ending, and this module's names be gone.
        if _give_back is not None:
            _give_back(self._block)


def _taken(size: int) -> _Block | None:
    """Return a free block that is not too small or far too large, or a new one.

    The one that came back last, which may still be in a cache. None if there is no memory left,
    which is NumPy's to tell.
    """
    for blocks in (_free, _marked):
        # Copied: an array may end, and its block come back, at any time.
        for block in reversed(blocks.copy()):
            if size <= len(block) <= _WASTE * size:
                with contextlib.suppress(ValueError):  # another thread took it
                    blocks.remove(block)
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
    """Return all that is free to the system."""
    _free.clear()
    _marked.clear()


def _give_back(block: _Block) -> None:
    if len(block) > MOST_BYTES:
        return
    if len(block) > UNMARKED_BYTES:
        _mark(block)
    else:
        _free.append(block)
    with contextlib.suppress(IndexError):  # another thread emptied it
        while _bytes(_free) > UNMARKED_BYTES:
            _mark(_free.pop(0))
        while len(kept := _marked + _free) > MOST_BLOCKS or _bytes(kept) > MOST_BYTES:
            (_marked or _free).pop(0)


def _mark(block: _Block) -> None:
    """Let the system take the memory of a block that is in neither list."""
    advise(block, "MADV_FREE")
    _marked.append(block)


def _bytes(blocks: list[_Block]) -> int:
    return sum(map(len, blocks.copy()))
