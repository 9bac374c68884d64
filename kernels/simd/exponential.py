"""e^x for x <= 0 inside compiled loops: for float32 one that becomes vector instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.runtime.jit_numba import numba, overload
from lodcli.kernels.simd.raw_memory import float_of_bits

FAST = {"contract", "nsz"}
_F = np.float32


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _exp32(x: Any) -> Any:
    """Return e^x for x <= 0, within 2 units in the last place (Cephes' expf)."""
    low = min(max(x, _F(-87.33)), _F(88.0))
    n = np.floor(low * _F(1.44269504) + _F(0.5))
    r = (low - n * _F(0.693359375)) + n * _F(2.12194440e-4)
    p = _F(1.9875691500e-4)
    p = p * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    p = (p * r) * r + r + _F(1)
    power = p * float_of_bits((np.int32(n) + np.int32(127)) << np.int32(23))
    # Compared as it came in, so that a NaN stays one.
    return x if x != x else (_F(0) if x < _F(-87.33) else power)


def exp(x: Any) -> Any:
    """Return e^x for x <= 0."""
    raise NotImplementedError("for compiled code only")


@overload(exp)
def _exp_of(x: Any) -> Any:
    def single(x: Any) -> Any:
        return _exp32(x)

    def double(x: Any) -> Any:
        return np.exp(x)

    return single if x == numba.types.float32 else double
