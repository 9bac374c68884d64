"""See windows.py. The rows of windows are copied by slice_native.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.halves_native import narrowed, widened
from lodcli.kernels.ops.joining import windows as reference
from lodcli.kernels.ops.rows import flat_rows

_MODULE = "kernels.ops.joining.windows_numba"
_INT64 = np.dtype(np.int64)
_counts, _windows, _deal, _add = (
    load.kernel(_MODULE, name) for name in ("counts", "windows", "deal", "add")
)


def segment_windows(
    offsets: Offsets, length: int, first: int, stride: int, keep: bool
) -> tuple[Offsets, Offsets, Offsets]:
    """See windows.py."""
    index, segments = np.ascontiguousarray(offsets), offsets.size - 1
    counts = unwritten(segments + 1)
    _counts[""].call(0, 1, index, length, first, stride, keep, counts, segments)
    total = counts.item(-1)
    starts, bounds = np.empty(total, np.int64), unwritten(total + 1)
    _windows[""].call(0, 1, index, length, first, stride, counts, starts, bounds, segments)
    return counts, starts, bounds


def segment_dealt(
    offsets: Offsets, held: Offsets, parts: int
) -> tuple[Offsets, list[tuple[Offsets, Offsets]]] | None:
    """See windows.py."""
    each, rest = divmod(offsets.size - 1, parts)
    if rest:  # before memory for far too many parts is requested
        return None
    fewer, begins = unwritten(held.size), np.empty((parts, each), _INT64)
    size = each + 1
    bounds = unwritten(parts * size)
    wrong = _deal[""].call(
        0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(held), fewer, begins, bounds,
        held.size, each, parts,
    )  # fmt: skip
    if wrong:
        return None
    return fewer, [(begins[p], bounds[p * size : (p + 1) * size]) for p in range(parts)]


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See windows.py: the same sums, in the same order."""
    if is_half(rows.dtype):
        return narrowed(segment_add(widened(rows), starts, offsets, count), rows.dtype)
    if rows.dtype.char not in "fd":
        return reference.segment_add(rows, starts, offsets, count)
    given, out = flat_rows(rows), np.zeros((count, *rows.shape[1:]), rows.dtype)
    _add[rows.dtype.char].call(
        0, 1, given, np.ascontiguousarray(starts), np.ascontiguousarray(offsets), out,
        starts.size, given.shape[1],
    )  # fmt: skip
    return out
