"""See ops/scatter.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.runtime.jit_numba import njit
from lodcli.kernels.simd.row_copies import frozen


def segment_scatter(data: Array, ids: Offsets, updates: Array, offsets: Offsets) -> Array:
    """See ops/scatter.py."""
    out = np.array(data, order="C")
    _scatter(out, ids, np.ascontiguousarray(updates), offsets)
    return out


def segment_scatter_grad(grad: Array, ids: Offsets, offsets: Offsets) -> tuple[Array, Array]:
    """See ops/scatter.py."""
    rows, updates = np.array(grad, order="C"), np.empty(ids.size, grad.dtype)
    # As whole numbers of their size, so that float16 and bfloat16 are moved as well.
    size = grad.dtype.itemsize
    kind = np.dtype(f"u{size}") if size <= 8 else grad.dtype
    _picked(rows.view(kind), frozen(ids), frozen(offsets), updates.view(kind))
    return rows, updates


@njit(cache=True, nogil=True)
def _picked(rows, ids, offsets, updates):  # type: ignore[no-untyped-def]
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            updates[row] = rows[segment, ids[row]]


@njit(cache=True, nogil=True)
def _scatter(out, ids, updates, offsets):  # type: ignore[no-untyped-def]
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            out[segment, ids[row]] += updates[row]
