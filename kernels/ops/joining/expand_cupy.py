"""See expand.py. Rows are copied as words."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import result_array
from lodcli.kernels.cuda.row_copies import broadcast, move_runs
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.ops.joining.expand import single_rows
from lodcli.kernels.ops.joining.windows_cupy import segment_add
from lodcli.kernels.ops.pooling.pool_cupy import segment_sum


def segment_broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See expand.py."""
    return broadcast(data, offsets, out=out)


def segment_broadcast_grad(upstream: Array, offsets: Offsets) -> Array:
    """See expand.py."""
    return segment_sum(upstream, offsets).astype(upstream.dtype, copy=False)


def segment_repeat(
    data: Array, offsets: Offsets, counts: Offsets, *, out: Array | None = None
) -> Array:
    """See expand.py."""
    starts, ends = _copies(offsets, counts)
    result = result_array(out, (int(ends[-1]), *data.shape[1:]), data.dtype, data)
    move_runs(cupy.ascontiguousarray(data), starts, ends, result)
    return result


def segment_repeat_grad(upstream: Array, offsets: Offsets, counts: Offsets) -> Array:
    """See expand.py. Copies of single rows lie side by side."""
    if single_rows(offsets):
        return segment_broadcast_grad(upstream, lengths_to_offsets(counts, level=0))
    starts, ends = _copies(offsets, counts)
    return segment_add(upstream, starts, ends, int(offsets[-1]))


def _copies(offsets: Offsets, counts: Offsets) -> tuple[Offsets, Offsets]:
    """Return where each copy of each segment starts, and how long they are, added up."""
    lengths = np.repeat(np.diff(offsets), counts)
    return np.repeat(offsets[:-1], counts), lengths_to_offsets(lengths, level=0)
