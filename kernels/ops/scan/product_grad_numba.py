"""Kernel of the gradient of cumulative products, in float64: see scan.py.

Columns are processed side by side. Columns with a zero, which need other products, and single
columns are processed one at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import Emitter, address, emits, function
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.row_partition_numba import segments_of_piece
from lodcli.kernels.simd.vectors import Values, Vectors

_I64 = ir.IntType(64)
SIDE = 8  # maximum number of columns side by side


class _Columns:
    """Loads and stores `count` columns, or all, of rows `step` values apart, as float64."""

    def __init__(self, on: Emitter, lanes: int, step: Any, count: Any) -> None:
        self.v = Vectors(on, on.kinds[-1].dtype, types.float64, lanes)
        self.step, self.mask = step, None if count is None else self.v.below(count)

    def load(self, at: Any, row: Any) -> Any:
        """Return values; 1 beyond the columns, which is neutral."""
        v = self.v
        ones = v.constant(1.0, v.kind)
        return v.widened(v.load(self._place(at, row, v.bytes), v.kind, self.mask, ones))

    def store(self, value: Any, to: Any, row: Any) -> None:
        v = self.v
        narrow = value if v.bytes == 8 else v.builder.fptrunc(value, v.kind)
        v.store(narrow, self._place(to, row, v.bytes), self.mask)

    def load_wide(self, at: Any, row: Any) -> Any:
        v = self.v
        zeros = v.constant(0.0, v.total_kind)
        return v.load(self._place(at, row, v.total_bytes), v.total_kind, self.mask, zeros)

    def store_wide(self, value: Any, to: Any, row: Any) -> None:
        self.v.store(value, self._place(to, row, self.v.total_bytes), self.mask)

    def _place(self, at: Any, row: Any, size: int) -> Any:
        return self.v.place(at, self.v.builder.mul(row, self.step), size)


def _products(on: _Columns, to: Any, flow: Any, x: Any, rows: Any, exclusive: Any) -> Any:
    """Write upstream gradients times cumulative products; return whether there is a zero."""
    v, builder = on.v, on.v.builder
    ones, none = v.constant(1.0, v.total_kind), v.constant(0.0, v.total_kind)
    ahead = builder.zext(exclusive, _I64)

    def added(row: Any, values: Values, upstream: Any, *, ends: bool = False) -> Values:
        product, zeros = values
        value = on.load(x, row)
        product = builder.fmul(product, value)
        zeros = builder.select(builder.fcmp_ordered("==", value, none), ones, zeros)
        term = builder.fmul(upstream, product)
        if ends:  # no exclusive result has the factor of the last row: not 0 times infinity, NaN
            term = builder.select(exclusive, none, term)
        on.store_wide(term, to, row)
        return [product, zeros]

    def one(row: Any, values: Values) -> Values:
        return added(row, values, on.load(flow, builder.add(row, ahead)))

    last = builder.sub(rows, _I64(1))
    found = v.loop(last, 1, [ones, none], one)
    _, zeros = added(last, found, on.load(flow, last), ends=True)
    bits = builder.bitcast(builder.fcmp_ordered("!=", zeros, none), ir.IntType(v.lanes))
    return builder.icmp_unsigned("!=", bits, bits.type(0))


def _quotients(on: _Columns, to: Any, at: Any, x: Any, rows: Any) -> None:
    """Write for each row the sum of the products from there on, divided by the row."""
    v, builder = on.v, on.v.builder
    last = builder.sub(rows, _I64(1))

    def one(k: Any, values: Values) -> Values:
        row = builder.sub(last, k)
        total = builder.fadd(values[0], on.load_wide(at, row))
        on.store(builder.fdiv(total, on.load(x, row)), to, row)
        return [total]

    v.loop(rows, 1, [v.constant(0.0, v.total_kind)], one)


def _carried(lanes: int, *, whole: bool = False) -> Any:
    """Return a function for up to `lanes` columns, or for exactly as many.

    The latter needs no mask: masked stores are slow with AVX2.
    """

    @emits(types.boolean, *[types.int64] * 7, types.boolean, None)
    def carried(
        on: Emitter, to: Any, products: Any, flow: Any, x: Any, step: Any, rows: Any, count: Any,
        exclusive: Any, like: Any,
    ) -> Any:  # fmt: skip
        """Write the gradient if there is no zero; return whether there is one.

        All arguments but the numbers are addresses.
        """
        builder = on.builder
        some = None if whole else count
        columns = _Columns(on, lanes, step, some)
        zero = _products(columns, products, flow, x, rows, exclusive)
        with builder.if_then(builder.not_(zero)):
            _quotients(columns, to, products, x, rows)
        return zero

    return carried


_two, _four, _eight = (_carried(lanes, whole=True) for lanes in (2, 4, 8))
_up_to_four, _up_to_eight = _carried(4), _carried(8)


@kernel(types=FLOATS)
def product_grad(
    flow: Pointer[T], x: Pointer[T], offsets: Pointer[np.int64], products: Pointer[np.float64],
    out: Pointer[T], segments: int, width: int, exclusive: bool, reverse: bool, pieces: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of cumulative products of rows (N, width).

    Args:
        products: scratch of the same size.
    """
    step = -width if reverse else width
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            count = offsets[s + 1] - offsets[s]
            if count == 0:
                continue
            at = (offsets[s + 1] - 1 if reverse else offsets[s]) * width
            if width == 1:
                # The other paths are slower for short segments of single values.
                _column(flow, x, products, out, at, step, count, exclusive)
                continue
            for start in range(at, at + width, SIDE):
                _columns(
                    flow, x, products, out, start, step, count, min(SIDE, at + width - start),
                    exclusive,
                )  # fmt: skip
    return 0


