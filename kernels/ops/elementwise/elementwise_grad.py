"""Gradients of elementwise.py.

add   dx = dy           dz = sum of dy           sub   dx = dy           dz = - sum of dy
mul   dx = dy z         dz = sum of dy x         div   dx = dy / z       dz = - sum dy x / z^2
dot   da = dy[s] b      db = dy[s] a

The sums run over everything that one value of z was broadcast to: the rows of its sequence, and
all columns if z has a single value per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import require_float
from lodcli.kernels.ops.dtypes import common_dtype, is_working_dtype, working_dtype
from lodcli.kernels.ops.elementwise.elementwise import (
    Arithmetic,
    joined,
    paired,
    row_sums,
    segment_binary,
    segment_totals,
    spread_values,
)
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_add_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    other: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_add` for both tensors.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, other, level: as passed to the op, floating point.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Two tensors with the shapes, dtypes and indexes of `tensor` and `other`; float16 and
        bfloat16 are computed in float32.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_add`; or the tensors are
            not floating-point, or `upstream` has another shape or index than `tensor`.

    >>> words = LoDTensor(np.array([1.0, 2.0, 3.0]), [[2, 1]])
    >>> grads = sequence_add_grad([1.0, 1.0, 5.0], words, LoDTensor(np.zeros(2)))
    >>> [one.data.tolist() for one in grads]
    [[1.0, 1.0, 5.0], [2.0, 5.0]]
    """
    return _gradients("add", upstream, tensor, other, level, backend)


@types_explained
def sequence_sub_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    other: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_sub`; see `sequence_add_grad`."""
    return _gradients("sub", upstream, tensor, other, level, backend)


@types_explained
def sequence_mul_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    other: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_mul`; see `sequence_add_grad`."""
    return _gradients("mul", upstream, tensor, other, level, backend)


@types_explained
def sequence_div_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    other: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_div`; see `sequence_add_grad`."""
    return _gradients("div", upstream, tensor, other, level, backend)


@types_explained
def sequence_dot_grad(
    upstream: Upstream,
    a: LoDTensor,
    b: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_dot` for both tensors.

    Args:
        upstream: (S,), the gradient of the result.
        a, b, level: as passed to the op, floating point.
        backend: "auto", "numpy", "numba" or "cupy".

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_add_grad`.

    >>> a, b = (LoDTensor(np.array(one), [[2]]) for one in ([1.0, 2.0], [3.0, 4.0]))
    >>> [one.data.tolist() for one in sequence_dot_grad([10.0], a, b)]
    [[30.0, 40.0], [10.0, 20.0]]
    """
    op = "sequence_dot_grad"
    offsets = paired(a, b, level, op)
    first, second = _wide(a.data, op), _wide(b.data, op)
    flow = upstream_of(upstream, (offsets.size - 1,), op, a.lod.above(level))
    run, flow = on(backend, segment_binary, size_bytes=a.nbytes), _wide(flow, op)
    return (
        a._with_rows(as_dtype(run("mul", second, flow, offsets), a.dtype)),
        b._with_rows(as_dtype(run("mul", first, flow, offsets), b.dtype)),
    )


def _gradients(
    op: Arithmetic,
    upstream: Upstream,
    tensor: LoDTensor,
    other: LoDTensor,
    level: int | str,
    backend: Backend,
) -> tuple[LoDTensor, LoDTensor]:
    name = f"sequence_{op}_grad"
    offsets = joined(tensor, other, level, name)
    data, values = tensor.data, other.data
    flow = upstream_of(upstream, data.shape, name, tensor.lod)
    if not (is_working_dtype(flow.dtype) and flow.dtype is data.dtype is values.dtype):
        data, values, flow = _in_one_dtype(name, data, values, flow)
    run = on(backend, segment_binary_grad, size_bytes=tensor.nbytes)
    rows, each = run(op, data, values, offsets, flow)
    return (
        tensor._with_rows(as_dtype(rows, tensor.dtype)),
        other._with_rows(as_dtype(each, other.dtype)),
    )


def _wide(data: Array, op: str) -> Array:
    if is_working_dtype(data.dtype):
        return data
    require_float(data, op)
    return as_dtype(data, working_dtype(data.dtype))


def _in_one_dtype(op: str, *arrays: Array) -> list[Array]:
    wide = [_wide(one, op) for one in arrays]
    dtype = common_dtype(*[one.dtype for one in wide])
    return [as_dtype(one, dtype) for one in wide]


# -- NumPy -----------------------------------------------------------------------------


def segment_binary_grad(
    op: Arithmetic, data: Array, values: Array, offsets: Offsets | None, grad: Array
) -> tuple[Array, Array]:
    """Return the gradients of `segment_binary` for data and values, in their shapes.

    All arrays have one dtype, float32 or float64.
    """
    spread = spread_values(data, values, offsets)
    each: Any
    with np.errstate(all="ignore"):
        if op == "add":
            grad_data, each = grad, grad
        elif op == "sub":
            grad_data, each = grad, -grad
        elif op == "mul":
            grad_data, each = grad * spread, grad * data
        else:
            grad_data, each = grad / spread, -grad * data / (spread * spread)
        if spread.shape != data.shape:
            # One value was broadcast to a whole row; all axes but the first have size 1.
            each = row_sums(each)
        return np.array(grad_data), segment_totals(each, offsets).reshape(values.shape)
