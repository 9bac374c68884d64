"""See linear_scan.py. Prefix sum of what rows make of a state, over tiles: scan.cu.

Across tiles the factors of a column are multiplied: where 64 of them overflow, a state of 0 becomes
NaN.
"""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    C_TYPES,
    blocks,
    flat_rows,
    on_device,
    run,
    shortest_and_longest,
    tiles,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.scan.linear_scan import gradients
from lodcli.kernels.ops.scan.scan_cupy import HEIGHT, LONG, through


def segment_linear_scan(
    a: Array, b: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> Array:
    """See linear_scan.py."""
    factors, summands = flat_rows(cupy.broadcast_to(a, b.shape)), flat_rows(b)
    result: Array = cupy.empty(summands.shape, summands.dtype)
    count, width = summands.shape
    if not summands.size:
        return result.reshape(b.shape)
    first, full = _firsts(offsets, reverse)
    if initial is not None:
        summands = summands.copy()
        summands[first] += factors[first] * flat_rows(initial)[full]
    # The factor of a first row is not used, whatever it is.
    factors = factors.copy()
    factors[first] = 0
    value = _c_type(summands.dtype)
    shape = tiles(count, width, HEIGHT)
    given = (factors, summands, on_device(offsets), offsets.size - 1, count, width, int(reverse))
    units = blocks(count, HEIGHT) if shortest_and_longest(offsets)[1] > LONG else 0
    # Pairs of numbers.
    totals = cupy.empty((units, width, 2), summands.dtype)
    keys = cupy.empty(units, np.int64)
    if units:
        run("scan", f"linear_totals<{value}>", *shape, *given, totals, keys)
        through("LINEAR", f"Effect<{value}>", totals, keys)
    run("scan", f"linear_rows<{value}>", *shape, *given, totals, result)
    return result.reshape(b.shape)


def segment_linear_scan_grad(
    upstream: Array,
    a: Array,
    h: Array,
    offsets: Offsets,
    *,
    initial: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array | None]:
    """See linear_scan.py."""
    firsts = _firsts(offsets, reverse)
    return gradients(cupy, segment_linear_scan, firsts, upstream, a, h, offsets, initial, reverse)


def _firsts(offsets: Offsets, reverse: bool) -> tuple[Array, Array]:
    """Return the first row of each segment that has one, and which segments these are."""
    (full,) = (offsets[:-1] < offsets[1:]).nonzero()
    first = offsets[full + 1] - 1 if reverse else offsets[full]
    return cupy.asarray(first), cupy.asarray(full)


def _c_type(dtype: np.dtype[np.generic]) -> str:
    if dtype.kind == "c":
        return "Complex<float>" if dtype.itemsize == 8 else "Complex<double>"
    return C_TYPES[dtype.name]
