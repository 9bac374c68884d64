"""Kernels of arithmetic of rows with one row or value per segment, and its gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, U, kernel
from lodcli.kernels.native.language_numba import CHECKED, Emitter, address, data_of, emits, function
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import VECTOR_BYTES, load
from lodcli.kernels.simd.nontemporal_stores import settle, store_line
from lodcli.kernels.simd.row_partition_numba import segment_at, segments_of_piece
from lodcli.kernels.simd.vectors import Values, Vectors

# Other integers wrap around like one of these; other dtypes are computed by NumPy: elementwise.py.
_WHOLE, _COMPLEX = ("int32", "int64", "uint8"), ("complex64", "complex128")


def _line_of(real: str, whole: str) -> Any:
    """Return a function of pointers x, z and `out` that combines a line of values from k on.

    Args:
        real, whole: LLVM's instruction for floating-point numbers and integers.
    """

    @emits(types.void, None, None, None, types.int64)
    def line(on: Emitter, x: Any, z: Any, out: Any, k: Any) -> None:
        builder, dtype = on.builder, on.kinds[0].dtype
        size = dtype.bitwidth // 8
        emit = real if isinstance(dtype, types.Float) else whole
        vector = ir.VectorType(on.context.get_data_type(dtype), VECTOR_BYTES // size)
        places = [
            builder.bitcast(builder.gep(data_of(builder, one), [k]), vector.as_pointer())
            for one in (x, z, out)
        ]
        values = [load(builder, place, size) for place in places[:2]]
        store_line(builder, getattr(builder, emit)(*values), places[2])

    return line


def _declare(
    name: str, of_two: Callable[[Any, Any], Any], kinds: Sequence[str], real: str, whole: str = ""
) -> None:
    line = _line_of(real, whole)

    @function()
    def rows_with_one(x: Any, value: Any, out: Any, count: int) -> None:
        for k in range(count):
            out[k] = of_two(x[k], value)

    @function()
    def rows_with_row(x: Any, z: Any, out: Any, rows: int, width: int) -> None:
        for r in range(rows):
            row, to = x + r * width, out + r * width
            for k in range(width):
                to[k] = of_two(row[k], z[k])

    @kernel(name=f"{name}_pairs", types=kinds)
    def pairs(
        x: Pointer[T], z: Pointer[T], out: Pointer[T], count: int, line_values: int,
        piece_values: int, first: int, last: int,
    ) -> int:  # fmt: skip
        """Combine two arrays elementwise.

        Args:
            line_values: number of values per cache line if `out` is written with non-temporal
                stores; `out` and pieces are then line-aligned. Else 0.
        """
        k, stop = first * piece_values, min(last * piece_values, count)
        if CHECKED and k < stop:
            out[stop - 1] = of_two(x[stop - 1], z[stop - 1])
        if line_values:
            while k + line_values <= stop:
                line(x, z, out, k)
                k += line_values
            settle()
        rows_with_row(x + k, z + k, out + k, 1, stop - k)
        return 0

    @kernel(name=name, types=(*kinds, *(_COMPLEX if whole else ())))
    def binary(
        x: Pointer[T], z: Pointer[T], offsets: Pointer[np.int64], out: Pointer[T],
        segments: int, width: int, z_width: int, piece_rows: int, first: int, last: int,
    ) -> int:  # fmt: skip
        """Combine rows (N, width) with the rows of their segments, (S, width) or (S, 1)."""
        total = offsets[segments]
        r, stop = first * piece_rows, min(last * piece_rows, total)
        s = segment_at(offsets, segments, r)
        while r < stop:
            end = min(offsets[s + 1], stop)
            if z_width == 1:
                rows_with_one(x + r * width, z[s], out + r * width, (end - r) * width)
            else:
                rows_with_row(x + r * width, z + s * width, out + r * width, end - r, width)
            r = end
            s += 1
        return 0


_declare("add", operator.add, (*FLOATS, *_WHOLE), "fadd", "add")
_declare("sub", operator.sub, (*FLOATS, *_WHOLE), "fsub", "sub")
_declare("mul", operator.mul, (*FLOATS, *_WHOLE), "fmul", "mul")
_declare("div", operator.truediv, FLOATS, "fdiv")


@kernel(types=FLOATS)
def div_pairs_grad(
    flow: Pointer[T], x: Pointer[T], z: Pointer[T], grad_x: Pointer[T], grad_z: Pointer[T],
    count: int, piece_values: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write both gradients of x / z, elementwise."""
    for k in range(first * piece_values, min(last * piece_values, count)):
        grad_x[k] = flow[k] / z[k]
        grad_z[k] = -flow[k] * x[k] / (z[k] * z[k])
    return 0


