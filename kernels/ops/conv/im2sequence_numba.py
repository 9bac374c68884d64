"""See ops/im2sequence.py. The padded picture is never made: what lies outside stays zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.conv.im2sequence import Pair, Quad, window_counts
from lodcli.kernels.runtime.jit_numba import numba


def im2sequence_rows(images: Array, *, kernels: Pair, strides: Pair, paddings: Quad) -> Array:
    """See ops/im2sequence.py."""
    n, c, _, _ = images.shape
    down, right = window_counts(images.shape, kernels, strides, paddings)
    out = np.zeros((n * down * right, c * kernels[0] * kernels[1]), images.dtype)
    if out.size:
        # As whole words of their bits: a kernel for each size, not for each dtype.
        word = np.dtype(f"u{images.itemsize}") if images.itemsize <= 8 else np.dtype("c16")
        _windows(
            np.ascontiguousarray(images).view(word), down, right,
            (kernels[0], kernels[1]), (strides[0], strides[1]), (paddings[0], paddings[1]),
            out.view(word),
        )  # fmt: skip
    return out


@numba.njit(parallel=True, cache=True, nogil=True)
def _windows(
    images: Any, down: int, right: int, kernels: Any, strides: Any, before: Any, out: Any
) -> None:
    _, channels, height, width = images.shape
    for row in numba.prange(out.shape[0]):
        picture, window = row // (down * right), row % (down * right)
        top = window // right * strides[0] - before[0]
        left = window % right * strides[1] - before[1]
        at = 0
        for channel in range(channels):
            for i in range(top, top + kernels[0]):
                for j in range(left, left + kernels[1]):
                    if 0 <= i < height and 0 <= j < width:
                        out[row, at] = images[picture, channel, i, j]
                    at += 1
