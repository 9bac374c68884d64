"""Arrays between pages of memory that may not be read: who reads there is ended by the system."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from lodcli.kernels.index.checks import Array


def walled() -> Array:
    """Return two pages of bytes, 0, 1, .. 255, 0, .., with a wall on both sides."""
    held = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    size = 2 * mmap.PAGESIZE
    values = np.frombuffer(held, np.uint8, size, mmap.PAGESIZE)
    values[...] = np.arange(size, dtype=np.uint8)
    system = ctypes.CDLL(None, use_errno=True)
    for place in (values.ctypes.data - mmap.PAGESIZE, values.ctypes.data + size):
        assert system.mprotect(ctypes.c_void_p(place), mmap.PAGESIZE, 0) == 0
    return values