@function()
def _columns(
    flow: Any, x: Any, products: Any, out: Any, start: int, step: int, count: int, columns: int,
    exclusive: bool,
) -> None:  # fmt: skip
    """Write the gradient of columns side by side, or of each alone."""
    up, own = address(flow + start), address(x + start)
    scratch, to = address(products + start), address(out + start)
    alone = columns == 1
    if columns == 8:
        alone = _eight(to, scratch, up, own, step, count, columns, exclusive, x)
    elif columns == 4:
        alone = _four(to, scratch, up, own, step, count, columns, exclusive, x)
    elif columns == 2:
        alone = _two(to, scratch, up, own, step, count, columns, exclusive, x)
    elif columns == 3:
        alone = _up_to_four(to, scratch, up, own, step, count, columns, exclusive, x)
    elif columns > 4:
        alone = _up_to_eight(to, scratch, up, own, step, count, columns, exclusive, x)
    if alone:
        for column in range(start, start + columns):
            _column(flow, x, products, out, column, step, count, exclusive)


@function()
def _column(
    flow: Any, x: Any, products: Any, out: Any, start: int, step: int, count: int, exclusive: bool
) -> None:
    """Write the gradient of one column."""
    ahead = step if exclusive else 0
    product, zero, at = 1.0, count, start
    for i in range(count - 1):
        value = np.float64(x[at])
        zero = min(zero, i if value == 0 else count)
        product *= value
        products[at] = np.float64(flow[at + ahead]) * product
        at += step
    value = np.float64(x[at])
    zero = min(zero, count - 1 if value == 0 else count)
    products[at] = 0.0 if exclusive else np.float64(flow[at]) * (product * value)
    total = 0.0
    for _ in range(count):
        total += products[at]
        out[at] = total / np.float64(x[at])
        at -= step
    if zero < count:
        _from_zero(flow, x, products, out, start, step, count, zero, exclusive)


@function()
def _from_zero(
    flow: Any, x: Any, products: Any, out: Any, start: int, step: int, count: int, zero: int,
    exclusive: bool,
) -> None:  # fmt: skip
    """Write the gradient at the zeros of a column, the first of which is in row `zero`."""
    others = 1.0
    for i in range(count):
        at = start + step * i
        if i != zero:
            others *= np.float64(x[at])
        if not exclusive:
            products[at] = np.float64(flow[at]) * others
        else:
            products[at] = np.float64(flow[at + step]) * others if i + 1 < count else 0.0
    total = 0.0
    for i in range(count - 1, zero - 1, -1):
        at = start + step * i
        total += products[at]
        if x[at] == 0:
            out[at] = total if i == zero else 0.0
