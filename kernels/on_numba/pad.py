"""See ops/pad.py. Every byte of the box is written once, by threads that take equal stretches."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba import moves
from lodcli.kernels.on_numba.copying import address, frozen, gather_first, row_bytes, rows_a_piece
from lodcli.kernels.on_numba.threads import run
from lodcli.kernels.ops.common import flat_rows, result_array

FILL_BYTES = 1 << 12
_copy = moves.copy


def segment_pad(
    data: Array,
    offsets: Offsets,
    maxlen: int,
    *,
    pad_value: npt.ArrayLike = 0,
    out: Array | None = None,
) -> Array:
    """See ops/pad.py."""
    shape = (offsets.size - 1, maxlen, *data.shape[1:])
    result = result_array(out, shape, data.dtype, data)
    if result.size:
        rows, width = flat_rows(data), row_bytes(result.reshape(-1, *data.shape[1:]))
        # Many rows of it, so that most gaps are filled in one move.
        fill = np.empty((FILL_BYTES // width + 1, *data.shape[1:]), data.dtype)
        fill[...] = pad_value
        run(
            *(_pad, result.nbytes),
            *(address(rows), rows.nbytes, frozen(offsets), maxlen),
            *(address(fill), fill.nbytes, address(result), width, rows_a_piece(width)),
        )
    return result


def segment_unpad(padded: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/pad.py."""
    box = padded.reshape(padded.shape[0] * padded.shape[1], *padded.shape[2:])
    return gather_first(box, padded.shape[1], offsets, out)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _pad(
    at: int,
    size: int,
    offsets: Any,
    steps: int,
    fill: int,
    fill_size: int,
    to: int,
    width: int,
    piece_rows: int,
) -> None:
    total = (offsets.size - 1) * steps
    for piece in nb.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        stop, s = to + stop_row * width, row // steps
        while row < stop_row:
            t = row - s * steps
            n = min(offsets[s + 1] - offsets[s], steps)
            here, left = to + row * width, (min(s * steps + steps, stop_row) - row) * width
            if t < n:
                size_here = min((n - t) * width, left)
                _copy(here, stop, at + (offsets[s] + t) * width, at + size, size_here)
                here += size_here
                left -= size_here
            while left > 0:
                size_here = min(left, fill_size)
                _copy(here, stop, fill, fill + fill_size, size_here)
                here += size_here
                left -= size_here
            s += 1
            row = s * steps
