"""Arithmetic row by row or with one row per sequence, and dot products of sequences."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lodcli.kernels.errors import NotDefinedError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import by_cast, segment_numbers, segments
from lodcli.kernels.ops.dtypes import common_dtype, summed_dtype, working_dtype
from lodcli.kernels.ops.rows import per_row
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Arithmetic = Literal["add", "sub", "mul", "div"]
UFUNCS: dict[Arithmetic, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
}


@types_explained
def sequence_add(
    tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return tensor + other; `other` has one row per row or one per sequence.

    Args:
        tensor: data (N, ...), numbers.
        other: a tensor with the same levels, combined row by row; or one row for each of the S
            sequences of `level`, without levels or with those above `level`, combined with every
            row of its sequence. Its rows have the shape of those of `tensor`, or are single
            values.
        level: if `other` has one row for each sequence, the level of these sequences.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data of the shape of `tensor`, under its index, in NumPy's dtype for the two; whole
        numbers wrap around where they overflow. A division by 0 gives inf or NaN, silently.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: booleans.
        ShapeMismatchError: indexes or shapes do not match; or times or decimals have other units.

    >>> words = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_add(words, LoDTensor(np.array([10, 20]))).data.tolist()
    [11, 12, 23]
    """
    return _combined("add", tensor, other, level, backend)


