"""See ids.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import THREADS, WORDS, blocks, flat_rows, on_device, run, tiles
from lodcli.kernels.cuda.row_copies import word_bytes
from lodcli.kernels.index.checks import Array, Offsets

HEIGHT = 8


def segment_erase(ids: Array, offsets: Offsets, tokens: Array) -> tuple[Array, Offsets]:
    """See ids.py."""
    kept = cupy.isin(ids, cupy.asarray(tokens), invert=True)
    return segment_compress(ids, offsets, kept)


def segment_compress(data: Array, offsets: Offsets, mask: Array) -> tuple[Array, Offsets]:
    """See ids.py. The new index goes to main memory: this waits for the device."""
    kept = cupy.cumsum(mask, dtype=np.int64)
    bounds = kept_bounds(kept, offsets)
    return kept_rows(data, mask, kept, int(bounds[-1])), bounds


def kept_bounds(kept: Array, offsets: Offsets) -> Offsets:
    """Return the offsets of what is kept of each segment, in main memory.

    Args:
        kept: (N,) int64, how many of the rows up to each are kept.
        offsets: (S+1,).
    """
    count = offsets.size
    bounds = cupy.empty(count, np.int64)
    grid = (blocks(count, THREADS),)
    run("ids", "compress_bounds", grid, (THREADS,), kept, on_device(offsets), count, bounds)
    there: Offsets = cupy.asnumpy(bounds)
    return there


def kept_rows(data: Array, mask: Array, kept: Array, count: int) -> Array:
    """Return the `count` rows of data (N, ...) where a mask (N,) is true."""
    rows, given = flat_rows(data), cupy.ascontiguousarray(mask)
    out: Array = cupy.empty((count, *data.shape[1:]), data.dtype)
    if not out.size:
        return out
    width = rows.shape[1] * rows.itemsize
    word = word_bytes(width, rows, out)
    grid, block = tiles(len(rows), width // word, HEIGHT)
    run(
        *("ids", f"compress_rows<{WORDS[word]}>", grid, block, rows, given, kept),
        *(len(rows), width // word, HEIGHT, out),
    )
    return out


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
