"""One row of each segment, broadcast over the rows of the segment."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.rows import flat_rows, result_array
from lodcli.kernels.simd.row_copies import row_bytes, rows_a_piece, streamed_rows

_KINDS = {"": 0, "first": 1, "last": 2}
_broadcast = load.kernel("kernels.simd.broadcast_numba", "broadcast")


def broadcast_rows(
    rows: Array, offsets: Offsets, *, only: str = "", out: Array | None = None
) -> Array:
    """Return rows[s] for every row of segment s, or for its first or last row and zeros elsewhere.

    Args:
        rows: (S, ...), any dtype.
        offsets: (S+1,) int64.
        only: "first" or "last": the row of each segment that gets values; "": all rows.
        out: the array for the result; by default a new one.
    """
    total = offsets.item(-1)
    result = result_array(out, (total, *rows.shape[1:]), rows.dtype, rows)
    if result.size:
        source, width = flat_rows(rows), row_bytes(result)
        piece_rows, size = rows_a_piece(width), result.nbytes
        run(
            *(_broadcast[""], -(-total // piece_rows), size, source, source.nbytes),
            *(np.ascontiguousarray(offsets), _KINDS[only], result, width),
            *(offsets.size - 1, piece_rows, not only and streamed_rows(size, total)),
        )
    return result
