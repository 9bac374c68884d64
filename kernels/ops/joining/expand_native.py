"""See expand.py. Whole blocks are copied as bytes, in pieces of equal size."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.ops.joining import expand
from lodcli.kernels.ops.joining.windows_native import segment_add
from lodcli.kernels.ops.pooling.pool_native import segment_sum
from lodcli.kernels.simd.broadcast import broadcast_rows
from lodcli.kernels.simd.row_copies import gather_ranges


def segment_broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See expand.py."""
    return broadcast_rows(data, offsets, out=out)


def segment_broadcast_grad(upstream: Array, offsets: Offsets) -> Array:
    """See expand.py."""
    return segment_sum(upstream, offsets).astype(upstream.dtype, copy=False)


def segment_repeat(
    data: Array, offsets: Offsets, counts: Offsets, *, out: Array | None = None
) -> Array:
    """See expand.py."""
    if expand.single_rows(offsets):
        return broadcast_rows(data, lengths_to_offsets(counts, level=0), out=out)
    lengths = offsets_to_lengths(offsets).repeat(counts)
    starts = offsets[:-1].repeat(counts)
    return gather_ranges(data, starts, lengths_to_offsets(lengths, level=0), out=out)


def segment_repeat_grad(upstream: Array, offsets: Offsets, counts: Offsets) -> Array:
    """See expand.py. Copies of single rows lie side by side."""
    if expand.single_rows(offsets):
        return segment_broadcast_grad(upstream, lengths_to_offsets(counts, level=0))
    if upstream.itemsize == 2:  # summed in float64
        return expand.segment_repeat_grad(upstream, offsets, counts)
    lengths = offsets_to_lengths(offsets).repeat(counts)
    starts = offsets[:-1].repeat(counts)
    bounds = lengths_to_offsets(lengths, level=0)
    return segment_add(upstream, starts, bounds, int(offsets[-1]))
