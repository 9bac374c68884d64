"""See shift.py. One launch each: rows are shared among threads as in elementwise_cupy.py."""

from __future__ import annotations

import cupy
import numpy as np
import numpy.typing as npt

from lodcli.kernels.cuda.launch import (
    C_TYPES,
    WORDS,
    at_once,
    flat_rows,
    is_narrow,
    on_device,
    run,
    shares,
    tiles,
)
from lodcli.kernels.cuda.row_copies import word_bytes, word_numbers
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import working_dtype
from lodcli.kernels.ops.rows import real_columns
from lodcli.kernels.ops.shifting.shift import difference_dtype

HEIGHT = 16


def segment_shift(
    data: Array, offsets: Offsets, lag: int, *, pad_value: npt.ArrayLike = 0
) -> Array:
    """See shift.py. Rows are copied as words."""
    rows = cupy.ascontiguousarray(data)
    out: Array = cupy.empty(data.shape, data.dtype)
    if out.size:
        width = out.nbytes // len(out)
        word = word_bytes(width, rows, out)
        run(
            *("shift", f"shift_rows<{WORDS[word]}>", *tiles(len(out), width // word, HEIGHT)),
            *(rows, on_device(offsets), offsets.size - 1, len(out), width // word, lag, HEIGHT),
            *(int(is_narrow(width)), *word_numbers(np.asarray(pad_value, data.dtype)), out),
        )
    return out


def segment_diff(
    data: Array,
    offsets: Offsets,
    bounds: Offsets | None,
    lag: int,
    *,
    pad_value: npt.ArrayLike = 0,
) -> Array:
    """See shift.py."""
    dtype = difference_dtype(data.dtype)
    count = len(data) if bounds is None else int(bounds[-1])
    pad = word_numbers(np.asarray(pad_value, dtype))
    return _differences("diff_rows", data, offsets, bounds, lag, count, *pad)


def segment_diff_grad(upstream: Array, offsets: Offsets, bounds: Offsets | None, lag: int) -> Array:
    """See shift.py."""
    return _differences("diff_grad", upstream, offsets, bounds, lag, int(offsets[-1]))


def _differences(
    kernel: str,
    data: Array,
    offsets: Offsets,
    bounds: Offsets | None,
    lag: int,
    count: int,
    *pad: int,
) -> Array:
    """Return `count` rows of differences of rows, of their shape."""
    dtype = difference_dtype(data.dtype)
    rows = real_columns(flat_rows(data))
    out: Array = cupy.empty((count, *data.shape[1:]), dtype)
    to = real_columns(flat_rows(out))
    if to.size:
        width, dealt = to.shape[1], is_narrow(to.nbytes // count)
        many = 1 if dealt else at_once(width, rows, to, most=16 // to.itemsize)
        dtypes = rows.dtype, working_dtype(to.dtype), to.dtype
        types = ", ".join([*(C_TYPES[one.name] for one in dtypes), str(many)])
        ends = offsets if bounds is None else bounds
        run(
            *("shift", f"{kernel}<{types}>", *shares(count, width, many, HEIGHT, dealt=dealt)),
            *(rows, on_device(offsets), on_device(ends), offsets.size - 1, count, width, lag),
            *(int(bounds is None), HEIGHT, int(dealt), *pad, to),
        )
    return out
