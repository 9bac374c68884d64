"""Kernels of attention inside segments, by blocks of queries.

A block has as many queries of one head as two vectors have lanes. Its data is transposed, with one
lane per query: row j of the scores has the scores of key j. So products read keys and values
element by element in memory order, and a softmax runs down the rows, without sums across lanes.
Lanes beyond the last query hold zeros and are not written.

All queries of a block see the first `common` keys; later keys are hidden from some of them. Hidden
keys are skipped, not multiplied by 0, which would be NaN for infinite values.
"""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.exponential import exp
from lodcli.kernels.simd.lanes_numba import lanes_in, load, positive, store, zero

TILE = 6  # rows of a product with sums in registers, two vectors each, on every level
# Keys per chunk: their weights stay in the L1 cache while all columns of the values are multiplied.
# Partial sums are then added to the total: rounding errors grow with the chunk and with the number
# of chunks.
KEYS = 128


class Queries(NamedTuple, Generic[T]):
    """Queries, keys and values: (N, heads, D), (M, key heads, D) and (M, key heads, E).

    Attributes:
        groups: number of heads of queries that read a head of keys.
        q_offsets, k_offsets: (segments + 1,).
        last: whether the last query is aligned with the last key.
        most: at least the number of keys of the longest segment.
        spare: `room` scratch elements per worker; see _Block.
    """

    q: Pointer[T]
    k: Pointer[T]
    v: Pointer[T]
    heads: int
    groups: int
    depth: int
    width: int
    q_offsets: Pointer[np.int64]
    k_offsets: Pointer[np.int64]
    segments: int
    causal: bool
    last: bool
    scale: float
    most: int
    spare: Pointer[T]
    room: int


@function()
def _tile(
    a: Any, apart: int, step: int, rows: int, panel: Any, depth: int, onto: bool, out: Any,
    out_apart: int, count: int,
) -> None:  # fmt: skip
    """Multiply up to TILE rows of `a` with a panel; see _products."""
    last, lanes, none = rows - 1, lanes_in(panel), load(panel, 0, 0)
    block, rest = 2 * lanes, count - lanes
    b = a + min(1, last) * apart
    c = a + min(2, last) * apart
    d = a + min(3, last) * apart
    e = a + min(4, last) * apart
    f = a + min(5, last) * apart
    oa = out
    ob = out + min(1, last) * out_apart
    oc = out + min(2, last) * out_apart
    od = out + min(3, last) * out_apart
    oe = out + min(4, last) * out_apart
    of = out + min(5, last) * out_apart
    xa, ya = none, none
    xb, yb = none, none
    xc, yc = none, none
    xd, yd = none, none
    xe, ye = none, none
    xf, yf = none, none
    for k in range(depth):
        x, y, at = load(panel, k * block, lanes), load(panel, k * block + lanes, lanes), k * step
        xa, ya = xa + x * a[at], ya + y * a[at]
        xb, yb = xb + x * b[at], yb + y * b[at]
        xc, yc = xc + x * c[at], yc + y * c[at]
        xd, yd = xd + x * d[at], yd + y * d[at]
        xe, ye = xe + x * e[at], ye + y * e[at]
        xf, yf = xf + x * f[at], yf + y * f[at]
    if onto:
        # Added last: partial sums of many products lose fewer digits.
        xa, ya = load(oa, 0, count) + xa, load(oa, lanes, rest) + ya
        xb, yb = load(ob, 0, count) + xb, load(ob, lanes, rest) + yb
        xc, yc = load(oc, 0, count) + xc, load(oc, lanes, rest) + yc
        xd, yd = load(od, 0, count) + xd, load(od, lanes, rest) + yd
        xe, ye = load(oe, 0, count) + xe, load(oe, lanes, rest) + ye
        xf, yf = load(of, 0, count) + xf, load(of, lanes, rest) + yf
    # Missing rows repeat the last row.
    store(xa, oa, 0, count)
    store(ya, oa, lanes, rest)
    store(xb, ob, 0, count)
    store(yb, ob, lanes, rest)
    store(xc, oc, 0, count)
    store(yc, oc, lanes, rest)
    store(xd, od, 0, count)
    store(yd, od, lanes, rest)
    store(xe, oe, 0, count)
    store(ye, oe, lanes, rest)
    store(xf, of, 0, count)
    store(yf, of, lanes, rest)


