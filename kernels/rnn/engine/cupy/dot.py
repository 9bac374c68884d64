"""Matrix products by cuBLAS, with the precision of float32_products."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import address
from lodcli.kernels.cuda.tensor_cores import precision_of
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import is_half

# cuBLAS' names for what it may round the operands to, and for dtypes.
_COMPUTE = {
    "float32": "CUBLAS_COMPUTE_32F",
    "tf32": "CUBLAS_COMPUTE_32F_FAST_TF32",
    "bfloat16": "CUBLAS_COMPUTE_32F_FAST_16BF",
    "float16": "CUBLAS_COMPUTE_32F_FAST_16F",
}
_TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}  # CUDA_R_32F, _16F, _16BF
_ONE, _ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)


def dot(left: Array, right: Array, out: Array | None = None) -> Array:
    """Return left @ right, of two matrices of one dtype, (M, K) and (K, N).

    Sums of values of two bytes are float32.

    Args:
        out: (M, N), C-contiguous, to write to.
    """
    precision = precision_of(left.dtype)
    # cupy.dot does not take bfloat16.
    if not is_half(left.dtype) and (precision == "float32" or not (left.size and right.size)):
        made: Array = cupy.dot(left, right, out=out)
        return made
    rows, columns = left.shape[0], right.shape[1]
    result: Array = cupy.empty((rows, columns), left.dtype) if out is None else out
    if not (left.size and right.size):
        result[...] = 0
        return result
    kind = _TYPES[left.dtype.name]
    (turned, left, step), (right_turned, right, right_step) = _by_rows(left), _by_rows(right)
    cublas = cupy.cuda.cublas
    # cuBLAS counts down columns: what it calls right @ left.T is ours, row by row.
    cublas.gemmEx(
        cupy.cuda.get_cublas_handle(),
        *(right_turned, turned, columns, rows, left.shape[1], _ONE.ctypes.data),
        *(address(right), kind, right_step, address(left), kind, step),
        *(_ZERO.ctypes.data, address(result), kind, columns),
        *(getattr(cublas, _COMPUTE[precision]), cublas.CUBLAS_GEMM_DEFAULT),
    )
    return result


def _by_rows(matrix: Array) -> tuple[int, Array, int]:
    """Return whether cuBLAS must transpose, the matrix, and its leading dimension."""
    cublas = cupy.cuda.cublas
    size = matrix.itemsize
    for operation, (along, across) in (
        (cublas.CUBLAS_OP_N, matrix.strides[::-1]),
        (cublas.CUBLAS_OP_T, matrix.strides),
    ):
        shorter = matrix.shape[1] if operation == cublas.CUBLAS_OP_N else matrix.shape[0]
        if along == size and across >= shorter * size:
            return operation, matrix, across // size
    made = cupy.ascontiguousarray(matrix)
    return cublas.CUBLAS_OP_N, made, made.shape[1]
