"""See ops/pad.py. Every value of the box is written once, rows copied as bits."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.copying import copy_rows, gather_ranges, words
from lodcli.kernels.ops.common import result_array


def segment_pad(
    data: Array,
    offsets: Offsets,
    maxlen: int,
    *,
    pad_value: npt.ArrayLike = 0,
    out: Array | None = None,
) -> Array:
    """See ops/pad.py."""
    shape = (offsets.size - 1, maxlen, *data.shape[1:])
    result = result_array(out, shape, data.dtype, data)
    if result.size:
        box = result.reshape(-1, *data.shape[1:])
        fill = np.empty((1, *data.shape[1:]), data.dtype)
        fill[...] = pad_value
        source = words(data) if data.size else words(fill)[:0]
        _pad(source, offsets, maxlen, words(fill), words(box))
    return result


def segment_unpad(padded: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/pad.py."""
    starts = np.arange(padded.shape[0]) * padded.shape[1]
    box = padded.reshape(padded.shape[0] * padded.shape[1], *padded.shape[2:])
    return gather_ranges(box, starts, offsets, out=out)


@nb.njit(parallel=True, cache=True, nogil=True)
def _pad(source: Any, offsets: Any, steps: int, fill: Any, out: Any) -> None:
    for s in nb.prange(offsets.size - 1):
        n = min(offsets[s + 1] - offsets[s], steps)
        copy_rows(source, offsets[s], out, s * steps, n)
        for t in range(n, steps):
            copy_rows(fill, 0, out, s * steps + t, 1)
