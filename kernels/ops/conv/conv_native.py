"""See conv.py. Contexts are gathered for one block of rows at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.conv.conv import strided_offsets
from lodcli.kernels.ops.dtypes import common_dtype
from lodcli.kernels.runtime.buffers import empty

# Smaller blocks would stay in the cache, but waking the threads of the product costs more.
_BLOCK_BYTES = 1 << 21

_MODULE = "kernels.ops.conv.conv_numba"
# Up to this many columns, and with a weight that fits the L2 cache, the product without copies is
# faster than NumPy's.
_COLUMNS, _WEIGHT_BYTES = 96, 1 << 19
# Of that product: rows per piece and per tile; columns are padded to whole vectors of every level.
_PIECE_ROWS, _TILE, _LANES = 2048, 8, 16
_product = load.kernel("kernels.ops.conv.conv_product_numba", "product")
_strided, _gather, _scatter = (
    load.kernel(_MODULE, name) for name in ("strided", "gather", "scatter")
)
_shifted_sums, _shifted_products = (
    load.kernel("kernels.ops.conv.row_conv_numba", name)
    for name in ("shifted_sums", "shifted_products")
)
# Of these kernels: values per piece.
_PIECE_VALUES = 1 << 16


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
    if stride == 1 and padding is None and data.shape[1] == weight.shape[1] == 1:
        return _row_sums(data, offsets, weight, context_start, zeros=True)
    plan = _Plan(data, offsets, weight, stride, padding)
    out = empty((plan.rows, weight.shape[1]), common_dtype(data.dtype, weight.dtype))
    small = weight.shape[1] <= _COLUMNS and weight.nbytes <= _WEIGHT_BYTES
    if small and out.dtype == data.dtype == weight.dtype:
        _multiply(plan, weight, out, context_start)
        return out
    for first, last in plan.blocks():
        block = plan.context(plan.words(first, last, context_start), last - first)
        with np.errstate(all="ignore"):
            np.matmul(block, weight, out=out[first:last])
    return out


def _multiply(plan: _Plan, weight: Array, out: Array, context_start: int) -> None:
    """Write the product of all contexts with a weight, each row of which is read many times."""
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
    plain = stride == 1 and padding is None
    if plain and data.shape[1] == weight.shape[1] == 1:
        return (
            _row_sums(grad, offsets, weight, -context_start, -1),
            _row_products(data, offsets, grad, len(weight), context_start, zeros=True),
            None,
        )
    plan = _Plan(data, offsets, weight, stride, padding)
    dtype = common_dtype(grad.dtype, weight.dtype)
    grad_weight = np.zeros(weight.shape, common_dtype(grad.dtype, data.dtype))
    # Zeros outside a segment times infinity would be NaN.
    plain = plain and weight.size > 0 and bool(np.isfinite(weight).all())
    if plain:
        # The gradient of the data is a convolution with the flipped weight.
        turned = weight.reshape(-1, data.shape[1], weight.shape[1])[::-1].transpose(0, 2, 1)
        start = 1 - len(turned) - context_start
        matrix = np.ascontiguousarray(turned).reshape(-1, data.shape[1])
        grad_data = segment_conv(grad, offsets, matrix, context_start=start, stride=1, padding=None)
    else:
        grad_data = np.zeros(data.shape, dtype)
    grad_padding = np.zeros(plan.padding.shape, dtype)
    with np.errstate(all="ignore"):
        for first, last in plan.blocks():
            part, words = grad[first:last], plan.words(first, last, context_start)
            context = plan.context(words, last - first).T
            if first:
                grad_weight += context @ part
            else:
                np.matmul(context, part, grad_weight)
            if not plain:
                grad_context = np.ascontiguousarray(part @ weight.T)
                _scatter[dtype.char].call(0, 1, *words, grad_context, grad_data, grad_padding)
    return grad_data, grad_weight, None if padding is None else grad_padding


class _Plan:
    """Contiguous arguments, and the partition of the rows into blocks."""

    def __init__(
        self, data: Array, offsets: Offsets, weight: Array, stride: int, padding: Array | None
    ) -> None:
        self.data = np.ascontiguousarray(data)
        self.padded = padding is not None
        if padding is None:
            self.padding = np.zeros((1, data.shape[1]), data.dtype)
        else:
            self.padding = np.ascontiguousarray(padding)
        self.offsets = np.ascontiguousarray(offsets)
        self.kept = np.ascontiguousarray(strided_offsets(offsets, stride))
        self.stride = stride
        self.rows = int(self.kept[-1])
        self.width = weight.shape[0]
        self.step = max(1, _BLOCK_BYTES // max(1, self.width * data.itemsize))

    def blocks(self) -> list[tuple[int, int]]:
        """Return the first and last row of every block."""
        return [(a, min(a + self.step, self.rows)) for a in range(0, self.rows, self.step)]

    def context(self, words: tuple[Any, ...], rows: int) -> Array:
        """Return the contexts of the rows that `words` describes, (rows, K * D)."""
        block = np.empty((rows, self.width), self.data.dtype)
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
    return _row_sums(data, offsets, weight)


def segment_row_conv_grad(
    data: Array, offsets: Offsets, weight: Array, grad: Array
) -> tuple[Array, Array]:
    """See conv.py."""
    return _row_sums(grad, offsets, weight, way=-1), _row_products(data, offsets, grad, len(weight))


def _row_sums(
    data: Array, offsets: Offsets, weight: Array, start: int = 0, way: int = 1, zeros: bool = False
) -> Array:
    """Return `shifted_sums` of rows (N, D) and a weight (K, D)."""
    dtype = common_dtype(data.dtype, weight.dtype)
    out, (length, width) = empty(data.shape, dtype), weight.shape
    if out.size:
        x = np.ascontiguousarray(data, dtype)
        repeated = weight.astype(dtype, copy=False).take(_repeated(width), 1)
        block = max(1, _PIECE_VALUES // width)
        run(
            _shifted_sums[dtype.char], -(-len(x) // block), 2 * x.nbytes,
            np.ascontiguousarray(offsets), offsets.size - 1, *x.shape, length, start, way, zeros,
            block, x, repeated, out,
        )  # fmt: skip
    return out


def _row_products(
    data: Array, offsets: Offsets, flow: Array, length: int, start: int = 0, zeros: bool = False
) -> Array:
    """Return the sums of `shifted_products` of rows and the upstream gradient, (K, D)."""
    dtype, width = common_dtype(flow.dtype, data.dtype), data.shape[1]
    if not data.size:
        return np.zeros((length, width), dtype)
    x, up = np.ascontiguousarray(data, dtype), np.ascontiguousarray(flow, dtype)
    block = max(16 * length, _PIECE_VALUES // width)
    pieces, group = -(-len(x) // block), max(1, _LANES // width)
    sums = np.zeros((pieces, length, group * width + 2 * _LANES), dtype)
    run(
        _shifted_products[dtype.char], pieces, 2 * x.nbytes,
        np.ascontiguousarray(offsets), offsets.size - 1, *x.shape, length, start, 1, zeros, block,
        x, up, sums, sums.shape[2],
    )  # fmt: skip
    with np.errstate(all="ignore"):
        totals = np.add.reduce(sums[:, :, : group * width], 0, np.float64)
        result: Array = np.add.reduce(totals.reshape(length, group, width), 1).astype(dtype)
    return result


@lru_cache(1 << 6)
def _repeated(width: int) -> Offsets:
    """Return the columns of a row, repeated cyclically for as long as kernels read."""
    return np.arange(width + 4 * _LANES) % width
