"""See concat.py. Ranges are copied as bytes, the result written sequentially."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.ops.joining import concat as reference
from lodcli.kernels.simd.row_copies import interleave_ranges, part_table, separate_ranges

_INT64 = np.dtype(np.int64)
_MODULE = "kernels.ops.joining.concat_numba"
_turns, _item_turns = (load.kernel(_MODULE, name) for name in ("turns", "item_turns"))


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See concat.py."""
    return interleave_ranges(data, offsets, out=out)


def segment_item_turns(levels: Sequence[Offsets]) -> Offsets:
    """See concat.py."""
    count, parts, overflows = levels[0].size - 1, len(levels), 0
    offsets, write = unwritten(count * parts + 1), _item_turns[""].call
    for part in range(parts):
        overflows = write(0, 1, np.ascontiguousarray(levels[part]), offsets, count, parts, part)
    return reference.segment_item_turns(levels) if overflows else offsets


def segment_turns(
    levels: Sequence[Offsets], bounds: Sequence[Offsets]
) -> tuple[Offsets, Sequence[Offsets]]:
    """See concat.py."""
    parts, ends = len(bounds), bounds[0].size
    offsets = unwritten(sum([each.item(-1) for each in bounds]) + 1)
    inner = np.empty((parts, ends), _INT64)
    table, held = part_table(levels, bounds)
    overflows = _turns[""].call(0, 1, table, parts, ends - 1, offsets, inner)
    del held
    return (
        reference.segment_turns(levels, bounds)
        if overflows
        else (offsets, [inner[part] for part in range(parts)])
    )


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See concat.py."""
    return separate_ranges(upstream, offsets)
