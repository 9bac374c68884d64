"""CRC32C of bytes, without holding the interpreter's lock."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import google_crc32c
import numpy as np
import numpy.typing as npt

# A call of the C function adds a microsecond.
_UNLOCKED_BYTES = 16 << 10


def _unlocked_extend() -> Callable[[int, int | bytes, int], int] | None:
    """Return `crc32c_extend` of Google's C library; None if it is not accessible.

    The functions of the Python package hold the interpreter's lock, so two threads that verify a
    file take longer than one.
    """
    try:
        from google_crc32c import _crc32c

        extend = ctypes.CDLL(_crc32c.__file__).crc32c_extend
    except (ImportError, OSError, AttributeError):  # pure Python, or symbols not exported
        return None
    extend.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
    extend.restype = ctypes.c_uint32
    return extend


_extend = _unlocked_extend()


def value(data: bytes | npt.NDArray[np.uint8]) -> int:
    """Return the CRC32C of some bytes, contiguous."""
    return extend(0, data)


def extend(crc: int, data: bytes | npt.NDArray[np.uint8]) -> int:
    """Continue a CRC32C with the following bytes."""
    size = len(data)
    if _extend is None or size < _UNLOCKED_BYTES:
        return int(google_crc32c.extend(crc, data))
    if isinstance(data, bytes):
        return _extend(crc, data, size)
    if not data.flags.c_contiguous:
        raise ValueError("expected contiguous bytes")
    return _extend(crc, data.ctypes.data, size)


def of_blocks(data: npt.NDArray[np.uint8], block_bytes: int) -> list[int]:
    """Return the CRC32C of each block of contiguous bytes; the last may be short."""
    starts = range(0, data.size, block_bytes)
    if _extend is None or block_bytes < _UNLOCKED_BYTES or not data.flags.c_contiguous:
        return [value(data[start : start + block_bytes]) for start in starts]
    address = data.ctypes.data
    return [_extend(0, address + at, min(block_bytes, data.size - at)) for at in starts]
