"""See concat.py. Rows are copied as words, one input after the other."""

from __future__ import annotations

from collections.abc import Sequence

import cupy

from lodcli.kernels.cuda.launch import on_device, result_array
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


def _places(offsets: Sequence[Offsets]) -> list[Offsets]:
    """Return where each input's part of each sequence begins in the result, on the device."""
    there = [on_device(each) for each in offsets]
    places, start = [], sum(there[1:], start=there[0])[:-1]
    for each in there:
        places.append(start)
        start = start + cupy.diff(each)
    return places
