"""See ids.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import WORDS, on_device, run, tiles
from lodcli.kernels.index.checks import Array, Offsets

HEIGHT = 8


def segment_erase(ids: Array, offsets: Offsets, tokens: Array) -> tuple[Array, Offsets]:
    """See ids.py."""
    kept = cupy.isin(ids, cupy.asarray(tokens), invert=True)
    return segment_compress(ids, offsets, kept)


def segment_compress(data: Array, offsets: Offsets, mask: Array) -> tuple[Array, Offsets]:
    """See ids.py. The new index goes to main memory: this waits for the device."""
    before = cupy.zeros(mask.size + 1, np.int64)
    before[1:] = cupy.cumsum(mask, dtype=np.int64)
    bounds: Offsets = cupy.asnumpy(before[on_device(offsets)])
    return data[mask], bounds


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
