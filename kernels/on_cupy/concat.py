"""See ops/concat.py. Rows are moved as words, one input after the other."""

from __future__ import annotations

from collections.abc import Sequence

import cupy
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_cupy.launch import result_array
from lodcli.kernels.on_cupy.moves import move_runs


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See ops/concat.py."""
    rows = sum(int(each[-1]) for each in offsets)
    result = result_array(out, (rows, *data[0].shape[1:]), data[0].dtype, *data)
    for part, each, places in zip(data, offsets, _places(offsets), strict=True):
        move_runs(cupy.ascontiguousarray(part), each[:-1], each, result, places=places)
    return result


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See ops/concat.py."""
    flow, parts = cupy.ascontiguousarray(upstream), []
    for each, places in zip(offsets, _places(offsets), strict=True):
        part = cupy.empty((int(each[-1]), *upstream.shape[1:]), upstream.dtype)
        move_runs(flow, places, each, part)
        parts.append(part)
    return parts


def _places(offsets: Sequence[Offsets]) -> list[Offsets]:
    """Return where each input's part of each sequence begins in the result."""
    places, start = [], np.sum(offsets, axis=0)[:-1]
    for each in offsets:
        places.append(start)
        start = start + np.diff(each)
    return places