@function()
def _products(
    a: Any, apart: int, step: int, rows: int, panel: Any, depth: int, onto: bool, out: Any,
    out_apart: int, count: int,
) -> None:  # fmt: skip
    """Write rows of sums over k < depth of a[row * apart + k * step] * panel[k], one block each.

    Args:
        onto: add to `out`, whose rows are `out_apart` elements apart.
        count: number of columns of the block to write.
    """
    for row in range(0, rows, TILE):
        _tile(
            a + row * apart, apart, step, min(TILE, rows - row), panel, depth, onto,
            out + row * out_apart, out_apart, count,
        )  # fmt: skip


@function()
def _transposed(source: Any, apart: int, count: int, width: int, to: Any) -> None:
    """Write `count` rows, `apart` elements apart, as the columns of a block, padded with zeros."""
    block = 2 * lanes_in(to)
    for column in range(width):
        for row in range(count):
            to[column * block + row] = source[row * apart + column]
        for row in range(count, block):
            to[column * block + row] = 0


@function()
def _panels(source: Any, apart: int, count: int, width: int, to: Any) -> None:
    """Write `count` rows, `apart` elements apart, as panels as wide as a block."""
    block = 2 * lanes_in(to)
    for first in range(0, width, block):
        for row in range(count):
            for column in range(block):
                there = first + column < width
                to[column] = source[row * apart + first + column] if there else 0
            to = to + block


@function()
def _seen(of: Any, i: int, s: int, size: int) -> Any:
    """Return how many of `size` keys query i of segment s sees."""
    if not of.causal:
        return size
    if of.last:
        return max(0, i - of.q_offsets[s + 1] + 1 + size)
    return min(size, i - of.q_offsets[s] + 1)


@function()
def _shown(sees: Any, beyond: int, value: Any, other: Any) -> Any:
    """Return `value` if a query sees this many keys beyond the common ones, else `other`."""
    return positive(sees - np.float64(beyond), value, other)


@function()
def _softmax(scores: Any, keys: int, common: int, sees: Any, scale: float, totals: Any) -> None:
    """Replace scores by unnormalised softmax weights, to be divided by their totals; 0 where
    hidden.

    Args:
        sees: number of keys beyond the common ones that each query sees.
    """
    lanes, none = lanes_in(scores), load(scores, 0, 0)
    block = 2 * lanes
    hidden = none - math.inf
    x_top, y_top, x_total, y_total = hidden, hidden, none, none
    x_sees, y_sees = load(sees, 0, lanes), load(sees, lanes, lanes)
    for j in range(keys):
        at = j * block
        x, y = load(scores, at, lanes) * scale, load(scores, at + lanes, lanes) * scale
        if j >= common:
            x = _shown(x_sees, j - common, x, hidden)
            y = _shown(y_sees, j - common, y, hidden)
        store(x, scores, at, lanes)
        store(y, scores, at + lanes, lanes)
        x_top, y_top = positive(x - x_top, x, x_top), positive(y - y_top, y, y_top)
    for start in range(0, keys, KEYS):
        x_part, y_part = none, none
        for j in range(start, min(start + KEYS, keys)):
            at = j * block
            x = exp(load(scores, at, lanes) - x_top)
            y = exp(load(scores, at + lanes, lanes) - y_top)
            if j >= common:
                x = _shown(x_sees, j - common, x, none)
                y = _shown(y_sees, j - common, y, none)
            store(x, scores, at, lanes)
            store(y, scores, at + lanes, lanes)
            x_part, y_part = x_part + x, y_part + y
        x_total, y_total = x_total + x_part, y_total + y_part
    store(x_total, totals, 0, lanes)
    store(y_total, totals, lanes, lanes)


@function()
def _divided(rows: Any, count: int, totals: Any) -> None:
    """Divide rows by the softmax totals; rows of queries that see no key are 0."""
    lanes = lanes_in(rows)
    x_total, y_total = load(totals, 0, lanes), load(totals, lanes, lanes)
    for at in range(0, count * 2 * lanes, 2 * lanes):
        store(zero(x_total, 0.0, load(rows, at, lanes) / x_total), rows, at, lanes)
        y = zero(y_total, 0.0, load(rows, at + lanes, lanes) / y_total)
        store(y, rows, at + lanes, lanes)


