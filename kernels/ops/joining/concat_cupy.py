"""See concat.py. Rows are copied as words, one input after the other."""

from __future__ import annotations

from collections.abc import Sequence

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import THREADS, address, blocks, on_device, result_array, run
from lodcli.kernels.cuda.row_copies import move_runs
from lodcli.kernels.index.checks import Array, Offsets


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See concat.py."""
    rows = sum(int(each[-1]) for each in offsets)
    result = result_array(out, (rows, *data[0].shape[1:]), data[0].dtype, *data)
    for part, each, places in zip(data, offsets, _places(offsets), strict=True):
        starts = on_device(each)[:-1]
        move_runs(cupy.ascontiguousarray(part), starts, each, result, places=places)
    return result


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See concat.py."""
    flow, parts = cupy.ascontiguousarray(upstream), []
    for each, places in zip(offsets, _places(offsets), strict=True):
        part = cupy.empty((int(each[-1]), *upstream.shape[1:]), upstream.dtype)
        move_runs(flow, places, each, part)
        parts.append(part)
    return parts


def _places(offsets: Sequence[Offsets]) -> Array:
    """Return where each input's part of each sequence begins in the result: (K, S), on a GPU."""
    there, segments = [on_device(each) for each in offsets], offsets[0].size - 1
    places: Array = cupy.empty((len(there), segments), np.int64)
    if places.size:
        index = cupy.asarray(np.array([address(each) for each in there], np.int64))
        grid = (blocks(segments, THREADS),)
        run("row_copies", "concat_places", grid, (THREADS,), index, *places.shape, places)
    return places
