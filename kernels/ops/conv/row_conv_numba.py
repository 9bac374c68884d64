"""Depthwise convolutions: each is a sum of shifted rows times one weight per column.

Rows are read as one line of values, so a vector may hold several rows. The weight is repeated over
enough columns that a vector may begin at any of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.lanes_numba import lanes_in, load, load_between, store
from lodcli.kernels.simd.row_partition_numba import segment_at

_ROWS = 16


class Shifts(NamedTuple):
    """The rows that are summed for each row.

    Attributes:
        offsets: (segments + 1,).
        rows, width: their shape (N, D).
        length: number of rows in a sum.
        start, way: term k is the row at distance `start + k * way`.
        zeros: whether rows outside the segment count as zeros; else they are skipped, even for an
            infinite weight.
        block: rows per piece.
    """

    offsets: Pointer[np.int64]
    segments: int
    rows: int
    width: int
    length: int
    start: int
    way: int
    zeros: bool
    block: int


@kernel(types=FLOATS)
def shifted_sums(
    of: Shifts, x: Pointer[T], weight: Pointer[T], out: Pointer[T], first: int, last: int
) -> int:
    """Write for each row the sum over k of weight row k times the row of term k, (N, D).

    Args:
        weight: (K, D + 64); column d holds weight column d % D.
    """
    lanes, step = lanes_in(x), of.width + 64
    low, high = _reach(of)
    for piece in range(first, last):
        at, stop = piece * of.block * of.width, min((piece + 1) * of.block, of.rows) * of.width
        segment = segment_at(of.offsets, of.segments, piece * of.block)
        while at < stop:
            while of.offsets[segment + 1] * of.width <= at:
                segment += 1
            begin, end = of.offsets[segment] * of.width, of.offsets[segment + 1] * of.width
            # Pieces and segments begin at row boundaries.
            upto, column = min(stop, end), 0
            while at < upto:
                count = 4 * lanes
                if at + count <= upto and begin <= at + low and at + high + count <= end:
                    _four_totals(of, x + at, weight + column, step, out + at)
                else:
                    count = lanes
                    total = _total(of, x + at, weight + column, step, begin - at, end - at)
                    store(total, out, at, upto - at)
                at += count
                column += count
                while column >= of.width:
                    column -= of.width
            at = upto
    return 0


@function()
def _reach(of: Any) -> Any:
    """Return how far before and after its position a value has terms in its sum."""
    ends = of.start * of.width, (of.start + of.way * (of.length - 1)) * of.width
    return min(ends), max(ends)


@function()
def _four_totals(of: Any, x: Any, weight: Any, step: int, out: Any) -> None:
    """Write four vectors of sums whose rows all lie in the segment."""
    lanes = lanes_in(x)
    a = b = c = d = load(x, 0, 0)
    for k in range(of.length):
        w, v = weight + k * step, x + (of.start + of.way * k) * of.width
        a = a + load(w, 0, lanes) * load(v, 0, lanes)
        b = b + load(w, lanes, lanes) * load(v, lanes, lanes)
        c = c + load(w, 2 * lanes, lanes) * load(v, 2 * lanes, lanes)
        d = d + load(w, 3 * lanes, lanes) * load(v, 3 * lanes, lanes)
    store(a, out, 0, lanes)
    store(b, out, lanes, lanes)
    store(c, out, 2 * lanes, lanes)
    store(d, out, 3 * lanes, lanes)


@function()
def _total(of: Any, x: Any, weight: Any, step: int, begin: int, end: int) -> Any:
    """Return a vector of sums; the segment is `begin` to `end`, relative to `x`."""
    lanes = lanes_in(x)
    total = load(x, 0, 0)
    for k in range(of.length):
        source = (of.start + of.way * k) * of.width
        low, high = max(0, begin - source), min(lanes, end - source)
        values = load_between(x, source, low, high)
        if of.zeros:
            total = total + load(weight, k * step, lanes) * values
        else:
            total = total + load_between(weight, k * step, low, high) * values
    return total


@kernel(types=FLOATS)
def shifted_products(
    of: Shifts, x: Pointer[T], flow: Pointer[T], sums: Pointer[T], step: int, first: int, last: int
) -> int:
    """Add each row of `flow` times the row of term k to row k of the sums of a piece.

    Args:
        sums: (pieces, K, step): column d of the rows is d, d + D, .. below `step`.
    """
    lanes = lanes_in(x)
    # As many whole rows as fit a vector, or a few that stay in the L1 cache.
    narrow = 2 * of.width <= lanes
    each = lanes // of.width if narrow else _ROWS
    for piece in range(first, last):
        own = sums + piece * of.length * step
        row, stop = piece * of.block, min((piece + 1) * of.block, of.rows)
        segment = segment_at(of.offsets, of.segments, row)
        while row < stop:
            while of.offsets[segment + 1] <= row:
                segment += 1
            begin, end = of.offsets[segment], of.offsets[segment + 1]
            upto = min(stop, end)
            while row < upto:
                rows, at = min(each, upto - row), row * of.width
                if narrow:
                    _add_vector(of, x + at, flow + at, own, step, rows, begin - row, end - row)
                else:
                    _add_rows(of, x + at, flow + at, own, step, rows, begin - row, end - row)
                row += rows
    return 0


@function()
def _add_vector(
    of: Any, x: Any, flow: Any, sums: Any, step: int, rows: int, begin: int, end: int
) -> None:
    """Add the products of one vector of rows; the segment is rows `begin` to `end` relative to
    `x`."""
    lanes, count = lanes_in(x), rows * of.width
    up = load(flow, 0, count)
    for k in range(of.length):
        source, to = (of.start + of.way * k) * of.width, k * step
        low, high = max(0, begin * of.width - source), min(count, end * of.width - source)
        if not of.zeros:
            up = load_between(flow, 0, low, high)
        values = load_between(x, source, low, high)
        store(load(sums, to, lanes) + up * values, sums, to, lanes)


@function()
def _add_rows(
    of: Any, x: Any, flow: Any, sums: Any, step: int, rows: int, begin: int, end: int
) -> None:
    """Add the products of the rows that lie in the segment, one after another."""
    lanes = lanes_in(x)
    for k in range(of.length):
        source = of.start + of.way * k
        low, high = max(0, begin - source), min(rows, end - source)
        for column in range(0, of.width, 2 * lanes):
            one, other = min(lanes, of.width - column), min(lanes, of.width - column - lanes)
            to = sums + k * step + column
            a, b = load(to, 0, lanes), load(to, lanes, lanes)
            for row in range(low, high):
                up, values = flow + row * of.width + column, x + (row + source) * of.width + column
                a = a + load(up, 0, one) * load(values, 0, one)
                b = b + load(up, lanes, other) * load(values, lanes, other)
            store(a, to, 0, lanes)
            store(b, to, lanes, lanes)
