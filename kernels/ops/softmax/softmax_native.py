"""See softmax.py. A segment is computed in the cache, a long one by all threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import common_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.halves_native import narrow_to, widened
from lodcli.kernels.ops.rows import flat_rows, piece_count, result_array
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.runtime.threads import thread_count
from lodcli.kernels.simd.row_copies import STREAMED_BYTES, row_bytes

# A segment is long if it has more than 1/N of all rows, and at least this many.
LONG_SHARE = 32
LONG_VALUES = 1 << 18
LONG_PIECE_VALUES = 1 << 15
FOLD = 64  # values side by side for narrow rows
# Minimum bytes of rows whose columns are copied, SIDE_BYTES of each row at a time, and maximum
# number of rows of such a segment: the copy has to stay in the L2 cache. See decision 0022.
COPIED_ROW_BYTES, COPIED_ROWS = 1 << 8, 1 << 11
SIDE_BYTES, LINE_BYTES = 256, 64

_MODULE = "kernels.ops.softmax.softmax_numba"
_rows, _backward = (load.kernel(_MODULE, name) for name in ("rows", "gradient"))
_tops, _powers, _finish, _flows, _long_backward = (
    load.kernel(_MODULE, f"long_{name}")
    for name in ("tops", "powers", "finish", "flows", "gradient")
)


def segment_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See softmax.py."""
    return _applied(data, offsets, out, log=False)


def segment_log_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See softmax.py."""
    return _applied(data, offsets, out, log=True)


def segment_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See softmax.py."""
    return _gradient(upstream, result, offsets, log=False)


