"""Reads rows of a file to a GPU with kvikio, bypassing main memory if possible."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import cupy
import kvikio
import numpy as np

from lodcli.formats.core.format import StoredRows
from lodcli.kernels.cuda.crc32c import block_crc32c
from lodcli.kernels.cuda.launch import address
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform.files import descriptor_path
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# kvikio divides a piece among its threads. While one is checked, others are being read.
PIECE_BYTES = 16 << 20
UNDER_WAY = 4
# Pages of the file, and of the GPU's memory: bytes at the same position within a page in both are
# transferred directly, others through a buffer of the driver.
PAGE_BYTES = 4096
# Word size of kernels: unaligned rows cost the kernels more than a direct transfer saves.
WORD_BYTES = 16


class _UnreadError(Exception):
    """kvikio could not read all of it."""


def read_stored(
    stored: StoredRows, row_shape: tuple[int, ...], dtype: np.dtype[Any]
) -> LoDTensor | None:
    """Return a tensor with its rows on the current GPU, checked; None if kvikio cannot read them.

    The caller then reads them in another way, which reports the error.

    Raises:
        LodError: as `stored.check`; nothing is returned.
    """
    flat = _room(stored.rows * math.prod(row_shape) * dtype.itemsize, stored.offset)
    step = max(1, PIECE_BYTES // stored.block_bytes) * stored.block_bytes
    sums: list[Array] = []
    # Queued work may still use the newly allocated memory, and kvikio does not wait for it.
    cupy.cuda.get_current_stream().synchronize()
    try:
        _read(
            stored, flat, step, lambda piece: sums.append(block_crc32c(piece, stored.block_bytes))
        )
    except _UnreadError:
        return None
    highest = int(flat.max()) if dtype == np.bool_ else 0
    stored.check(cupy.asnumpy(cupy.concatenate(sums)), highest)
    return LoDTensor(flat.view(dtype).reshape(stored.rows, *row_shape), stored.lod)


def _room(size_bytes: int, offset: int) -> Array:
    """Return memory for bytes that begin at `offset` of a file: (size_bytes,) uint8."""
    if offset % WORD_BYTES:
        whole: Array = cupy.empty(size_bytes, np.uint8)
        return whole
    more: Array = cupy.empty(size_bytes + PAGE_BYTES, np.uint8)
    start = (offset - address(more)) % PAGE_BYTES
    return more[start : start + size_bytes]


def _read(stored: StoredRows, there: Array, step: int, arrived: Callable[[Array], None]) -> None:
    """Fill `there` piece by piece, and call `arrived` with each; no read is pending afterwards."""
    # By descriptor, not by name: the file that was checked may have been renamed or removed.
    with _reading():
        file = kvikio.CuFile(descriptor_path(stored.fd), "r")
    under_way: deque[tuple[Array, Any]] = deque()
    try:
        for start in range(0, there.size, step):
            if len(under_way) == UNDER_WAY:
                arrived(_first(under_way))
            piece = there[start : start + step]
            with _reading():
                under_way.append((piece, file.pread(piece, file_offset=stored.offset + start)))
        while under_way:
            arrived(_first(under_way))
    finally:
        # Wait: pending reads use memory that would be reused, and a file that would be closed.
        for _, future in under_way:
            with suppress(RuntimeError):
                future.get()
        file.close()


def _first(under_way: deque[tuple[Array, Any]]) -> Array:
    """Wait for the oldest requested piece, and return it."""
    piece, future = under_way[0]
    with _reading():
        done = future.get()
    under_way.popleft()
    # Which of its bytes are missing is unknown: several threads have read it.
    if done != piece.nbytes:
        raise _UnreadError
    return piece


@contextmanager
def _reading() -> Iterator[None]:
    """Convert kvikio's errors to _UnreadError, to distinguish them from other RuntimeErrors."""
    try:
        yield
    except RuntimeError as error:
        raise _UnreadError from error
