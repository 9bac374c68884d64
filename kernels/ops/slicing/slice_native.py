"""See slice.py. Rows are copied as bytes."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.simd.row_copies import gather_ranges, place_ranges

PIECE_SEGMENTS = 1 << 14

_MODULE = "kernels.ops.slicing.slice_numba"
_totals, _bounds = (load.kernel(_MODULE, name) for name in ("part_totals", "part_bounds"))


def segment_slice(
    data: Array, starts: Offsets, offsets: Offsets, *, out: Array | None = None
) -> Array:
    """See slice.py."""
    return gather_ranges(data, starts, offsets, out=out)


def segment_part(offsets: Offsets, first: Offsets, count: Offsets) -> tuple[Offsets, Offsets, bool]:
    """See slice.py."""
    segments = offsets.size - 1
    pieces = max(1, -(-segments // PIECE_SEGMENTS))
    index, begins, counts = map(np.ascontiguousarray, (offsets, first, count))
    starts, bounds = empty((segments,), index.dtype), unwritten(segments + 1)
    before, shared = np.zeros(pieces, np.int64), (segments, PIECE_SEGMENTS)
    if pieces > 1:
        run(_totals[""], pieces - 1, counts.nbytes, counts, before[1:], *shared)
        np.add.accumulate(before, out=before)
    wrong = run(
        _bounds[""], pieces, 5 * index.nbytes, index, begins, counts, before,
        starts, bounds, *shared,
    )  # fmt: skip
    return starts, bounds, not wrong


def segment_place(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See slice.py."""
    return place_ranges(rows, starts, offsets, count)
