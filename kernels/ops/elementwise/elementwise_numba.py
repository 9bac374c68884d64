"""Kernels of arithmetic of rows with one row or value a segment, and its gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, U, kernel
from lodcli.kernels.native.language_numba import CHECKED, data_of, function
from lodcli.kernels.runtime.jit_numba import intrinsic, ir, types
from lodcli.kernels.simd.instructions import VECTOR_BYTES, load
from lodcli.kernels.simd.nontemporal_stores import settle, store_line
from lodcli.kernels.simd.row_partition_numba import segment_at, segments_of_piece

# Others wrap around as one of these does, or are computed by NumPy: elementwise.py.
_WHOLE, _COMPLEX = ("int32", "int64", "uint8"), ("complex64", "complex128")


def _line_of(real: str, whole: str) -> Any:
    """Return a function of pointers x, z and `out` that combines the line of values from k on.

    Args:
        real, whole: LLVM's instruction for floating and whole numbers.
    """

    @intrinsic
    def line(typing_context: Any, x: Any, z: Any, out: Any, k: Any) -> Any:
        size = x.dtype.bitwidth // 8
        emit = real if isinstance(x.dtype, types.Float) else whole

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            vector = ir.VectorType(context.get_data_type(x.dtype), VECTOR_BYTES // size)
            places = [
                builder.bitcast(builder.gep(data_of(builder, one), [args[3]]), vector.as_pointer())
                for one in args[:3]
            ]
            values = [load(builder, place, size) for place in places[:2]]
            store_line(builder, getattr(builder, emit)(*values), places[2])
            return context.get_dummy_value()

        return types.void(x, z, out, types.int64), generate

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
        """Combine value with value.

        Args:
            line_values: how many values a line has, where lines of `out` bypass the caches: it
                begins where one does, and so do pieces. 0: they do not.
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
        """Combine rows (N, width) with those of their segments, (S, width) or (S, 1)."""
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


@kernel(types=(("float32", "float64"), ("float64", "float64"), ("int64", "int64")))
def dot(
    x: Pointer[T], y: Pointer[T], offsets: Pointer[np.int64], out: Pointer[U], value: type[T],
    total: type[U], segments: int, width: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Sum the products of two arrays of rows (N, width) over each segment."""
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            whole = total(0)
            for r in range(offsets[s], offsets[s + 1]):
                # A row in the dtype of the rows, as the reference adds it.
                part = value(0)
                one, other = x + r * width, y + r * width
                for k in range(width):
                    part += one[k] * other[k]
                whole += part
            out[s] = whole
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
            for k in range(z_width):
                to[k] = 0
            for r in range(offsets[s], offsets[s + 1]):
                up, row = flow + r * width, x + r * width
                if z_width == 1:
                    _add_row_to_one(kind, up, row, values, to, width)
                else:
                    _add_row(kind, up, row, values, to, width)
    return 0


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


@function()
def _add_row_to_one(kind: int, up: Any, row: Any, values: Any, to: Any, width: int) -> None:
    whole, square = to[0], values[0] * values[0]
    for k in range(width):
        if kind == 0:
            whole += up[k]
        elif kind == 1:
            whole -= up[k]
        elif kind == 2:
            whole += up[k] * row[k]
        else:
            whole -= up[k] * row[k] / square
    to[0] = whole
