"""Arithmetic row by row, or with one row a sequence, and dot products of sequences."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.ops.arguments import segment_numbers
from lodcli.kernels.ops.common import is_half, segments
from lodcli.kernels.tensor import LoDTensor

Arithmetic = Literal["add", "sub", "mul", "div"]
_UFUNCS: dict[Arithmetic, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
}


def sequence_add(tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1) -> LoDTensor:
    """Return tensor + other, where `other` has one row a row or one a sequence.

    Args:
        tensor: data (N, ...), numbers.
        other: as many levels as `tensor`, and then the same ones: row by row. Fewer: one
            row for each of the S sequences of `level`, either without levels or under
            those above `level`; it goes to every row of its sequence. Its rows have the
            shape of those of `tensor`, or are single values.
        level: the level that `other` has one row a sequence of.

    Returns:
        Data of the shape of `tensor`, under its index, in NumPy's dtype for the two.

    Raises:
        SelectionError: no such level.
        InvalidDataError: booleans.
        ShapeMismatchError: indexes or shapes that do not fit; says where.

    >>> words = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_add(words, LoDTensor(np.array([10, 20]))).data.tolist()
    [11, 12, 23]
    """
    return _combined("add", tensor, other, level)


def sequence_sub(tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1) -> LoDTensor:
    """Return tensor - other; see `sequence_add`."""
    return _combined("sub", tensor, other, level)


def sequence_mul(tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1) -> LoDTensor:
    """Return tensor * other; see `sequence_add`."""
    return _combined("mul", tensor, other, level)


def sequence_div(tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1) -> LoDTensor:
    """Return tensor / other, in floating point; see `sequence_add`."""
    return _combined("div", tensor, other, level)


def sequence_dot(a: LoDTensor, b: LoDTensor, *, level: int | str = -1) -> LoDTensor:
    """Return the dot product of each sequence of `a` with that of `b`, all values of all rows.

    Args:
        a: data (N, ...), numbers.
        b: the same shape and index.
        level: the level whose sequences are multiplied.

    Returns:
        Data (S,) under the levels above `level`; 0 for an empty sequence. Summed in
        float32 or better, integers in int64.

    Raises:
        SelectionError: no such level.
        InvalidDataError: booleans.
        ShapeMismatchError: they differ in shape or index.

    >>> a = LoDTensor(np.array([[1, 2], [3, 4], [5, 6]]), [[2, 1]])
    >>> sequence_dot(a, a).data.tolist()
    [30, 61]
    """
    offsets = segments(a, level, "sequence_dot")
    _require_numbers("sequence_dot", a, b)
    found = a.lod.difference(b.lod)
    if found is None and a.data.shape != b.data.shape:
        found = f"shape {a.data.shape} against {b.data.shape}"
    if found is not None:
        raise ShapeMismatchError(f"sequence_dot: the tensors differ: {found}")
    return LoDTensor(segment_dot(a.data, b.data, offsets), a.lod.above(level))


def _combined(op: Arithmetic, tensor: LoDTensor, other: LoDTensor, level: int | str) -> LoDTensor:
    name = f"sequence_{op}"
    _require_numbers(name, tensor, other)
    if other.row_shape not in (tensor.row_shape, (), (1,)):
        raise ShapeMismatchError(
            f"{name}: rows of shape {other.row_shape} do not fit those of {tensor.row_shape}"
        )
    lod = tensor.lod
    if other.lod.n_levels == lod.n_levels:
        found = lod.difference(other.lod)
        if found is None and other.rows != tensor.rows:
            found = f"{tensor.rows} rows against {other.rows}"
        if found is not None:
            raise ShapeMismatchError(f"{name}: the tensors are segmented differently: {found}")
        offsets = np.arange(tensor.rows + 1)
    else:
        offsets = segments(tensor, level, name)
        found = lod.above(level).difference(other.lod) if other.lod.n_levels else None
        if found is None and other.rows != offsets.size - 1:
            found = f"{offsets.size - 1} sequences against {other.rows} rows"
        if found is not None:
            raise ShapeMismatchError(f"{name}: expected one row a sequence: {found}")
    return tensor.with_data(segment_binary(op, tensor.data, other.data, offsets))


def _require_numbers(op: str, *tensors: LoDTensor) -> None:
    for tensor in tensors:
        if tensor.dtype == np.bool_:
            raise InvalidDataError(f"{op} needs numbers, found bool")


# -- arrays ----------------------------------------------------------------------------


def segment_binary(op: Arithmetic, data: Array, values: Array, offsets: Offsets) -> Array:
    """Return data (N, ...) combined with row s of values (S, ...) in segment s."""
    return _UFUNCS[op](data, _spread(data, values, offsets))  # type: ignore[no-any-return]


def _spread(data: Array, values: Array, offsets: Offsets) -> Array:
    """Return row s of the values for every row of segment s, with as many axes as the data."""
    if values.ndim != data.ndim:
        values = values.reshape(values.shape[0], *(1 for _ in data.shape[1:]))
    return values[segment_numbers(offsets)]


def segment_binary_grad(
    op: Arithmetic, data: Array, values: Array, offsets: Offsets, grad: Array
) -> tuple[Array, Array]:
    """Return the gradients of `segment_binary` for data and values, in their shapes."""
    spread = _spread(data, values, offsets)
    if op == "add":
        grad_data, each = grad, grad
    elif op == "sub":
        grad_data, each = grad, -grad
    elif op == "mul":
        grad_data, each = grad * spread, grad * data
    else:
        grad_data, each = grad / spread, -grad * data / (spread * spread)
    if spread.shape != data.shape:
        # One value went to a whole row. Its axes beside the first are all of size 1.
        each = _row_sums(each)
    return np.array(grad_data), segment_totals(each, offsets).reshape(values.shape)


def segment_totals(rows: Array, offsets: Offsets) -> Array:
    """Return the sum of each segment, zero where it is empty: (N, ...) to (S, ...)."""
    out = np.zeros((offsets.size - 1, *rows.shape[1:]), rows.dtype)
    # Not reduceat on the full offsets: for an empty segment it returns the next row.
    full = offsets[:-1] < offsets[1:]
    if full.any():
        out[full] = np.add.reduceat(rows, offsets[:-1][full], axis=0)
    return out


def segment_dot(a: Array, b: Array, offsets: Offsets) -> Array:
    """Return the dot product of each segment: twice (N, ...) to (S,)."""
    dtype = np.result_type(a, b)
    wide = np.float32 if is_half(dtype) else np.int64 if dtype.kind in "iu" else dtype
    products = np.multiply(a.astype(wide, copy=False), b.astype(wide, copy=False))
    totals = segment_totals(_row_sums(products), offsets)
    return totals.astype(dtype) if is_half(dtype) else totals


def _row_sums(rows: Array) -> Array:
    sums: Array = rows.sum(axis=tuple(range(1, rows.ndim)), dtype=rows.dtype)
    return sums


def segment_dot_grad(a: Array, b: Array, offsets: Offsets, grad: Array) -> tuple[Array, Array]:
    """Return the gradients of `segment_dot` for both.

    Args:
        grad: of the result, (S,).
    """
    each = grad[segment_numbers(offsets)].reshape(len(a), *(1 for _ in a.shape[1:]))
    return each * b, each * a
