"""See concat.py. Ranges are copied as bytes, the result written sequentially."""

from __future__ import annotations

from collections.abc import Sequence

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.ops.joining import concat as reference
from lodcli.kernels.simd.row_copies import gather_ranges, interleave_ranges, part_table

_turns = load.kernel("kernels.ops.joining.concat_numba", "turns")


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See concat.py."""
    return interleave_ranges(data, offsets, out=out)


def segment_turns(levels: Sequence[Offsets], bounds: Sequence[Offsets]) -> Offsets:
    """See concat.py."""
    offsets = unwritten(sum([int(each[-1]) for each in bounds]) + 1)
    table, held = part_table(levels, bounds)
    overflows = _turns[""].call(0, 1, table, len(bounds), bounds[0].size - 1, offsets)
    del held
    return reference.segment_turns(levels, bounds) if overflows else offsets


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See concat.py."""
    result = []
    starts = sum(offsets[1:], offsets[0])[:-1]
    for each in offsets:
        result.append(gather_ranges(upstream, starts, each))
        starts = starts + offsets_to_lengths(each)
    return result
