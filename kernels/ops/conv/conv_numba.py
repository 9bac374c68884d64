"""See ops/conv.py. The context is gathered a block of rows at a time, never as a whole."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.conv.conv import strided_offsets
from lodcli.kernels.runtime.jit_numba import njit

# Smaller blocks stay in the cache, but waking the threads of the product then costs more.
_BLOCK_BYTES = 1 << 21


def segment_conv(
    data: Array,
    offsets: Offsets,
    weight: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> Array:
    """See ops/conv.py."""
    plan = _Plan(data, offsets, weight, stride, padding)
    out = np.empty((plan.rows, weight.shape[1]), np.result_type(data, weight))
    for first, last in plan.blocks():
        block = plan.context(first, last, context_start)
        np.matmul(block, weight, out=out[first:last])
    return out


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
    """See ops/conv.py."""
    plan = _Plan(data, offsets, weight, stride, padding)
    dtype = np.result_type(grad, weight)
    grad_data = np.zeros(data.shape, dtype)
    grad_weight = np.zeros(weight.shape, np.result_type(grad, data))
    grad_padding = np.zeros(plan.padding.shape, dtype)
    for first, last in plan.blocks():
        part = grad[first:last]
        grad_weight += plan.context(first, last, context_start).T @ part
        grad_context = np.ascontiguousarray(part @ weight.T)
        _scatter(
            grad_context, plan.offsets, plan.kept, first, stride, context_start,
            padding is not None, grad_data, grad_padding,
        )  # fmt: skip
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
        self.offsets = offsets
        self.kept = strided_offsets(offsets, stride)
        self.stride = stride
        self.rows = int(self.kept[-1])
        self.width = weight.shape[0]
        self.step = max(1, _BLOCK_BYTES // max(1, self.width * data.itemsize))

    def blocks(self) -> list[tuple[int, int]]:
        """Return the first and last row of every block."""
        return [(a, min(a + self.step, self.rows)) for a in range(0, self.rows, self.step)]

    def context(self, first: int, last: int, context_start: int) -> Array:
        """Return the context of some rows, (last - first, K * D)."""
        block = np.zeros((last - first, self.width), self.data.dtype)
        _gather(
            self.data, self.offsets, self.kept, first, self.stride, context_start,
            self.padded, self.padding, block,
        )  # fmt: skip
        return block


@njit(cache=True, nogil=True)
def _gather(data, offsets, kept, first, stride, start, padded, padding, out):  # type: ignore[no-untyped-def]
    width = data.shape[1]
    length = out.shape[1] // width if width else 0
    up = max(0, -start)
    segment = np.searchsorted(kept, first, side="right") - 1
    for place in range(out.shape[0]):
        while kept[segment + 1] <= first + place:
            segment += 1
        low, high = offsets[segment], offsets[segment + 1]
        row = low + stride * (first + place - kept[segment]) + start
        for k in range(length):
            source = row + k
            at = k * width
            if low <= source < high:
                for d in range(width):
                    out[place, at + d] = data[source, d]
            elif padded:
                extra = up - (low - source) if source < low else up + source - high
                for d in range(width):
                    out[place, at + d] = padding[extra, d]


@njit(cache=True, nogil=True)
def _scatter(grad, offsets, kept, first, stride, start, padded, grad_data, grad_padding):  # type: ignore[no-untyped-def]
    width = grad_data.shape[1]
    length = grad.shape[1] // width if width else 0
    up = max(0, -start)
    segment = np.searchsorted(kept, first, side="right") - 1
    for place in range(grad.shape[0]):
        while kept[segment + 1] <= first + place:
            segment += 1
        low, high = offsets[segment], offsets[segment + 1]
        row = low + stride * (first + place - kept[segment]) + start
        for k in range(length):
            source = row + k
            at = k * width
            if low <= source < high:
                for d in range(width):
                    grad_data[source, d] += grad[place, at + d]
            elif padded:
                extra = up - (low - source) if source < low else up + source - high
                for d in range(width):
                    grad_padding[extra, d] += grad[place, at + d]


def segment_row_conv(data: Array, offsets: Offsets, weight: Array) -> Array:
    """See ops/conv.py."""
    out = np.zeros(data.shape, np.result_type(data, weight))
    _row_conv(np.ascontiguousarray(data), offsets, np.ascontiguousarray(weight), out)
    return out


def segment_row_conv_grad(
    data: Array, offsets: Offsets, weight: Array, grad: Array
) -> tuple[Array, Array]:
    """See ops/conv.py."""
    grad_data = np.zeros(data.shape, np.result_type(grad, weight))
    grad_weight = np.zeros(weight.shape, grad_data.dtype)
    data, weight, grad = (np.ascontiguousarray(array) for array in (data, weight, grad))
    _row_conv_grad(data, weight, grad, offsets, grad_data, grad_weight)
    return grad_data, grad_weight


@njit(cache=True, nogil=True)
def _row_conv(data, offsets, weight, out):  # type: ignore[no-untyped-def]
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            for k in range(min(weight.shape[0], offsets[segment + 1] - row)):
                for d in range(data.shape[1]):
                    out[row, d] += weight[k, d] * data[row + k, d]


@njit(cache=True, nogil=True)
def _row_conv_grad(data, weight, grad, offsets, grad_data, grad_weight):  # type: ignore[no-untyped-def]
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            for k in range(min(weight.shape[0], offsets[segment + 1] - row)):
                for d in range(data.shape[1]):
                    grad_data[row + k, d] += weight[k, d] * grad[row, d]
                    grad_weight[k, d] += grad[row, d] * data[row + k, d]
