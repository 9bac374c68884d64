"""See conv.py. At most the context of a block of rows is gathered, never that of all."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.common import common_dtype
from lodcli.kernels.ops.conv.conv import strided_offsets
from lodcli.kernels.runtime.buffers import empty

# Smaller blocks stay in the cache, but waking the threads of the product then costs more.
_BLOCK_BYTES = 1 << 21

_MODULE = "kernels.ops.conv.conv_numba"
# Up to so many columns, and with a weight that stays in the second cache, the product without
# copies is faster than NumPy's.
_COLUMNS, _WEIGHT_BYTES = 96, 1 << 19
# Of that product: rows a piece and a tile; columns are padded to whole vectors of all processors.
_PIECE_ROWS, _TILE, _LANES = 2048, 8, 16
_product = load.kernel("kernels.ops.conv.conv_product_numba", "product")
_NAMES = ("strided", "gather", "scatter", "row_conv", "row_conv_grad")
_strided, _gather, _scatter, _row_conv, _row_conv_grad = (
    load.kernel(_MODULE, name) for name in _NAMES
)


def segment_strided(offsets: Offsets, stride: int) -> Offsets:
    """See conv.py."""
    kept = unwritten(offsets.size)
    _strided[""].call(0, 1, np.ascontiguousarray(offsets), kept, offsets.size - 1, stride)
    return kept


def segment_conv(
    data: Array,
    offsets: Offsets,
    weight: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> Array:
    """See conv.py."""
    plan = _Plan(data, offsets, weight, stride, padding)
    out = empty((plan.rows, weight.shape[1]), common_dtype(data.dtype, weight.dtype))
    small = weight.shape[1] <= _COLUMNS and weight.nbytes <= _WEIGHT_BYTES
    if small and out.dtype == data.dtype == weight.dtype:
        _multiply(plan, weight, out, context_start)
        return out
    for first, last in plan.blocks():
        block = plan.context(first, last, context_start)
        np.matmul(block, weight, out=out[first:last])
    return out


def _multiply(plan: _Plan, weight: Array, out: Array, context_start: int) -> None:
    """Write the product of all contexts with a weight, of which each row is read many times."""
    depth, columns = weight.shape
    padded = np.zeros((depth, -(-columns // _LANES) * _LANES), weight.dtype)
    padded[:, :columns] = weight
    pieces = -(-plan.rows // _PIECE_ROWS)
    spare = np.empty((pieces, _TILE, depth), weight.dtype)
    run(
        _product[out.dtype.char], pieces, plan.data.nbytes + out.nbytes,
        *plan.words(0, plan.rows, context_start),
        plan.data, plan.padding, padded, spare, out, columns, padded.shape[1], _PIECE_ROWS,
    )  # fmt: skip


def segment_conv_grad(
    data: Array,
    offsets: Offsets,
    weight: Array,
    grad: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> tuple[Array, Array, Array | None]:
    """See conv.py."""
    plan = _Plan(data, offsets, weight, stride, padding)
    dtype = common_dtype(grad.dtype, weight.dtype)
    grad_data = np.zeros(data.shape, dtype)
    grad_weight = np.zeros(weight.shape, common_dtype(grad.dtype, data.dtype))
    grad_padding = np.zeros(plan.padding.shape, dtype)
    for first, last in plan.blocks():
        part = grad[first:last]
        grad_weight += plan.context(first, last, context_start).T @ part
        grad_context = np.ascontiguousarray(part @ weight.T)
        words = plan.words(first, last, context_start)
        _scatter[dtype.char].call(0, 1, *words, grad_context, grad_data, grad_padding)
    return grad_data, grad_weight, None if padding is None else grad_padding


class _Plan:
    """Contiguous arguments, and how the rows are cut into blocks."""

    def __init__(
        self, data: Array, offsets: Offsets, weight: Array, stride: int, padding: Array | None
    ) -> None:
        self.data = np.ascontiguousarray(data)
        self.padded = padding is not None
        none = np.zeros((1, data.shape[1]), data.dtype)
        self.padding = none if padding is None else np.ascontiguousarray(padding, data.dtype)
        self.offsets = np.ascontiguousarray(offsets)
        self.kept = np.ascontiguousarray(strided_offsets(offsets, stride))
        self.stride = stride
        self.rows = int(self.kept[-1])
        self.width = weight.shape[0]
        self.step = max(1, _BLOCK_BYTES // max(1, self.width * data.itemsize))

    def blocks(self) -> list[tuple[int, int]]:
        """Return the first and last row of every block."""
        return [(a, min(a + self.step, self.rows)) for a in range(0, self.rows, self.step)]

    def context(self, first: int, last: int, context_start: int) -> Array:
        """Return the context of some rows, (last - first, K * D)."""
        block = np.empty((last - first, self.width), self.data.dtype)
        words = self.words(first, last, context_start)
        _gather[block.dtype.char].call(0, 1, *words, self.data, self.padding, block)
        return block

    def words(self, first: int, last: int, context_start: int) -> tuple[Any, ...]:
        """Return the fields of Context: see conv_numba.py."""
        width = self.data.shape[1]
        return (
            *(self.offsets, self.kept, self.offsets.size - 1, first, last - first),
            *(self.width // width if width else 0, width, self.stride, context_start, self.padded),
        )


def segment_row_conv(data: Array, offsets: Offsets, weight: Array) -> Array:
    """See conv.py."""
    dtype = common_dtype(data.dtype, weight.dtype)
    out = np.zeros(data.shape, dtype)
    x, w = (np.ascontiguousarray(one, dtype) for one in (data, weight))
    _row_conv[dtype.char].call(
        0, 1, x, np.ascontiguousarray(offsets), w, out, offsets.size - 1, *w.shape
    )
    return out


def segment_row_conv_grad(
    data: Array, offsets: Offsets, weight: Array, grad: Array
) -> tuple[Array, Array]:
    """See conv.py."""
    dtype = common_dtype(grad.dtype, weight.dtype)
    grad_data, grad_weight = np.zeros(data.shape, dtype), np.zeros(weight.shape, dtype)
    x, w, flow = (np.ascontiguousarray(array, dtype) for array in (data, weight, grad))
    _row_conv_grad[dtype.char].call(
        0, 1, x, w, flow, np.ascontiguousarray(offsets), grad_data, grad_weight,
        offsets.size - 1, *w.shape,
    )  # fmt: skip
    return grad_data, grad_weight
