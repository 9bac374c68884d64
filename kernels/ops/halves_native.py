"""Compiled conversion of float16 and bfloat16 to and from float32."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.runtime.buffers import empty

PIECE_VALUES = 1 << 16

_MODULE = "kernels.ops.halves_numba"
_widen, _narrow = (load.kernel(_MODULE, name) for name in ("widen", "narrow"))
_SINGLE = np.dtype(np.float32)


def widened(rows: Array) -> Array:
    """Return float16 or bfloat16 as float32, in the same shape; other dtypes unchanged."""
    if rows.dtype.itemsize != 2 or not is_half(rows.dtype):
        return rows
    half = rows.dtype.newbyteorder("=")
    given, out = np.ascontiguousarray(rows, half), empty(rows.shape, _SINGLE)
    _convert(_widen, given.view(np.uint16), out, half)
    return out


def narrowed(singles: Array, half: np.dtype[np.generic]) -> Array:
    """Return float32 as float16 or bfloat16, of the same shape."""
    out = empty(singles.shape, half)
    narrow_to(out, singles)
    return out


def narrow_to(out: Array, singles: Array) -> None:
    """Convert float32 to float16 or bfloat16, rounding to nearest, ties to even.

    Args:
        out: C-contiguous, in this machine's byte order.
    """
    _convert(_narrow, np.ascontiguousarray(singles), out.view(np.uint16), out.dtype)


def _convert(kernels: load.Kernels, given: Array, out: Array, half: np.dtype[np.generic]) -> None:
    run(
        kernels[""], -(-out.size // PIECE_VALUES), given.nbytes + out.nbytes,
        given, out, half.kind != "f", out.size, PIECE_VALUES,
    )  # fmt: skip