def _total_of(terms: Callable[[Any, Any, Any, Any], Any], *, two: bool) -> Any:
    """Return a function that sums terms(v, a, b, by) over values at two addresses, in 64 bits.

    Args:
        two: whether the second address is used.
    """

    def whole(*kinds: Any) -> Any:
        return types.float64 if isinstance(kinds[-1].dtype, types.Float) else types.int64

    @emits(whole, types.int64, types.int64, types.int64, None, None)
    def total(on: Emitter, x: Any, y: Any, count: Any, by: Any, like: Any) -> Any:
        builder = on.builder
        v = Vectors(on, on.kinds[4].dtype, on.result)
        divisor = v.all(on.context.cast(builder, by, on.kinds[3], v.value), v.kind)

        def added(k: Any, mask: Any, totals: Values) -> Values:
            a = v.load(v.place(x, k), v.kind, mask, v.zero())
            b = v.load(v.place(y, k), v.kind, mask, v.zero()) if two else None
            term = v.where(mask, terms(v, a, b, divisor), v.zero())
            return merged(totals, [v.widened(term)])

        def merged(a: Values, b: Values) -> Values:
            return [v.plus(a[0], b[0])]

        totals = v.each(count, [v.constant(0, v.total_kind)], added)
        first = ir.IntType(32)(0)
        return builder.extract_element(v.joined(totals, merged, None)[0], first)

    return total


def _product(v: Vectors, a: Any, b: Any, _: Any) -> Any:
    return v.builder.fmul(a, b) if v.floating else v.builder.mul(a, b)


def _quotient(v: Vectors, a: Any, b: Any, by: Any) -> Any:
    return v.builder.fdiv(v.builder.fmul(a, b), by)


_sum = _total_of(lambda v, a, b, by: a, two=False)
_sum_of_products = _total_of(_product, two=True)
_sum_of_quotients = _total_of(_quotient, two=True)


@kernel(types=(("float32", "float64"), ("float64", "float64"), ("int64", "int64")))
def dot(
    x: Pointer[T], y: Pointer[T], offsets: Pointer[np.int64], out: Pointer[U], value: type[T],
    segments: int, width: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Sum the products of two arrays of rows (N, width) over each segment."""
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            lo, hi = offsets[s] * width, offsets[s + 1] * width
            out[s] = _sum_of_products(address(x + lo), address(y + lo), hi - lo, value(0), x)
    return 0


@kernel(types=FLOATS)
def totals(
    kind: int, flow: Pointer[T], x: Pointer[T], z: Pointer[T], offsets: Pointer[np.int64],
    out: Pointer[np.float64], segments: int, width: int, z_width: int, pieces: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Sum the gradients of the values (S, z_width) over their rows: 0 add, 1 sub, 2 mul, 3 div."""
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            values, to = z + s * z_width, out + s * z_width
            if z_width == 1:
                lo, hi = offsets[s] * width, offsets[s + 1] * width
                to[0] = _total(kind, address(flow + lo), address(x + lo), hi - lo, values[0], x)
                continue
            for k in range(z_width):
                to[k] = 0
            for r in range(offsets[s], offsets[s + 1]):
                _add_row(kind, flow + r * width, x + r * width, values, to, width)
    return 0


@function()
def _total(kind: int, up: int, row: int, count: int, value: Any, like: Any) -> Any:
    if kind < 2:
        whole = _sum(up, row, count, value, like)
    elif kind == 2:
        whole = _sum_of_products(up, row, count, value, like)
    else:
        whole = _sum_of_quotients(up, row, count, value * value, like)
    return 0.0 - whole if kind & 1 else whole


@function()
def _add_row(kind: int, up: Any, row: Any, values: Any, to: Any, width: int) -> None:
    for k in range(width):
        if kind == 0:
            to[k] += up[k]
        elif kind == 1:
            to[k] -= up[k]
        elif kind == 2:
            to[k] += up[k] * row[k]
        else:
            to[k] -= up[k] * row[k] / (values[k] * values[k])
