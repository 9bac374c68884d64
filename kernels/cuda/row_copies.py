"""Copies of whole rows, used by expand, concat, reverse, pad and slice."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    WORDS,
    address,
    is_narrow,
    on_device,
    result_array,
    run,
    tiles,
)
from lodcli.kernels.index.checks import Array, Offsets

HEIGHT = 8


def move_runs(
    data: Array,
    starts: Offsets,
    offsets: Offsets,
    out: Array,
    *,
    step: int = 1,
    places: Offsets | None = None,
) -> None:
    """Write run k to rows offsets[k]..offsets[k+1] of `out`.

    Args:
        data: rows, C-contiguous, on the device.
        starts: (K,), the first row of each run in `data`.
        offsets: (K+1,), the prefix sums of the lengths of the runs.
        out: rows of the same shape.
        step: distance to a run's next row in `data`: 1, -1, or 0 to repeat the row.
        places: (K,), the first row of each run in `out`; by default one after another.
    """
    rows = int(offsets[-1])
    width = int(np.prod(out.shape[1:], dtype=np.int64)) * out.itemsize
    if not rows or not width:
        return
    word = word_bytes(width, data, out)
    walk = on_device(offsets)
    where = walk if places is None else on_device(places)
    grid, block = tiles(rows, width // word, HEIGHT)
    run(
        *("row_copies", f"move_{_narrow(width)}runs<{WORDS[word]}>", grid, block),
        *(data, on_device(starts), step, walk, where, offsets.size - 1, rows),
        *(width // word, HEIGHT, out),
    )


def pad_rows(data: Array, offsets: Offsets, steps: int, fill: Array, out: Array) -> None:
    """Write the first `steps` rows of each segment, padded with `fill`.

    Args:
        data: (N, ...) rows, C-contiguous, on the device.
        offsets: (S+1,).
        steps: rows of each segment in `out`.
        fill: one value, or one row, in main memory; of the dtype of the rows.
        out: (S, steps, ...).
    """
    if not out.size:
        return
    width = out.nbytes // (out.shape[0] * steps)
    pad = cupy.asarray(fill.reshape(-1)) if fill.ndim else cupy.empty(0, fill.dtype)
    word = word_bytes(width, data, out, pad)
    rows = out.shape[0] * steps
    grid, block = tiles(rows, width // word, HEIGHT)
    run(
        *("row_copies", f"move_{_narrow(width)}pad<{WORDS[word]}>", grid, block),
        *(data, on_device(offsets), rows, steps, width // word, HEIGHT),
        *(pad, int(fill.ndim > 0), *(word_numbers(fill) if not fill.ndim else (0, 0)), out),
    )


def unpad_rows(box: Array, offsets: Offsets, out: Array) -> None:
    """Write the rows of each segment of a padded batch, and zeros where the batch has fewer.

    Args:
        box: (S, T, ...) rows, on the device.
        offsets: (S+1,).
        out: (N, ...).
    """
    if not out.size:
        return
    given, width = cupy.ascontiguousarray(box), out.nbytes // len(out)
    word = word_bytes(width, given, out)
    run(
        *("row_copies", f"move_unpad<{WORDS[word]}>", *tiles(len(out), width // word, HEIGHT)),
        *(given, on_device(offsets), offsets.size - 1, len(out), box.shape[1], width // word),
        *(HEIGHT, int(is_narrow(width)), out),
    )


def _narrow(width: int) -> str:
    """Return the prefix of a kernel's name for rows of this many bytes."""
    return "narrow_" if is_narrow(width) else ""


def word_bytes(width: int, *arrays: Array) -> int:
    """Return the size of the widest words that rows of `width` bytes at this address consist of."""
    places = [width, *(address(array) for array in arrays if array.size)]
    return next(size for size in sorted(WORDS, reverse=True) if not any(p % size for p in places))


def word_numbers(value: Array) -> tuple[int, int]:
    """Return 16 bytes filled with a value, as two arguments of a launch; see types.cuh."""
    low, high = np.frombuffer((value.tobytes() * 16)[:16], np.int64).tolist()
    return low, high


def broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return row k of `data` at rows offsets[k]..offsets[k+1], on the device."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    rows = cupy.ascontiguousarray(data)
    move_runs(rows, cupy.arange(offsets.size - 1, dtype=np.int64), offsets, result, step=0)
    return result