@types_explained
def sequence_sub(
    tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return tensor - other; see `sequence_add`.

    Args:
        tensor, other, backend: as for `sequence_add`.
        level: if `other` has one row for each sequence, the level of these sequences.

    >>> words = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_sub(words, LoDTensor(np.array([10, 20]))).data.tolist()
    [-9, -8, -17]
    """
    return _combined("sub", tensor, other, level, backend)


@types_explained
def sequence_mul(
    tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return tensor * other; see `sequence_add`.

    Args:
        tensor, other, backend: as for `sequence_add`.
        level: if `other` has one row for each sequence, the level of these sequences.

    >>> words = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_mul(words, LoDTensor(np.array([10, 20]))).data.tolist()
    [10, 20, 60]
    """
    return _combined("mul", tensor, other, level, backend)


@types_explained
def sequence_div(
    tensor: LoDTensor, other: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return tensor / other, in floating point; see `sequence_add`.

    Args:
        tensor, other, backend: as for `sequence_add`.
        level: if `other` has one row for each sequence, the level of these sequences.

    >>> words = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_div(words, LoDTensor(np.array([10, 20]))).data.tolist()
    [0.1, 0.2, 0.15]
    """
    return _combined("div", tensor, other, level, backend)


@types_explained
def sequence_dot(
    a: LoDTensor, b: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the dot product of each sequence of `a` with that of `b`, all values of all rows.

    Args:
        a: data (N, ...), numbers.
        b: the same shape and index.
        level: the level whose sequences are multiplied; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (S,) under the levels above `level`; 0 for an empty sequence. Floats keep their
        dtype (float16 and bfloat16 are summed in float32), whole numbers give int64,
        unsigned ones uint64. Complex numbers are multiplied as they are, not conjugated.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: booleans.
        ShapeMismatchError: `a` and `b` differ in shape or index.

    >>> a = LoDTensor(np.array([[1, 2], [3, 4], [5, 6]]), [[2, 1]])
    >>> sequence_dot(a, a).data.tolist()
    [30, 61]
    """
    offsets = paired(a, b, level, "sequence_dot")
    run = on(backend, segment_dot, size_bytes=a.nbytes)
    return LoDTensor._made(run(a.data, b.data, offsets), a.lod.above(level))


def paired(a: LoDTensor, b: LoDTensor, level: int | str, op: str) -> Offsets:
    """Return the row offsets of a level of two tensors, which must match in shape and index."""
    offsets = segments(a, level, op)
    _require_numbers(op, a, b)
    found = a.lod.difference(b.lod)
    if found is None and a.data.shape != b.data.shape:
        found = f"shape {a.data.shape} against {b.data.shape}"
    if found is not None:
        raise ShapeMismatchError(f"{op}: the tensors differ: {found}")
    return offsets


def _combined(
    op: Arithmetic, tensor: LoDTensor, other: LoDTensor, level: int | str, backend: Backend
) -> LoDTensor:
    offsets = joined(tensor, other, level, f"sequence_{op}")
    if op != "mul":
        tensor.marks.require_alike(other.marks, f"sequence_{op}", kinds=False)
    run = on(backend, segment_binary, size_bytes=tensor.nbytes)
    return tensor._with_rows(run(op, tensor.data, other.data, offsets))


def joined(tensor: LoDTensor, other: LoDTensor, level: int | str, op: str) -> Offsets | None:
    """Return the offsets of the rows of `tensor` for each row of `other`, (rows of `other` + 1,).

    None: both have the same index, and row r of `other` belongs to row r.
    """
    _require_numbers(op, tensor, other)
    if other.row_shape not in (tensor.row_shape, (), (1,)):
        raise ShapeMismatchError(
            f"{op}: rows of shape {other.row_shape} do not fit those of {tensor.row_shape}"
        )
    lod = tensor.lod
    if other.lod.n_levels == lod.n_levels:
        found = lod.difference(other.lod)
        if found is None and other.rows != tensor.rows:
            found = f"{tensor.rows} rows against {other.rows}"
        if found is not None:
            raise ShapeMismatchError(f"{op}: the tensors are segmented differently: {found}")
        return None
    offsets = segments(tensor, level, op)
    found = lod.above(level).difference(other.lod) if other.lod.n_levels else None
    if found is None and other.rows != offsets.size - 1:
        found = f"{offsets.size - 1} sequences against {other.rows} rows"
    if found is not None:
        raise ShapeMismatchError(
            f"{op}: expected one row of the second tensor for each sequence of the first: {found}"
        )
    return offsets


def _require_numbers(op: str, *tensors: LoDTensor) -> None:
    for tensor in tensors:
        if tensor.dtype.kind == "b":
            remedy = by_cast("int8", shell="; make numbers of it with lod cast")
            raise NotDefinedError(f"{op} needs numbers, found bool{remedy}")


# -- arrays ----------------------------------------------------------------------------


def segment_binary(op: Arithmetic, data: Array, values: Array, offsets: Offsets | None) -> Array:
    """Return data (N, ...) combined with row s of values (S, ...) in segment s.

    Args:
        values: rows of the shape of those of `data`, or of one value each.
        offsets: (S+1,); None: each row is a segment.
    """
    with np.errstate(all="ignore"):
        result: Array = UFUNCS[op](data, spread_values(data, values, offsets))
    return result


def spread_values(data: Array, values: Array, offsets: Offsets | None) -> Array:
    """Return row s of the values repeated for every row of segment s, in the rank of the data."""
    if values.ndim != data.ndim:
        values = per_row(values, data.ndim)
    return values if offsets is None else values[segment_numbers(offsets)]


def segment_totals(rows: Array, offsets: Offsets | None) -> Array:
    """Return the sum of each segment, zero where it is empty: (N, ...) to (S, ...)."""
    if offsets is None:
        return np.array(rows)
    out = np.zeros((offsets.size - 1, *rows.shape[1:]), rows.dtype)
    # reduceat adds rows one after another, which in float32 loses a digit for long segments.
    wide = np.result_type(rows.dtype, np.float64) if rows.dtype.kind in "fc" else rows.dtype
    # Not reduceat on the full offsets: for an empty segment it returns the next row.
    full = offsets[:-1] < offsets[1:]
    if full.any():
        out[full] = np.add.reduceat(rows, offsets[:-1][full], axis=0, dtype=wide)
    return out


def segment_dot(a: Array, b: Array, offsets: Offsets) -> Array:
    """Return the dot product of each segment: twice (N, ...) to (S,)."""
    dtype = summed_dtype(common_dtype(a.dtype, b.dtype))
    wide = working_dtype(dtype)
    with np.errstate(all="ignore"):
        products = np.multiply(a.astype(wide, copy=False), b.astype(wide, copy=False))
        totals = segment_totals(row_sums(products), offsets)
        return totals.astype(dtype, copy=False)


def row_sums(rows: Array) -> Array:
    """Return the sum of the values of each row, in their dtype: (N, ...) to (N,)."""
    sums: Array = rows.sum(axis=tuple(range(1, rows.ndim)), dtype=rows.dtype)
    return sums
