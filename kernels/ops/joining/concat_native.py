"""See concat.py. Ranges are copied as bytes, the result written sequentially."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.simd.row_copies import gather_ranges, interleave_ranges


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See concat.py."""
    return interleave_ranges(data, offsets, out=out)


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See concat.py."""
    result = []
    starts = np.sum(offsets, axis=0)[:-1]
    for each in offsets:
        result.append(gather_ranges(upstream, starts, each))
        starts = starts + offsets_to_lengths(each)
    return result
