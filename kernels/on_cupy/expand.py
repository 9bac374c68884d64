"""See ops/expand.py. Rows are moved as words."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.on_cupy.launch import result_array
from lodcli.kernels.on_cupy.moves import move_runs
from lodcli.kernels.on_cupy.pool import segment_sum


def segment_broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/expand.py."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    rows = cupy.ascontiguousarray(data)
    move_runs(rows, np.arange(offsets.size - 1), offsets, result, step=0)
    return result


def segment_broadcast_grad(upstream: Array, offsets: Offsets) -> Array:
    """See ops/expand.py."""
    return segment_sum(upstream, offsets).astype(upstream.dtype, copy=False)


def segment_repeat(
    data: Array, offsets: Offsets, counts: Offsets, *, out: Array | None = None
) -> Array:
    """See ops/expand.py."""
    starts, ends = _copies(offsets, counts)
    result = result_array(out, (int(ends[-1]), *data.shape[1:]), data.dtype, data)
    move_runs(cupy.ascontiguousarray(data), starts, ends, result)
    return result


def segment_repeat_grad(upstream: Array, offsets: Offsets, counts: Offsets) -> Array:
    """See ops/expand.py: each row's copies are put side by side, then added up."""
    starts, ends = _copies(offsets, counts)
    lengths = np.diff(offsets)
    # Row t of segment s has counts[s] copies; of all rows, in order, these are the offsets.
    copies = np.repeat(counts, lengths)
    offsets_of_rows = lengths_to_offsets(copies, level=0)
    # Copy c of a row stands behind those of the rows before it: run after run is scattered.
    within = np.arange(starts.size) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(starts, np.diff(ends)) + (
        np.arange(int(ends[-1])) - np.repeat(ends[:-1], np.diff(ends))
    )
    places = offsets_of_rows[rows] + np.repeat(within, np.diff(ends))
    sorted_rows = cupy.empty_like(upstream)
    singles = np.arange(int(ends[-1]) + 1)
    move_runs(cupy.ascontiguousarray(upstream), singles[:-1], singles, sorted_rows, places=places)
    return segment_sum(sorted_rows, offsets_of_rows).astype(upstream.dtype, copy=False)


def _copies(offsets: Offsets, counts: Offsets) -> tuple[Offsets, Offsets]:
    """Return where each copy of each segment starts, and how long they are, added up."""
    lengths = np.repeat(np.diff(offsets), counts)
    return np.repeat(offsets[:-1], counts), lengths_to_offsets(lengths, level=0)