@function()
def _combined(
    rows: Any, apart: int, width: int, weights: Any, keys: int, common: int, sees: Any, sums: Any
) -> None:
    """Write the weighted sums of rows of keys, `apart` elements apart, for each query.

    Args:
        sums: (width, block).
    """
    lanes = lanes_in(sums)
    block = 2 * lanes
    for j in range(0, max(1, common), KEYS):
        n = min(KEYS, common - j)
        _products(
            rows + j * apart, 1, apart, width, weights + j * block, n, j > 0,
            sums, block, block,
        )  # fmt: skip
    x_sees, y_sees = load(sees, 0, lanes), load(sees, lanes, lanes)
    for j in range(common, keys):
        x, y = load(weights, j * block, lanes), load(weights, j * block + lanes, lanes)
        for e in range(width):
            value, at = rows[j * apart + e], e * block
            old = load(sums, at, lanes)
            store(_shown(x_sees, j - common, old + x * value, old), sums, at, lanes)
            old = load(sums, at + lanes, lanes)
            new = _shown(y_sees, j - common, old + y * value, old)
            store(new, sums, at + lanes, lanes)


@function()
def _written(sums: Any, width: int, count: int, out: Any, apart: int) -> None:
    """Write the columns of a block as rows, `apart` elements apart."""
    block = 2 * lanes_in(sums)
    for row in range(count):
        for column in range(width):
            out[row * apart + column] = sums[column * block + row]


class _Block(NamedTuple):
    """Scratch arrays of a worker for one block.

    Attributes:
        queries, upstream: transposed.
        sees, totals: one per query.
        sums: up to D or E columns.
        weights, slopes: a row for each key.
        panels: rows of the queries or of the upstream gradient.
    """

    queries: Any
    sees: Any
    totals: Any
    sums: Any
    weights: Any
    upstream: Any
    slopes: Any
    panels: Any


@function()
def _block_of(of: Any, worker: int) -> Any:
    block = 2 * lanes_in(of.spare)
    queries = of.spare + worker * of.room
    sees = queries + of.depth * block
    totals = sees + block
    sums = totals + block
    weights = sums + max(of.depth, of.width) * block
    upstream = weights + of.most * block
    slopes = upstream + of.width * block
    panels = slopes + of.most * block
    return _Block(queries, sees, totals, sums, weights, upstream, slopes, panels)


@function()
def _weigh(of: Any, own: Any, s: int, head: int, start: int, count: int) -> Any:
    """Compute the weights of a block of queries; return how many keys any query sees, and all
    see."""
    block = 2 * lanes_in(of.q)
    first, size = of.k_offsets[s], of.k_offsets[s + 1] - of.k_offsets[s]
    common, keys = _seen(of, start, s, size), _seen(of, start + count - 1, s, size)
    for i in range(block):
        own.sees[i] = _seen(of, start + i, s, size) - common if i < count else 0
    apart = of.heads * of.depth
    _transposed(of.q + start * apart + head * of.depth, apart, count, of.depth, own.queries)
    apart = of.heads // of.groups * of.depth
    _products(
        of.k + first * apart + head // of.groups * of.depth, apart, 1, keys, own.queries, of.depth,
        False, own.weights, block, block,
    )  # fmt: skip
    _softmax(own.weights, keys, common, own.sees, of.scale, own.totals)
    return keys, common


