"""See shift.py. Rows are copied as bytes, and subtracted as rows of any rank."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.halves_native import narrowed, widened
from lodcli.kernels.ops.padding.pad_native import FILL_BYTES
from lodcli.kernels.ops.rows import flat_rows, real_columns
from lodcli.kernels.ops.shifting.shift import difference_dtype
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.simd.row_copies import row_bytes, rows_a_piece, streamed

VECTOR_BYTES = 64  # as in simd/instructions.py

_MODULE = "kernels.ops.shifting.shift_numba"
_shift, _diff, _diff_grad = (load.kernel(_MODULE, name) for name in ("shift", "diff", "diff_grad"))


def segment_shift(
    data: Array, offsets: Offsets, lag: int, *, pad_value: npt.ArrayLike = 0
) -> Array:
    """See shift.py."""
    result = empty(data.shape, data.dtype)
    if result.size:
        rows, width, size = np.ascontiguousarray(data), row_bytes(data), result.nbytes
        # Many copies of the fill row, so that most gaps are filled in one move.
        copies = min(abs(lag), FILL_BYTES // width + 1) or 1
        fill = np.full((copies, *data.shape[1:]), pad_value, data.dtype)
        piece_rows, segments = rows_a_piece(width), offsets.size - 1
        run(
            _shift[""], -(-data.shape[0] // piece_rows), 2 * size,
            rows, size, np.ascontiguousarray(offsets), fill, copies, result, width,
            segments, lag, piece_rows, streamed(size, 2 * segments),
        )  # fmt: skip
    return result


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
    rows, index = _columns(data, dtype), np.ascontiguousarray(offsets)
    ends = index if bounds is None else np.ascontiguousarray(bounds)
    out = empty((ends.item(-1), rows.shape[1]), rows.dtype)
    if out.size:
        fill = _columns(np.full((1, *data.shape[1:]), pad_value, dtype), dtype)
        piece_rows = rows_a_piece(row_bytes(out))
        run(
            _diff[rows.dtype.char], -(-len(out) // piece_rows), 3 * out.nbytes, rows, index, ends,
            fill, out, len(rows), index.size - 1, rows.shape[1], lag, bounds is None,
            VECTOR_BYTES // out.itemsize, piece_rows,
        )  # fmt: skip
    return _as_before(out, data, dtype)


def segment_diff_grad(upstream: Array, offsets: Offsets, bounds: Offsets | None, lag: int) -> Array:
    """See shift.py."""
    dtype = difference_dtype(upstream.dtype)
    flow, index = _columns(upstream, dtype), np.ascontiguousarray(offsets)
    ends = index if bounds is None else np.ascontiguousarray(bounds)
    out = empty((index.item(-1), flow.shape[1]), flow.dtype)
    if out.size:
        piece_rows = rows_a_piece(row_bytes(out))
        run(
            _diff_grad[flow.dtype.char], -(-len(out) // piece_rows), 3 * out.nbytes, flow, index,
            ends, out, len(flow), index.size - 1, flow.shape[1], lag, bounds is None,
            VECTOR_BYTES // out.itemsize, piece_rows,
        )  # fmt: skip
    return _as_before(out, upstream, dtype)


def _columns(data: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return rows (N, D) of float32, float64 or int64: halves widened, complex numbers as two."""
    rows = widened(data) if is_half(dtype) else data.astype(dtype, copy=False)
    return real_columns(flat_rows(rows))


def _as_before(out: Array, data: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return rows that `_columns` changed in the shape of `data` again."""
    found = narrowed(out, dtype) if is_half(dtype) else out.view(dtype)
    return found.reshape(len(out), *data.shape[1:])
