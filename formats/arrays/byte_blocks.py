"""The bytes of an array as stored in files: little-endian, C order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lodcli.formats.storage.outputs import COPY_BYTES
from lodcli.kernels.index.checks import Array

# An array, not a memoryview: CRC32C accepts an array without a copy, and no memoryview.
Bytes = npt.NDArray[np.uint8]


def flat_bytes(data: Array) -> Bytes:
    """Return the bytes of a C-contiguous array, without copying."""
    if data.size == 0:
        return np.empty(0, np.uint8)
    return data.reshape(-1).view(np.uint8)


def byte_blocks(data: Array) -> Iterator[Bytes]:
    """Yield the bytes of an array, at most COPY_BYTES at a time.

    Rows stored in memory as in the file are not copied; others are copied a few at a time.
    """
    for part in _parts(data):
        flat = flat_bytes(part)
        for start in range(0, flat.size, COPY_BYTES):
            yield flat[start : start + COPY_BYTES]


def _parts(data: Array) -> Iterator[Array]:
    stored = data.dtype.newbyteorder("<")
    if not data.size or (data.flags.c_contiguous and data.dtype == stored != np.bool_):
        yield data
        return
    step = max(1, COPY_BYTES // data[:1].nbytes)
    for start in range(0, data.shape[0], step):
        part = np.ascontiguousarray(data[start : start + step], stored)
        # A boolean in memory of another library may be any byte; any but 0 means True.
        yield part if data.dtype != np.bool_ else part.view(np.uint8) != 0
