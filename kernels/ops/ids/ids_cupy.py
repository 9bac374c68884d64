"""See ids.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    THREADS,
    WARP,
    WORDS,
    Grid,
    blocks,
    c_type,
    flat_rows,
    on_device,
    run,
    tiles,
)
from lodcli.kernels.cuda.row_copies import word_bytes
from lodcli.kernels.index.checks import Array, Offsets

HEIGHT = 8
CHUNK, MOST_TILES = 1024, 2048  # as in kept_rows.cuh
# A result with more unused room than this, and more than its own size, is copied.
SPARE_BYTES = 1 << 20


class Marks(NamedTuple):
    """Which rows are kept; see kept_rows.cuh.

    Attributes:
        kept: (N,) booleans.
        tiles: per tile of rows, the number of kept rows and the last of them.
        height: of a tile.
    """

    kept: Array
    tiles: Array
    height: int

    @property
    def grid(self) -> Grid:
        """The number of blocks of the kernels that mark or place these rows: one per tile."""
        return (self.tiles.shape[0],)

    def placed_by(self, offsets: Offsets) -> tuple[Any, ...]:
        """Return the arguments of a kernel that places the rows, for marks and index."""
        index = (on_device(offsets), offsets.size - 1, self.kept.size)
        return self.kept, self.tiles, *index, self.height


def room_for_marks(rows: int, kept: Array | None = None) -> Marks:
    """Return arrays for the marks of this many rows, or for rows with given marks."""
    height = CHUNK * max(1, blocks(rows, CHUNK * MOST_TILES))
    tiles = cupy.empty((blocks(rows, height), 2), np.int64)
    return Marks(cupy.empty(rows, np.bool_) if kept is None else kept, tiles, height)


def segment_erase(ids: Array, offsets: Offsets, tokens: Array) -> tuple[Array, Offsets]:
    """See ids.py."""
    marks = room_for_marks(ids.size)
    given = (cupy.ascontiguousarray(ids), ids.size, marks.height, cupy.asarray(tokens), tokens.size)
    kernel = f"erase_kept<{c_type(ids.dtype, 'erase')}>"
    run("ids", kernel, marks.grid, (THREADS,), *given, marks.kept, marks.tiles)
    return compressed(ids, offsets, marks)


def segment_compress(data: Array, offsets: Offsets, mask: Array) -> tuple[Array, Offsets]:
    """See ids.py. The new index goes to main memory: this waits for the device."""
    marks = room_for_marks(mask.size, cupy.ascontiguousarray(mask))
    args = (marks.kept, mask.size, marks.height, marks.tiles)
    run("ids", "mask_kept", marks.grid, (THREADS,), *args)
    return compressed(data, offsets, marks)


def compressed(data: Array, offsets: Offsets, marks: Marks) -> tuple[Array, Offsets]:
    """Return the marked rows of data (N, ...), and the new offsets."""
    rows, out = flat_rows(data), cupy.empty(data.shape, data.dtype)
    row_bytes = rows.shape[1] * rows.itemsize
    word = word_bytes(row_bytes, rows, out) if row_bytes else 1
    words = row_bytes // word
    lanes = min(WARP, 1 << max(0, words - 1).bit_length())
    bounds = cupy.empty(offsets.size, np.int64)
    args = (rows, *marks.placed_by(offsets), words, lanes, bounds, out)
    run("ids", f"compress_rows<{WORDS[word]}>", marks.grid, (THREADS,), *args)
    there = kept_bounds(bounds, len(data))
    return trimmed(out, there), there


def kept_bounds(bounds: Array, rows: int) -> Offsets:
    """Return the new offsets in main memory; zeros if there are no rows."""
    there: Offsets = cupy.asnumpy(bounds) if rows else np.zeros(bounds.size, np.int64)
    return there


def trimmed(out: Array, bounds: Offsets) -> Array:
    """Return the written rows: a view, unless it would keep far more memory alive."""
    found: Array = out[: int(bounds[-1])]
    spare = out.nbytes - found.nbytes
    return found.copy() if spare > max(SPARE_BYTES, found.nbytes) else found


def segment_enumerate(ids: Array, offsets: Offsets, win_size: int, pad_value: int) -> Array:
    """See ids.py."""
    out: Array = cupy.empty((ids.size, win_size), ids.dtype)
    grid, block = tiles(ids.size, win_size, HEIGHT)
    run(
        *("ids", f"enumerate<{WORDS[ids.itemsize]}>", grid, block, cupy.ascontiguousarray(ids)),
        *(on_device(offsets), offsets.size - 1, ids.size, win_size, HEIGHT),
        *(cupy.full(1, pad_value, ids.dtype), out),
    )
    return out
