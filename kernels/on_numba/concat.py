"""See ops/concat.py. Whole ranges are copied as bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.copying import gather_ranges, scatter_ranges
from lodcli.kernels.ops.common import result_array


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See ops/concat.py."""
    lengths = [np.diff(each) for each in offsets]
    total = np.sum(offsets, axis=0)
    shape = (int(total[-1]), *data[0].shape[1:])
    result = result_array(out, shape, data[0].dtype, *data)
    to = total[:-1].copy()
    for rows, each, length in zip(data, offsets, lengths, strict=True):
        scatter_ranges(rows, each, to, result)
        to += length
    return result


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See ops/concat.py."""
    result = []
    starts = np.sum(offsets, axis=0)[:-1]
    for each in offsets:
        result.append(gather_ranges(upstream, starts, each))
        starts = starts + np.diff(each)
    return result
