"""See im2sequence.py. The padded image is never stored."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.conv.im2sequence import Pair, Quad, window_counts
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.simd.row_copies import row_bytes, rows_a_piece

_windows = load.kernel("kernels.ops.conv.im2sequence_numba", "windows")


def im2sequence_rows(images: Array, *, kernels: Pair, strides: Pair, paddings: Quad) -> Array:
    """See im2sequence.py."""
    n, c, height, width = images.shape
    down, right = window_counts(images.shape, kernels, strides, paddings)
    out = empty((n * down * right, c * kernels[0] * kernels[1]), images.dtype)
    if out.size:
        # As whole words of their bits: a kernel for each size, not for each dtype.
        word = np.dtype(f"u{images.itemsize}") if images.itemsize <= 8 else np.dtype("c16")
        piece_rows = rows_a_piece(row_bytes(out))
        run(
            _windows[word.char], -(-len(out) // piece_rows), 2 * out.nbytes,
            np.ascontiguousarray(images).view(word), out.view(word), c, height, width,
            down, right, *kernels, *strides, *paddings[:2], len(out), piece_rows,
        )  # fmt: skip
    return out
