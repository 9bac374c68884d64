"""CRC32C per block of rows, so that a slice verifies only the blocks it reads, and each only
once."""

from __future__ import annotations

import os

import numpy as np

from lodcli.formats.arrays import crc32c
from lodcli.formats.arrays.byte_blocks import Bytes, flat_bytes
from lodcli.kernels.index.checks import Array

BLOCK_BYTES = 256 << 10
HEX_DIGITS = 8


def block_rows(row_bytes: int) -> int:
    """Return how many rows of this size make a block: whole rows of about BLOCK_BYTES."""
    return max(1, BLOCK_BYTES // max(1, row_bytes))


class BlockChecksums:
    """The checksums of bytes that arrive in any portions.

    Args:
        block_bytes: bytes of a full block; 0 where rows have no bytes.
    """

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._done: list[str] = []
        self._crc = 0
        self._filled = 0

    def update(self, view: Bytes) -> None:
        """Take the next bytes."""
        while len(view):
            part = view[: self._block_bytes - self._filled]
            self._crc = crc32c.extend(self._crc, part)
            self._filled += len(part)
            if self._filled == self._block_bytes:
                self._close_block()
            view = view[len(part) :]

    def _close_block(self) -> None:
        self._done.append(f"{self._crc:08x}")
        self._crc = self._filled = 0

    def finish(self) -> str:
        """Return all checksums, eight hexadecimal digits each, in order."""
        if self._filled:
            self._close_block()
        return "".join(self._done)


def first_bad_block(data: Array, checksums: str, first: int, rows: int) -> int | None:
    """Return the first block of `data` whose checksum is wrong, None if all are right.

    Args:
        data: C-contiguous whole blocks; the last may be short.
        checksums: those of the whole dataset.
        first: which block `data` starts with.
        rows: rows of a full block.
    """
    flat = flat_bytes(data)
    block_bytes = rows * data[:1].nbytes
    if not block_bytes:
        return None
    if flat.size <= block_bytes:
        stored = checksums[first * HEX_DIGITS : (first + 1) * HEX_DIGITS]
        return None if f"{crc32c.value(flat):08x}" == stored else first
    found = crc32c.of_blocks(flat, block_bytes)
    stop = first + len(found)
    other = first_other(
        np.array(found, np.uint32), checksums[first * HEX_DIGITS : stop * HEX_DIGITS]
    )
    return None if other is None else first + other


def first_other(found: Array, checksums: str) -> int | None:
    """Return the first block whose checksum differs from the computed one, or None.

    Args:
        found: (blocks,) integers below 2^32.
        checksums: of as many blocks, as in the header.
    """
    text = found.astype(">u4").tobytes().hex()
    if text == checksums:
        return None
    starts = range(0, len(text), HEX_DIGITS)
    return next(
        block
        for block, start in enumerate(starts)
        if text[start : start + HEX_DIGITS] != checksums[start : start + HEX_DIGITS]
    )


class FileState:
    """Detects changes of an open file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._seen: tuple[int, int, int] | None = None
        self.changes = 0

    def look(self) -> int:
        """Return how many changes were detected."""
        found = os.fstat(self._fd)
        now = (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if now != self._seen:
            self._seen = now
            self.changes += 1
        return self.changes


class CheckedBlocks:
    """The blocks of a dataset whose checksums were right when they were last read."""

    def __init__(self, state: FileState, count: int) -> None:
        self._state = state
        self._count = count
        self._changes = 0
        self._whole = bytearray()

    def hold(self, first: int, stop: int) -> tuple[bool, int]:
        """Return whether blocks first..stop are verified, and the number of changes detected.

        Call it before reading them, and `add` after: blocks are not marked if the file changed
        meanwhile.
        """
        changes = self._state.look()
        if changes != self._changes:
            self._changes, self._whole = changes, bytearray(self._count)
        return self._whole.find(0, first, stop) < 0, changes

    def add(self, first: int, stop: int, changes: int) -> None:
        """Mark blocks first..stop as verified after this many changes.

        Other threads read too: one may have detected another change meanwhile.
        """
        if changes == self._changes:
            self._whole[first:stop] = b"\1" * (stop - first)
