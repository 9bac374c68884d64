"""See linear_scan.py. Blocks of a long sequence are computed by all threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.calls import Kernel
from lodcli.kernels.native.pool import SHARED_BYTES, run_shared
from lodcli.kernels.ops.rows import flat_rows, real_columns
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.runtime.threads import thread_count

# Size of each array in a piece: all fit the L2 cache. The last digits of results depend on it. A
# quarter of it is not a multiple of a page, so that the four parts of a piece do not compete for
# the same cache sets.
PIECE_BYTES = (1 << 17) + 4 * 9 * 64
_LEAST_ROWS = 64

_INT64 = np.dtype(np.int64)
_MODULE = "kernels.ops.scan.linear_scan_numba"
_turned = load.kernel(_MODULE, "turned")
_PARTS = ("", "_grad", "_firsts")
_REAL, _COMPLEX = (
    [load.kernel(_MODULE, name + part) for part in _PARTS] for name in ("linear", "linear_complex")
)


def segment_linear_scan(
    a: Array, b: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> Array:
    """See linear_scan.py."""
    columns = _columns if b.dtype.kind == "c" else flat_rows
    x, y = columns(a), columns(b)
    out = empty(y.shape, y.dtype)
    start = None if initial is None else columns(initial)
    if y.size:
        pieces = _Pieces(y, offsets, reverse)
        kernels = _COMPLEX if b.dtype.kind == "c" else _REAL
        pieces.run(
            kernels[0][y.dtype.char], 3 * y.nbytes, x, y, pieces.offsets, start, out,
            *pieces.scratch, offsets.size - 1, y.shape[1], _step(x, y), start is not None,
            reverse, pieces.rows,
        )  # fmt: skip
    return _like(out, b)


def segment_linear_scan_grad(
    upstream: Array, a: Array, h: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> tuple[Array, Array, Array | None]:
    """See linear_scan.py."""
    columns = _columns if h.dtype.kind == "c" else flat_rows
    flow, x, y = columns(upstream), columns(a), columns(h)
    of_a, of_b = empty(y.shape, y.dtype), empty(y.shape, y.dtype)
    (_, width), segments, kind = y.shape, offsets.size - 1, y.dtype.char
    start = np.zeros((1, width), y.dtype) if initial is None else columns(initial)
    of_start = None if initial is None else np.zeros(start.shape, y.dtype)
    if y.size:
        _, backward, firsts = _COMPLEX if h.dtype.kind == "c" else _REAL
        step, pieces = _step(x, y), _Pieces(y, offsets, not reverse)
        pieces.run(
            backward[kind], 5 * y.nbytes, flow, x, y, pieces.offsets, of_a, of_b,
            *pieces.scratch, segments, width, step, not reverse, pieces.rows,
        )  # fmt: skip
        firsts[kind].call(
            0, 1, x, of_a, of_b, np.ascontiguousarray(offsets), start, of_start, segments,
            width, step, of_start is not None, reverse,
        )  # fmt: skip
    of_initial = None
    if of_start is not None and initial is not None:
        of_initial = _like(of_start, initial)
    return _like(of_a, h), _like(of_b, h), of_initial


def _columns(array: Array) -> Array:
    """Return rows of any shape as real columns."""
    return real_columns(flat_rows(array))


def _like(columns: Array, given: Array) -> Array:
    """Return columns in the dtype and shape of the given rows."""
    if given.ndim == 2 and columns.dtype is given.dtype:  # fast path
        return columns
    return columns.view(given.dtype).reshape(given.shape)


def _step(a: Array, b: Array) -> int:
    return b.shape[1] if len(a) == len(b) else 0


class _Pieces:
    """Rows split into pieces of equal height, and the carries between them."""

    def __init__(self, rows: Array, offsets: Offsets, reverse: bool) -> None:
        count, width = rows.shape
        self.rows = max(_LEAST_ROWS, PIECE_BYTES // (width * rows.itemsize))
        self.count = -(-count // self.rows)
        self.scratch: tuple[Array | None, ...] = (None, None, None)
        if self.count > 1:  # a single piece has no carry
            shape = (self.count, width)
            self.scratch = (
                *(np.empty(shape, rows.dtype), np.empty(shape, rows.dtype)),
                np.zeros(self.count, np.int64),
            )
        self.offsets = np.ascontiguousarray(offsets)
        if reverse:
            given, self.offsets = self.offsets, np.empty(offsets.size, _INT64)
            _turned[""].call(0, 1, given, self.offsets, offsets.size - 1)

    def run(self, kernel: Kernel, size_bytes: int, *arguments: Any) -> None:
        """Process all pieces, by several threads if that is faster."""
        if size_bytes < SHARED_BYTES or self.count < 2:
            kernel.call(0, self.count, *arguments)
        else:
            # One at a time: a thread that took several would delay the next piece.
            run_shared(kernel, self.count, thread_count(), *arguments, grain=1, in_order=True)
