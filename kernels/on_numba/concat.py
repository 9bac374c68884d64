"""See ops/concat.py. Whole ranges are copied as bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.copying import gather_ranges, scatter_ranges


def segment_concat(data: Sequence[Array], offsets: Sequence[Offsets]) -> Array:
    """See ops/concat.py."""
    lengths = [np.diff(each) for each in offsets]
    total = np.sum(offsets, axis=0)
    result = np.empty((int(total[-1]), *data[0].shape[1:]), data[0].dtype)
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
