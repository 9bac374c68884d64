"""See im2sequence.py. The windows are one view of the padded images, copied once."""

from __future__ import annotations

import cupy

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.conv.im2sequence import Pair, Quad


def im2sequence_rows(images: Array, *, kernels: Pair, strides: Pair, paddings: Quad) -> Array:
    """See im2sequence.py."""
    up, left, down, right = paddings
    padded = cupy.pad(images, ((0, 0), (0, 0), (up, down), (left, right)))
    views = cupy.lib.stride_tricks.sliding_window_view(padded, tuple(kernels), axis=(2, 3))
    chosen = views[:, :, :: strides[0], :: strides[1]].transpose(0, 2, 3, 1, 4, 5)
    count = chosen.shape[0] * chosen.shape[1] * chosen.shape[2]
    rows: Array = chosen.reshape(count, images.shape[1] * kernels[0] * kernels[1])
    return rows
