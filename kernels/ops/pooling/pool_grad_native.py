"""See pool_grad.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import WORDS
from lodcli.kernels.ops.pooling import pool_grad as reference
from lodcli.kernels.ops.rows import flat_rows, piece_count
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.simd.broadcast import broadcast_rows

_INT64 = np.dtype(np.int64)
_MODULE = "kernels.ops.pooling.pool_numba"
_divide, _put = (load.kernel(_MODULE, name) for name in ("divided", "put"))


def segment_sum_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(upstream, offsets)


def segment_mean_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(_divided(upstream, offsets, root=False), offsets)


def segment_sqrt_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(_divided(upstream, offsets, root=True), offsets)


def segment_first_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(upstream, offsets, only="first")


def segment_last_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(upstream, offsets, only="last")


def segment_max_grad(upstream: Array, index: Array, rows: int) -> Array:
    """See pool_grad.py."""
    word = WORDS[upstream.itemsize]
    if word.kind != "u" or index.dtype != _INT64:
        return reference.segment_max_grad(upstream, index, rows)
    given, out = flat_rows(upstream), np.zeros((rows, *upstream.shape[1:]), upstream.dtype)
    pieces = piece_count(given)
    run(
        _put[word.char], pieces, 4 * given.nbytes, given.view(word), flat_rows(index),
        out.view(word), *given.shape, pieces,
    )  # fmt: skip
    return out


def segment_taken_grad(upstream: Array, index: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return segment_max_grad(upstream, index, offsets.item(-1))


def _divided(upstream: Array, offsets: Offsets, *, root: bool) -> Array:
    """Return every row divided by the length of its segment, or the square root of it."""
    if upstream.dtype.char not in "fd":
        return reference.divided_rows(upstream, offsets, root=root)
    rows, out = flat_rows(upstream), empty(upstream.shape, upstream.dtype)
    pieces = piece_count(rows)
    run(
        _divide[rows.dtype.char], pieces, 2 * rows.nbytes, rows, np.ascontiguousarray(offsets),
        root, out, *rows.shape, pieces,
    )  # fmt: skip
    return out
