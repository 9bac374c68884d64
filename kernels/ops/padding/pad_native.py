"""See pad.py. Every byte of the batch is written once, in pieces of equal size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.padding.pad import shortened
from lodcli.kernels.ops.rows import flat_rows, result_array
from lodcli.kernels.ops.slicing.slice_native import segment_place
from lodcli.kernels.simd.row_copies import gather_first, row_bytes, rows_a_piece, streamed

FILL_BYTES = 1 << 12
_pad = load.kernel("kernels.ops.padding.pad_numba", "pad")


def segment_pad(
    data: Array,
    offsets: Offsets,
    maxlen: int,
    *,
    pad_value: npt.ArrayLike = 0,
    out: Array | None = None,
) -> Array:
    """See pad.py."""
    segments = offsets.size - 1
    result = result_array(out, (segments, maxlen, *data.shape[1:]), data.dtype, data)
    if result.size:
        rows, width = flat_rows(data), row_bytes(result.reshape(-1, *data.shape[1:]))
        # Many copies of the fill row, so that most gaps are filled in one move.
        fill = np.empty((FILL_BYTES // width + 1, *data.shape[1:]), data.dtype)
        fill[...] = pad_value
        piece_rows, size = rows_a_piece(width), result.nbytes
        run(
            _pad[""], -(-(segments * maxlen) // piece_rows), size, rows, rows.nbytes,
            np.ascontiguousarray(offsets), maxlen, fill, fill.nbytes,
            result, width, segments, piece_rows, streamed(size, 2 * segments),
        )  # fmt: skip
    return result


def segment_unpad(padded: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See pad.py."""
    box = padded.reshape(padded.shape[0] * padded.shape[1], *padded.shape[2:])
    return gather_first(box, padded.shape[1], offsets, out)


def segment_pad_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pad.py."""
    bounds = shortened(offsets, upstream.shape[1])
    return segment_place(segment_unpad(upstream, bounds), offsets[:-1], bounds, int(offsets[-1]))
