"""See topk_avg_pooling.py. Maintains the k largest values instead of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.items_native import longest
from lodcli.kernels.native import load

_MODULE = "kernels.ops.pooling.topk_avg_pooling_numba"
_misfit, _forward, _backward = (
    load.kernel(_MODULE, name) for name in ("misfit", "forward", "backward")
)


def segment_misfit(
    offsets: Offsets, row_offsets: Offsets, column_offsets: Offsets, channel_num: int
) -> int:
    """See topk_avg_pooling.py."""
    index = map(np.ascontiguousarray, (offsets, row_offsets, column_offsets))
    return _misfit[""].call(0, 1, *index, offsets.size - 1, channel_num)


def segment_topk_avg_pooling(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
) -> Array:
    """See topk_avg_pooling.py."""
    out = np.zeros((int(row_offsets[-1]), channel_num * topks.size), data.dtype)
    matrices = _matrices(offsets, row_offsets, column_offsets, topks, channel_num)
    _forward[data.dtype.char].call(0, 1, np.ascontiguousarray(data), *matrices, out)
    return out


def segment_topk_avg_pooling_grad(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
    grad: Array,
) -> Array:
    """See topk_avg_pooling.py."""
    out = np.zeros(data.shape, grad.dtype)
    matrices = _matrices(offsets, row_offsets, column_offsets, topks, channel_num)
    _backward[data.dtype.char + grad.dtype.char].call(
        0, 1, np.ascontiguousarray(data), *matrices, np.ascontiguousarray(grad), out
    )
    return out


def _matrices(
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
) -> tuple[Any, ...]:
    """Return the fields of Matrices: see topk_avg_pooling_numba.py."""
    index = map(np.ascontiguousarray, (offsets, row_offsets, column_offsets))
    # The maximum number of values of a row that can be requested.
    most = min(max(topks.tolist()), longest(column_offsets))
    places = np.empty(most, np.int64)
    wanted = np.ascontiguousarray(topks)
    return (*index, offsets.size - 1, wanted, topks.size, channel_num, places, most)
