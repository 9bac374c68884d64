"""See linear_scan.py. Prefix sum of linear maps (factor, summand) over tiles: scan.cu.

Factors of a column are multiplied across tiles: if 64 of them overflow, a state of 0 becomes NaN.
"""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import C_TYPES, blocks, flat_rows, shortest_and_longest, tiles
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.scan.scan_cupy import HEIGHT, Kernels, down_tiles

EMPTY = 8  # as in scan.cu


def segment_linear_scan(
    a: Array, b: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> Array:
    """See linear_scan.py."""
    out: Array = cupy.empty(b.shape, b.dtype)
    if b.size:
        _run("Effects", "linear_rows", a, b, offsets, initial, reverse, out)
    return out


def segment_linear_scan_grad(
    upstream: Array, a: Array, h: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> tuple[Array, Array, Array | None]:
    """See linear_scan.py."""
    of_a, of_b = cupy.empty(h.shape, h.dtype), cupy.empty(h.shape, h.dtype)
    of_initial: Array | None = None
    if initial is not None:
        of_initial = (cupy.empty if h.size else cupy.zeros)(initial.shape, h.dtype)
    if h.size:
        count, width = flat_rows(h).shape
        (tiled, _), (_, units) = tiles(count, width, HEIGHT)
        has_empty = of_initial is not None and not shortest_and_longest(offsets)[0]
        behind = blocks(offsets.size - 1, units * EMPTY) if has_empty else 0
        results = flat_rows(h), of_a, of_b, of_b if of_initial is None else of_initial, tiled
        kernel = "linear_grad_rows"
        _run(
            "Backward", kernel, a, upstream, offsets, initial, not reverse, *results, behind=behind
        )
    return of_a, of_b, of_initial


def _run(
    of_totals: str,
    kernel: str,
    a: Array,
    b: Array,
    offsets: Offsets,
    initial: Array | None,
    reverse: bool,
    *more: Array | int,
    behind: int = 0,
) -> None:
    """Run a kernel down all rows; its totals are of another type than the rows, see scan.cu."""
    factors, summands = flat_rows(a), flat_rows(b)
    count, width = summands.shape
    start = summands if initial is None else flat_rows(initial)
    step = width if len(factors) == count else 0
    value = _c_type(summands.dtype)
    kernels = Kernels(
        f"linear_totals<{value}, {of_totals}>",
        *(f"{kernel}<{value}>", f"Effect<{value}>, LINEAR", summands.dtype, 2),
    )
    given = (factors, step, summands, start, int(initial is not None))
    grid = tiles(count, width, HEIGHT)
    down_tiles(kernels, grid, offsets, reverse, summands.shape, given, more, behind)


def _c_type(dtype: np.dtype[np.generic]) -> str:
    if dtype.kind == "c":
        return "Complex<float>" if dtype.itemsize == 8 else "Complex<double>"
    return C_TYPES[dtype.name]
