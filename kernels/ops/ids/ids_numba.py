"""See ops/ids.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.ids import ids as reference
from lodcli.kernels.runtime.jit_numba import njit


def segment_erase(ids: Array, offsets: Offsets, tokens: Array) -> tuple[Array, Offsets]:
    """See ops/ids.py."""
    out, bounds = np.empty(ids.size, ids.dtype), np.zeros(offsets.size, np.int64)
    left = _erase(np.ascontiguousarray(ids), offsets, tokens, out, bounds)
    # A copy, unless nothing was erased: the few ids left would keep all the memory.
    return (out if left == out.size else out[:left].copy()), bounds


def segment_enumerate(ids: Array, offsets: Offsets, win_size: int, pad_value: int) -> Array:
    """See ops/ids.py."""
    out = np.full((ids.size, win_size), pad_value, ids.dtype)
    _enumerate(np.ascontiguousarray(ids), offsets, out)
    return out


@njit(cache=True, nogil=True)
def _erase(ids, offsets, tokens, out, bounds):  # type: ignore[no-untyped-def]
    left = 0
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            token = ids[row]
            low, high = 0, tokens.size
            while low < high:
                middle = (low + high) // 2
                if tokens[middle] < token:
                    low = middle + 1
                else:
                    high = middle
            if low == tokens.size or tokens[low] != token:
                out[left] = token
                left += 1
        bounds[segment + 1] = left
    return left


@njit(cache=True, nogil=True)
def _enumerate(ids, offsets, out):  # type: ignore[no-untyped-def]
    for segment in range(offsets.size - 1):
        end = offsets[segment + 1]
        for row in range(offsets[segment], end):
            for k in range(min(out.shape[1], end - row)):
                out[row, k] = ids[row + k]


# NumPy's own loops are as quick: there is nothing to compile.
segment_compress = reference.segment_compress
