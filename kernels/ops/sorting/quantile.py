"""Quantiles of the values of each sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import mean_dtype
from lodcli.kernels.ops.rows import per_row
from lodcli.kernels.ops.sorting.sort import segment_order, segment_picked
from lodcli.kernels.runtime.dispatch import Backend, on


@np.errstate(all="ignore")
def segment_quantile(data: Array, offsets: Offsets, fraction: float) -> Array:
    """Return a quantile of every column of every segment: (N, ...) to (S, ...), floats.

    It is that of np.quantile, by linear interpolation: nan if one of the values is nan, and exactly
    a value if it is at its place or between two that are equal, also infinite ones. The quantile
    of no values is 0.

    Args:
        data: in main memory, any dtype but complex.
        offsets: (S + 1,).
        fraction: from 0 to 1.

    >>> segment_quantile(np.array([4, 1, 2, 7]), np.array([0, 3, 3, 4]), 0.5).tolist()
    [2.0, 0.0, 7.0]
    """
    full = offsets[:-1] < offsets[1:]
    starts, lasts = offsets[:-1][full], offsets[1:][full] - 1
    backend: Backend = "numpy" if data.dtype == np.longdouble else "auto"
    order = on(backend, segment_order, size_bytes=data.nbytes)(data, offsets, False)
    places = (lasts - starts) * fraction
    below = np.floor(places).astype(np.int64)
    part: Any = per_row(places - below, data.ndim)
    dtype = mean_dtype(data.dtype)
    wide = np.result_type(dtype, np.float64)
    low, high, last = (
        segment_picked(data, order[rows]).astype(wide)
        for rows in (starts + below, np.minimum(starts + below + 1, lasts), lasts)
    )
    step = high - low
    found = np.where(part < 0.5, low + step * part, high - step * (1 - part))
    # An infinite value, or values whose difference is.
    found = np.where(np.isfinite(step), found, low * (1 - part) + high * part)
    found = np.where((part == 0) | (low == high), low, found)
    result = np.zeros((full.size, *data.shape[1:]), dtype)
    result[full] = np.where(np.isnan(last), last, found).astype(dtype)
    return result
