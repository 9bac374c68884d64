"""See ops/pad.py. Every byte of the box is written once, by threads that take equal stretches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, result_array
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.runtime.numba_threads import run
from lodcli.kernels.simd import byte_moves as moves
from lodcli.kernels.simd import nontemporal_stores as streams
from lodcli.kernels.simd.nontemporal_stores import streamed
from lodcli.kernels.simd.row_copies import address, frozen, gather_first, row_bytes, rows_a_piece

FILL_BYTES = 1 << 12
_copy = moves.copy
_begin, _append, _finish = streams.begin, streams.append, streams.finish


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
            streamed(result.nbytes, 2 * (offsets.size - 1)),
        )
    return result


def segment_unpad(padded: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/pad.py."""
    box = padded.reshape(padded.shape[0] * padded.shape[1], *padded.shape[2:])
    return gather_first(box, padded.shape[1], offsets, out)


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _pad(
    at: int, size: int, offsets: Any, steps: int, fill: int, fill_size: int,
    to: int, width: int, piece_rows: int, streamed: bool,
) -> None:  # fmt: skip
    total = (offsets.size - 1) * steps
    for piece in numba.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        stop, s = to + stop_row * width, row // steps
        line, held, full = _begin(to + row * width)
        while row < stop_row:
            t = row - s * steps
            n = min(offsets[s + 1] - offsets[s], steps)
            here, left = to + row * width, (min(s * steps + steps, stop_row) - row) * width
            source, end, here_size = at + (offsets[s] + t) * width, at + size, (n - t) * width
            while left > 0:
                if here_size <= 0:
                    source, end, here_size = fill, fill + fill_size, fill_size
                here_size = min(here_size, left)
                if streamed:
                    begin = end - (fill_size if source == fill else size)
                    line, held, full = _append(
                        line, held, full, stop, source, begin, end, here_size
                    )
                else:
                    _copy(here, stop, source, end, here_size)
                here += here_size
                left -= here_size
                here_size = 0
            s += 1
            row = s * steps
        if streamed:
            _finish(line, held, full)
