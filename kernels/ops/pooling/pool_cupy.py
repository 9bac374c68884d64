"""See pool.py. Tree reduction over tiles of equal height: pool.cu."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from lodcli.kernels.cuda.launch import (
    C_WIDE,
    WORDS,
    at_once,
    blocks,
    c_type,
    flat_rows,
    is_narrow,
    narrow_tiles,
    on_device,
    result_array,
    run,
    shares,
    shortest_and_longest,
    tiles,
)
from lodcli.kernels.cuda.row_copies import word_bytes, word_numbers
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import mean_dtype, summed_dtype
from lodcli.kernels.ops.rows import real_columns

AS_IT_IS, MEAN, ROOT, NEGATIVE = range(4)
HEIGHT, LONG, EMPTY = 64, 64, 8  # as in parts.cuh and pool.cu
PICKED = 4  # segments whose first or last row a thread copies one word of


def segment_sum(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _pooled("SUM", data, offsets, pad_value, summed_dtype(data.dtype), out)


def segment_negative_sum(data: Array, offsets: Offsets) -> Array:
    """Return the negative sums of floats: (N, ...) to (S, ...)."""
    return _pooled("SUM", data, offsets, 0, data.dtype, None, scale=NEGATIVE)


def segment_mean(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _pooled("SUM", data, offsets, pad_value, mean_dtype(data.dtype), out, scale=MEAN)


def segment_sqrt(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _pooled("SUM", data, offsets, pad_value, mean_dtype(data.dtype), out, scale=ROOT)


def segment_max(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _pooled("MAX", data, offsets, pad_value, data.dtype, out)


def segment_min(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _pooled("MIN", data, offsets, pad_value, data.dtype, out)


def segment_max_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """See pool.py."""
    return _pooled_index("MAX_INDEX", data, offsets, pad_value, out)


def segment_min_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """See pool.py."""
    return _pooled_index("MIN_INDEX", data, offsets, pad_value, out)


def segment_first(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _picked(data, offsets, pad_value, out, from_end=False)


def segment_last(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _picked(data, offsets, pad_value, out, from_end=True)


def _pooled(
    op: str,
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None,
    scale: int = AS_IT_IS,
) -> Array:
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    pad = _pad_numbers(pad_value, result.dtype, offsets)
    _reduce(op, real_columns(flat_rows(data)), offsets, real_columns(result), None, scale, pad)
    return result


def _pooled_index(
    op: str,
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    out: tuple[Array, Offsets] | None,
) -> tuple[Array, Offsets]:
    to, places = (None, None) if out is None else out
    shape = (offsets.size - 1, *data.shape[1:])
    result = result_array(to, shape, data.dtype, data)
    index = result_array(places, shape, np.dtype(np.int64), data, result)
    pad = _pad_numbers(pad_value, result.dtype, offsets)
    _reduce(op, flat_rows(data), offsets, result, index, AS_IT_IS, pad)
    return result, index


def _reduce(
    op: str,
    rows: Array,
    offsets: Offsets,
    out: Array,
    index: Array | None,
    scale: int,
    pad: tuple[int, int],
) -> None:
    """Write the reduction of every segment; `pad` are the bytes of a segment without rows."""
    count, width = rows.shape
    segments = offsets.size - 1
    if not segments or not width:
        return
    kind, wide = c_type(rows.dtype, "pooling"), _wide(rows.dtype, scale)
    to = c_type(out.dtype, "pooling")
    has_index = index is not None
    found = cupy.empty(0, np.int64) if index is None else index
    where = on_device(offsets)
    shortest, longest = shortest_and_longest(offsets)
    # Aligned like the fields of a struct in C++.
    part = np.dtype([("value", wide), ("row", np.int64)], align=True) if has_index else wide
    has_long, units = longest > LONG, blocks(count, HEIGHT)

    def space(units: int) -> tuple[Array, Array]:
        """Return arrays for parts and their segments."""
        size_bytes = 2 * units * width * part.itemsize
        return cupy.empty(size_bytes, np.uint8), cupy.empty(2 * units, np.int64)

    parts, keys = space(units if has_long else 0)
    types = f"{C_WIDE[wide.name]}, {to}, {op}"
    finish = (scale, out, found)
    rest = (where, segments, count, width, *finish, int(has_long), parts, keys)
    many = at_once(width, rows, out, found, most=4 if has_index else 8)
    if is_narrow(width * rows.itemsize):
        kernel = f"pool_narrow<{kind}, {types}>"
        (tiled, *across), block = narrow_tiles(count, width, width * rows.itemsize, HEIGHT)
    else:
        kernel = f"pool_tiles<{kind}, {types}, {many}>"
        (tiled, *across), block = tiles(count, width // many, HEIGHT)
    empty = 0 if shortest else blocks(segments, block[1] * EMPTY)
    run("pool", kernel, (tiled + empty, *across), block, rows, *rest, tiled, *pad)
    depth = 1
    while has_long and units > 1:
        count, units = 2 * units, blocks(2 * units, HEIGHT)
        above, of_above = space(units)
        joined = (parts, keys, where, count, width, depth, *finish, above, of_above)
        run("pool", f"pool_parts<{types}>", *tiles(count, width, HEIGHT), *joined)
        parts, keys, depth = above, of_above, depth + 1


def wide_type(dtype: np.dtype[Any]) -> str:
    """Return the C++ accumulator type: float for half precision."""
    return C_WIDE[_wide(dtype, AS_IT_IS).name]


def _wide(dtype: np.dtype[Any], scale: int) -> np.dtype[Any]:
    """Return the dtype of accumulators; double precision for the mean of integers."""
    if is_float(dtype):
        return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
    if scale:
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def _pad_numbers(
    pad_value: npt.ArrayLike, dtype: np.dtype[Any], offsets: Offsets
) -> tuple[int, int]:
    """Return the 16 bytes that fill empty segments; any bytes if there are none."""
    if offsets.size == 1 or shortest_and_longest(offsets)[0]:
        return 0, 0
    return word_numbers(np.asarray(pad_value).astype(dtype))


def _picked(
    data: Array, offsets: Offsets, pad_value: npt.ArrayLike, out: Array | None, *, from_end: bool
) -> Array:
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), data.dtype, data)
    rows, where = flat_rows(data), on_device(offsets)
    segments, width = offsets.size - 1, rows.shape[1]
    word = word_bytes(width * rows.itemsize, rows, result)
    words = width * rows.itemsize // word
    pad = _pad_numbers(pad_value, result.dtype, offsets)
    dealt = is_narrow(words * word)
    args = (rows, where, segments, words, PICKED, int(dealt), int(from_end), *pad, result)
    if words:
        shape = shares(segments, words, 1, PICKED, dealt=dealt)
        run("pool", f"pool_pick<{WORDS[word]}>", *shape, *args)
    return result
