"""See im2sequence.py. The padded image is never stored."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.conv import im2sequence as reference
from lodcli.kernels.ops.conv.im2sequence import Pair, Quad, window_sizes
from lodcli.kernels.ops.dtypes import WORDS
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.simd.row_copies import row_bytes, rows_a_piece

_MODULE = "kernels.ops.conv.im2sequence_numba"
_windows, _back = (load.kernel(_MODULE, name) for name in ("windows", "windows_back"))


def im2sequence_rows(images: Array, *, kernels: Pair, strides: Pair, paddings: Quad) -> Array:
    """See im2sequence.py."""
    sizes = window_sizes(images.shape, kernels, strides, paddings)
    _, _, _, down, right, *_ = sizes
    out = empty((len(images) * down * right, sizes[0] * kernels[0] * kernels[1]), images.dtype)
    if out.size:
        word, piece_rows = WORDS[images.itemsize], rows_a_piece(row_bytes(out))
        run(
            _windows[word.char], -(-len(out) // piece_rows), 2 * out.nbytes,
            np.ascontiguousarray(images).view(word), out.view(word), *sizes, len(out), piece_rows,
        )  # fmt: skip
    return out


def im2sequence_back(
    rows: Array, shape: tuple[int, ...], *, kernels: Pair, strides: Pair, paddings: Quad
) -> Array:
    """See im2sequence.py: the same sums, in the same order."""
    if rows.dtype.char not in "fd":
        return reference.im2sequence_back(
            rows, shape, kernels=kernels, strides=strides, paddings=paddings
        )
    out, given = np.zeros(shape, rows.dtype), np.ascontiguousarray(rows)
    sizes = window_sizes(shape, kernels, strides, paddings)
    run(_back[rows.dtype.char], shape[0], 2 * rows.nbytes, given, out, *sizes)
    return out