def segment_log_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See softmax.py."""
    return _gradient(upstream, result, offsets, log=True)


def _applied(data: Array, offsets: Offsets, out: Array | None, *, log: bool) -> Array:
    result = result_array(out, data.shape, data.dtype, data)
    rows = flat_rows(widened(data))
    half = rows.dtype != data.dtype
    to = empty(rows.shape, rows.dtype) if half else flat_rows(result)
    width, segments, kind = rows.shape[1], offsets.size - 1, rows.dtype.char
    index, most = np.ascontiguousarray(offsets), longest(rows)
    spare, room, pieces = _spare(rows, offsets)
    skipped = run(
        _rows[kind], pieces, 2 * rows.nbytes, rows, index, spare, to,
        segments, width, log, most, room, pieces,
    )  # fmt: skip
    if skipped:
        for part in long_segments(offsets, most):
            _softmax_long(rows[part], to[part], log=log)
    if half:
        narrow_to(result, to)
    return result


def _gradient(upstream: Array, result: Array, offsets: Offsets, *, log: bool) -> Array:
    y, flow = flat_rows(widened(result)), flat_rows(widened(upstream))
    if flow.dtype is not y.dtype:  # neither is rounded to the other before use
        dtype = common_dtype(y.dtype, flow.dtype)
        y, flow = y.astype(dtype, copy=False), flow.astype(dtype, copy=False)
    out = empty(y.shape, y.dtype)
    index, most = np.ascontiguousarray(offsets), longest(y)
    spare, room, pieces = _spare(y, offsets)
    skipped = run(
        _backward[y.dtype.char], pieces, 3 * y.nbytes, flow, y, index, spare, out,
        offsets.size - 1, y.shape[1], log, most, room, pieces,
    )  # fmt: skip
    if skipped:
        for part in long_segments(offsets, most):
            _softmax_long_grad(flow[part], y[part], out[part], log=log)
    out = out if result.ndim == 2 else out.reshape(result.shape)
    return out if out.dtype is result.dtype else as_dtype(out, result.dtype)


def _spare(rows: Array, offsets: Offsets) -> tuple[Array, int, int]:
    """Return scratch memory, the values of it for each piece, and the number of pieces.

    Results do not depend on the number of pieces that the segments are split into.
    """
    pieces = piece_count(rows)
    if rows.nbytes < STREAMED_BYTES or (size := row_bytes(rows)) < COPIED_ROW_BYTES:
        return rows, 0, pieces
    if size % LINE_BYTES:
        return rows, 0, pieces
    most = min(COPIED_ROWS, int(offsets_to_lengths(offsets).max(initial=0)))
    room = (2 * most * SIDE_BYTES + LINE_BYTES) // rows.itemsize
    pieces = min(pieces, 4 * thread_count())
    return empty((pieces * room,), rows.dtype), room, pieces


# -- Long segments: all threads, pass by pass, in the same pieces for any number of threads ------


def longest(rows: Array) -> int:
    """Return the maximum number of rows of a segment that is not long."""
    width = int(rows.shape[1])
    if not width:
        return len(rows)
    return max(LONG_VALUES // width, len(rows) // LONG_SHARE)


def long_segments(offsets: Offsets, most: int) -> Iterator[slice]:
    """Yield the rows of the segments that have more than `most`."""
    for s in np.flatnonzero(offsets_to_lengths(offsets) > most):
        yield slice(int(offsets[s]), int(offsets[s + 1]))


def _softmax_long(x: Array, out: Array, *, log: bool) -> None:
    """Write the softmax of all rows x (N, D), or its logarithm, to `out`."""
    kind, width = x.dtype.char, x.shape[1]
    parts = list(zip(_folded(x), _folded(out), strict=True))
    tops = []
    for part, _ in parts:
        top = _of_pieces(part)
        run(_tops[kind], len(top), part.nbytes, part, top, *part.shape, _piece_rows(part))
        tops.append(top.reshape(-1, width))
    top = np.concatenate(tops).max(axis=0)
    sums = []
    for part, to in parts:
        total = _of_pieces(part)
        run(
            _powers[kind], len(total), 2 * part.nbytes, part, to, _wide(top, part), total,
            *part.shape, _piece_rows(part),
        )  # fmt: skip
        sums.append(total.reshape(-1, width))
    total = _sum_of_pieces(sums)
    by = (np.log(total) if log else 1 / total).astype(x.dtype)
    for part, to in parts:
        run(
            _finish[kind], _count(part), 2 * part.nbytes, part, to, _wide(top, part),
            _wide(by, part), *part.shape, log, _piece_rows(part),
        )  # fmt: skip


def _softmax_long_grad(flow: Array, y: Array, out: Array, *, log: bool) -> None:
    """Write the gradient of a softmax y (N, D), or of its logarithm, to `out`."""
    kind, width = y.dtype.char, y.shape[1]
    parts = list(zip(_folded(flow), _folded(y), _folded(out), strict=True))
    sums = []
    for part_flow, part, _ in parts:
        total = _of_pieces(part)
        run(
            _flows[kind], len(total), 2 * part.nbytes, part_flow, part, total,
            *part.shape, log, _piece_rows(part),
        )  # fmt: skip
        sums.append(total.reshape(-1, width))
    total = _sum_of_pieces(sums).astype(y.dtype)
    for part_flow, part, to in parts:
        run(
            _long_backward[kind], _count(part), 3 * part.nbytes, part_flow, part,
            _wide(total, part), to, *part.shape, log, _piece_rows(part),
        )  # fmt: skip


def _folded(rows: Array) -> list[Array]:
    """Return narrow rows folded into wider ones, and the remaining rows."""
    width = rows.shape[1]
    fold = max(1, FOLD // width)
    many = rows.shape[0] // fold * fold
    found = [rows[:many].reshape(-1, width * fold), rows[many:]]
    return [each for each in found if each.shape[0]]


def _sum_of_pieces(sums: list[Array]) -> Array:
    """Return the sum of the sums (pieces, D) over pieces, in float64."""
    # Of folded rows there may be thousands, whose rounding errors in float32 add up.
    result: Array = np.concatenate(sums).sum(axis=0, dtype=np.float64)
    return result


def _wide(row: Array, part: Array) -> Array:
    """Return a row repeated as often as it occurs in a row of `part`."""
    return np.tile(row, part.shape[1] // row.size)


def _piece_rows(part: Array) -> int:
    return max(1, LONG_PIECE_VALUES // int(part.shape[1]))


def _count(part: Array) -> int:
    return -(-int(part.shape[0]) // _piece_rows(part))


def _of_pieces(part: Array) -> Array:
    """Return scratch memory of one row per piece."""
    return np.empty((_count(part), part.shape[1]), part.dtype)
