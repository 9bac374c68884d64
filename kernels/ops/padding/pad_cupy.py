"""See pad.py. Every word of the batch is written once."""

from __future__ import annotations

import cupy
import numpy as np
import numpy.typing as npt

from lodcli.kernels.cuda.launch import result_array
from lodcli.kernels.cuda.row_copies import pad_rows, unpad_rows
from lodcli.kernels.index.checks import Array, Offsets


def segment_pad(
    data: Array,
    offsets: Offsets,
    maxlen: int,
    *,
    pad_value: npt.ArrayLike = 0,
    out: Array | None = None,
) -> Array:
    """See pad.py."""
    shape = (offsets.size - 1, maxlen, *data.shape[1:])
    result = result_array(out, shape, data.dtype, data)
    fill = np.asarray(pad_value, data.dtype)
    pad_rows(cupy.ascontiguousarray(data), offsets, maxlen, fill, result)
    return result


def segment_unpad(padded: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See pad.py."""
    shape = (int(offsets[-1]), *padded.shape[2:])
    result = result_array(out, shape, padded.dtype, padded)
    unpad_rows(padded, offsets, result)
    return result


def segment_pad_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pad.py. Truncated rows get zeros."""
    return segment_unpad(upstream, offsets)
