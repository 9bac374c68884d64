"""cuBLAS on the CPU: its product of matrices that lie column by column, with sums in float32."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from cupy import counts
from cupy.device import refuse_while_capturing, streams

# Whether calls may be captured in a graph: the real cupy refuses that, also 14.2.
PERMITTED = False
CUBLAS_OP_N, CUBLAS_OP_T = 0, 1
CUBLAS_GEMM_DEFAULT = -1
CUBLAS_COMPUTE_32F = 68
CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32 = 74, 75, 77
# CUDA_R_32F, CUDA_R_16F and CUDA_R_16BF.
_DTYPES = {0: np.dtype(np.float32), 2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16)}
# Number of bits of a float32 that are rounded away.
_DROPPED = {CUBLAS_COMPUTE_32F_FAST_16BF: 16, CUBLAS_COMPUTE_32F_FAST_TF32: 13}


def _matrix(address: int, kind: int, rows: int, columns: int, apart: int) -> np.ndarray:
    """Return (rows, columns) values, each column `apart` values behind the last."""
    if apart < max(1, rows):
        raise ValueError(f"columns of {rows} values cannot lie {apart} apart")
    count = (columns - 1) * apart + rows
    dtype = _DTYPES[kind]
    flat = np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)
    strides = (dtype.itemsize, dtype.itemsize * apart)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), strides, writeable=True)


def _rounded(values: np.ndarray, compute: int) -> np.ndarray:
    if compute == CUBLAS_COMPUTE_32F:
        return values.astype(np.float64)
    if compute == CUBLAS_COMPUTE_32F_FAST_16F:
        return values.astype(np.float16).astype(np.float64)
    bits = np.ascontiguousarray(values).view(np.uint32)
    dropped = _DROPPED[compute]
    kept = (bits + np.uint32(1 << (dropped - 1))) >> dropped << dropped
    return kept.view(np.float32).astype(np.float64)


def gemmEx(
    handle: int,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    A: int,
    Atype: int,
    lda: int,
    B: int,
    Btype: int,
    ldb: int,
    beta: int,
    C: int,
    Ctype: int,
    ldc: int,
    computeType: int,
    algo: int,
) -> None:
    """C (m, n) = alpha * op(A) @ op(B) + beta * C."""
    counts.launches("gemmEx")
    if not PERMITTED:
        refuse_while_capturing("gemmEx")
    if not Atype == Btype == Ctype or (Atype and computeType != CUBLAS_COMPUTE_32F):
        raise ValueError("only operands and results of one type here; float32 alone is rounded")
    a = _matrix(A, Atype, k, m, lda).T if transa else _matrix(A, Atype, m, k, lda)
    b = _matrix(B, Btype, n, k, ldb).T if transb else _matrix(B, Btype, k, n, ldb)
    c = _matrix(C, Ctype, m, n, ldc)
    factors = [ctypes.c_float.from_address(place).value for place in (alpha, beta)]
    if factors != [1.0, 0.0]:
        raise ValueError("only products that replace the result here")

    def multiply(*_: Any) -> None:
        c[...] = _rounded(a, computeType) @ _rounded(b, computeType)

    if streams[-1].capturing is None:
        multiply()
    else:
        streams[-1].capturing.append((multiply, None, None, None))
