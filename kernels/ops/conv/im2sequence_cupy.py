"""See im2sequence.py. The padded images are never stored: im2sequence.cu."""

from __future__ import annotations

import cupy

from lodcli.kernels.cuda.launch import THREADS, WORDS, blocks, c_type, run
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.conv.im2sequence import Pair, Quad, window_sizes
from lodcli.kernels.ops.rows import real_columns
from lodcli.kernels.options import to_main_memory

MOST = (1 << 32) - 1


def im2sequence_rows(images: Array, *, kernels: Pair, strides: Pair, paddings: Quad) -> Array:
    """See im2sequence.py."""
    sizes = window_sizes(images.shape, kernels, strides, paddings)
    _, _, _, below, beside, *_ = sizes
    # Positions in a window, and windows of an image, are 32-bit.
    if max(images.shape[1] * kernels[0] * kernels[1], below * beside) > MOST:
        raise UnsupportedError(
            f"im2sequence on a GPU supports at most {MOST} columns, and windows of an image; "
            f"{to_main_memory('the images')}"
        )
    shape = (len(images) * below * beside, images.shape[1] * kernels[0] * kernels[1])
    out: Array = cupy.empty(shape, images.dtype)
    grid = (blocks(out.size, THREADS),)
    args = (cupy.ascontiguousarray(images), out.size, *sizes, out)
    run("im2sequence", f"windows<{WORDS[out.itemsize]}>", grid, (THREADS,), *args)
    return out


def im2sequence_back(
    rows: Array, shape: tuple[int, ...], *, kernels: Pair, strides: Pair, paddings: Quad
) -> Array:
    """See im2sequence.py."""
    out: Array = cupy.empty(shape, rows.dtype)
    flow, values = real_columns(cupy.ascontiguousarray(rows)), real_columns(out)
    sizes = window_sizes(shape, kernels, strides, paddings)
    kernel = f"windows_grad<{c_type(flow.dtype, 'im2sequence')}>"
    grid = (blocks(values.size, THREADS),)
    args = (flow, values.size, *sizes, out.itemsize // flow.itemsize, values)
    run("im2sequence", kernel, grid, (THREADS,), *args)
    return out
