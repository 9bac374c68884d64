"""Conversion of dtypes; compiled for float16 and bfloat16 to and from float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.runtime.dispatch import on

_SINGLE = np.dtype(np.float32)


def as_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers in a dtype, without a copy if they have it; values out of range become inf."""
    found = values.dtype
    if found == dtype:
        return values
    if isinstance(values, np.ndarray):  # on a GPU, astype is as fast
        if dtype == _SINGLE and is_half(found):
            return on("auto", widened, size_bytes=values.nbytes)(values)
        if found == _SINGLE and is_half(dtype) and dtype.isnative:
            return on("auto", narrowed, size_bytes=values.nbytes)(values, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype)


# -- NumPy -----------------------------------------------------------------------------


def widened(rows: Array) -> Array:
    """Return float16 or bfloat16 as float32, of the same shape."""
    return rows.astype(np.float32)


@np.errstate(over="ignore", invalid="ignore")
def narrowed(singles: Array, half: np.dtype[Any]) -> Array:
    """Return float32 as float16 or bfloat16, of the same shape."""
    return singles.astype(half)
