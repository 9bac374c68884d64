"""One row a segment, spread over the rows of the segment."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.copying import rows_a_piece, words
from lodcli.kernels.ops.common import result_array

_EVERY, _FIRST, _LAST = 0, 1, 2


def spread_rows(
    rows: Array, offsets: Offsets, *, only: str = "", out: Array | None = None
) -> Array:
    """Return rows[s] for every row of segment s, or zeros but the "first" or "last" row.

    Args:
        rows: (S, ...), any dtype.
        offsets: (S+1,) int64.
        only: "", "first" or "last".
        out: where they go; by default a new array.
    """
    result = result_array(out, (int(offsets[-1]), *rows.shape[1:]), rows.dtype, rows)
    if result.size:
        to = words(result)
        kind = {"": _EVERY, "first": _FIRST, "last": _LAST}[only]
        _spread(words(rows), offsets, kind, to, rows_a_piece(to))
    return result


@nb.njit(parallel=True, cache=True, nogil=True)
def _spread(rows: Any, offsets: Any, kind: int, out: Any, size: int) -> None:
    width = out.shape[1]
    for piece in nb.prange((out.shape[0] + size - 1) // size):
        r, stop = piece * size, min((piece + 1) * size, out.shape[0])
        s = np.searchsorted(offsets, r, side="right") - 1
        while r < stop:
            end = min(offsets[s + 1], stop)
            if width == 1 and kind == _EVERY:
                out[r:end, 0] = rows[s, 0]
                r = end
            while r < end:
                row = out[r]
                if (
                    kind == _EVERY
                    or (kind == _FIRST and r == offsets[s])
                    or (kind == _LAST and r == offsets[s + 1] - 1)
                ):
                    source = rows[s]
                    for k in range(width):
                        row[k] = source[k]
                else:
                    for k in range(width):
                        row[k] = 0
                r += 1
            s += 1