@function()
def _is_due(number: int, worker: int, workers: int, turn: int, turns: int) -> bool:
    """Return whether a worker processes this block in this turn.

    The assignment rotates each round: the last blocks of causal sequences are the most work.
    """
    every = workers * turns
    return (number + number // every) % every == turn * workers + worker


@kernel(types=FLOATS)
def forward(
    of: Queries[T], workers: int, turn: int, turns: int, out: Pointer[T], first: int, last: int
) -> int:
    """Write the attention of each query, (N, heads, E).

    Workers `first` to `last` of `workers` process their share of one of several turns.
    """
    block, apart = 2 * lanes_in(of.q), of.heads * of.width
    v_apart = of.heads // of.groups * of.width
    for worker in range(first, last):
        own, number = _block_of(of, worker), 0
        for s in range(of.segments):
            end = of.q_offsets[s + 1]
            for head in range(of.heads):
                for start in range(of.q_offsets[s], end, block):
                    number += 1
                    if not _is_due(number, worker, workers, turn, turns):
                        continue
                    count = min(block, end - start)
                    keys, common = _weigh(of, own, s, head, start, count)
                    values = of.v + of.k_offsets[s] * v_apart + head // of.groups * of.width
                    _combined(
                        values, v_apart, of.width, own.weights, keys, common, own.sees, own.sums
                    )
                    _divided(own.sums, of.width, own.totals)
                    place = out + start * apart + head * of.width
                    _written(own.sums, of.width, count, place, apart)
    return 0


@function()
def _slopes(own: Any, keys: int, common: int, scale: float) -> None:
    """Convert gradients of weights to gradients of scores; 0 where hidden."""
    lanes = lanes_in(own.weights)
    block, none = 2 * lanes, load(own.weights, 0, 0)
    x_sees, y_sees = load(own.sees, 0, lanes), load(own.sees, lanes, lanes)
    x_mean, y_mean = none, none
    for start in range(0, keys, KEYS):
        x_part, y_part = none, none
        for j in range(start, min(start + KEYS, keys)):
            at = j * block
            x = load(own.slopes, at, lanes) * load(own.weights, at, lanes)
            y = load(own.slopes, at + lanes, lanes) * load(own.weights, at + lanes, lanes)
            if j >= common:
                x = _shown(x_sees, j - common, x, none)
                y = _shown(y_sees, j - common, y, none)
            x_part, y_part = x_part + x, y_part + y
        x_mean, y_mean = x_mean + x_part, y_mean + y_part
    for j in range(keys):
        at = j * block
        x = (load(own.slopes, at, lanes) - x_mean) * load(own.weights, at, lanes) * scale
        y = load(own.slopes, at + lanes, lanes) - y_mean
        y = y * load(own.weights, at + lanes, lanes) * scale
        if j >= common:
            x = _shown(x_sees, j - common, x, none)
            y = _shown(y_sees, j - common, y, none)
        store(x, own.slopes, at, lanes)
        store(y, own.slopes, at + lanes, lanes)


@function()
def _spread(
    weights: Any, keys: int, common: int, sees: Any, count: int, panels: Any, width: int, out: Any,
    apart: int,
) -> None:  # fmt: skip
    """Add to rows of keys, `apart` elements apart, the rows of the queries that see them."""
    block = 2 * lanes_in(weights)
    for first in range(0, width, block):
        columns, to = min(block, width - first), out + first
        _products(
            weights, block, 1, common, panels, count, True, to, apart, columns,
        )  # fmt: skip
        unseen = 0
        for j in range(common, keys):
            while sees[unseen] <= j - common:
                unseen += 1
            _products(
                weights + j * block + unseen, block, 1, 1, panels + unseen * block,
                count - unseen, True, to + j * apart, apart, columns,
            )  # fmt: skip
        panels = panels + count * block


@kernel(types=FLOATS)
def backward(
    of: Queries[T], workers: int, turn: int, turns: int, grad: Pointer[T], grad_q: Pointer[T],
    grad_k: Pointer[T], grad_v: Pointer[T], first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of queries, and add to the gradients of keys and values.

    One worker processes all queries of a segment's head of keys, for a fixed summation order.

    Args:
        grad: (N, heads, E).
    """
    block, q_apart, up_apart = 2 * lanes_in(of.q), of.heads * of.depth, of.heads * of.width
    key_heads = of.heads // of.groups
    k_apart, v_apart = key_heads * of.depth, key_heads * of.width
    for worker in range(first, last):
        own = _block_of(of, worker)
        for number in range(of.segments * key_heads):
            if not _is_due(number, worker, workers, turn, turns):
                continue
            s, key_head = number // key_heads, number % key_heads
            at_k = of.k_offsets[s] * k_apart + key_head * of.depth
            at_v = of.k_offsets[s] * v_apart + key_head * of.width
            end = of.q_offsets[s + 1]
            for head in range(key_head * of.groups, (key_head + 1) * of.groups):
                for start in range(of.q_offsets[s], end, block):
                    count = min(block, end - start)
                    keys, common = _weigh(of, own, s, head, start, count)
                    _divided(own.weights, keys, own.totals)
                    at_q = start * q_apart + head * of.depth
                    at_up = start * up_apart + head * of.width
                    _panels(grad + at_up, up_apart, count, of.width, own.panels)
                    _spread(
                        own.weights, keys, common, own.sees, count, own.panels, of.width,
                        grad_v + at_v, v_apart,
                    )  # fmt: skip
                    _transposed(grad + at_up, up_apart, count, of.width, own.upstream)
                    _products(
                        of.v + at_v, v_apart, 1, keys, own.upstream, of.width, False,
                        own.slopes, block, block,
                    )  # fmt: skip
                    _slopes(own, keys, common, of.scale)
                    _combined(
                        of.k + at_k, k_apart, of.depth, own.slopes, keys, common, own.sees,
                        own.sums,
                    )  # fmt: skip
                    _written(own.sums, of.depth, count, grad_q + at_q, q_apart)
                    _panels(of.q + at_q, q_apart, count, of.depth, own.panels)
                    _spread(
                        own.slopes, keys, common, own.sees, count, own.panels, of.depth,
                        grad_k + at_k, k_apart,
                    )  # fmt: skip
    return 0
