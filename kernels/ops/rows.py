"""Plain rows of the ops: their width, pieces and forms, and the arrays of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.buffers import empty

_PIECES = 64
# Segments with fewer values than this in total are processed by one thread anyway.
_PIECE_VALUES = 1 << 12


def row_width(shape: Sequence[int]) -> int:
    """Return the number of values in one row of data of this shape."""
    width = 1
    for size in shape[1:]:
        width *= size
    return width


def flat_rows(data: Array) -> Array:
    """Return (N, D) C-contiguous rows of data of any rank; without a copy if possible."""
    if data.ndim == 2 and data.flags.c_contiguous:
        return data
    return np.ascontiguousarray(data).reshape(data.shape[0], row_width(data.shape))


def piece_count(rows: Array) -> int:
    """Return how many pieces segments are split into for threads; results do not depend on it."""
    return min(_PIECES, 1 + rows.size // _PIECE_VALUES)


def per_row(values: Array, ndim: int) -> Array:
    """Return one value per row, (N,), as (N, 1, ..) of `ndim` axes, for arithmetic with rows."""
    return values.reshape(-1, *[1] * (ndim - 1))


def real_columns(rows: Array) -> Array:
    """Return C-contiguous rows with each complex number as two columns; others as they are."""
    return rows.view(f"f{rows.itemsize // 2}") if rows.dtype.kind == "c" else rows


def viewed(rows: Array, kind: str) -> Array:
    """Return `rows.view(kind)`; faster, as the array itself, if that is its `dtype.char`."""
    return rows if rows.dtype.char == kind else rows.view(kind)


def result_array(
    out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], *inputs: Array
) -> Array:
    """Return the array that a result is written to: `out`, or a new one if that is None.

    Args:
        out: C-contiguous, of this shape and dtype; shares no memory with the inputs.
        inputs: arrays that are read while the result is written.

    Raises:
        ShapeMismatchError: `out` has another shape.
        InvalidDataError: another dtype or layout, read-only, or it overlaps an input.
    """
    if out is None:
        return empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise InvalidDataError(f"out must be an array, found {type(out).__name__}")
    if out.shape != shape:
        raise ShapeMismatchError(f"out must have shape {shape}, found {out.shape}")
    if out.dtype != dtype:
        raise InvalidDataError(f"out must hold {dtype}, found {out.dtype}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        what = "strided" if out.flags.writeable else "read-only"
        raise InvalidDataError(f"out must be C-contiguous and writable, found a {what} array")
    for each in inputs:  # faster than any() for one input
        if np.may_share_memory(out, each):
            raise InvalidDataError("out must not share memory with the rows that are read")
    return out
