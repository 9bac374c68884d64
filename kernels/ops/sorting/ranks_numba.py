"""Sorting within one segment: integer sort keys, ranks in short blocks, merges, top-k.

Keys are int64; equal keys keep the order of their rows. Up to BLOCK keys are sorted by counting for
each how many precede it, one vector at a time and branch-free.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, address, emits, function
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.vectors import Values, Vectors

BLOCK = 64
# Up to this many first rows, of at least this many rows, are found by insertion; else all are
# sorted.
MOST_FIRST, LEAST_ROWS = 32, 32
_I64 = ir.IntType(64)
_GREATEST = (1 << 63) - 1


@emits(types.int64, None)
def _key_of(on: Emitter, value: Any) -> Any:
    """Return an int64 that compares like the number; that of a NaN is the greatest."""
    builder = on.builder
    if not isinstance(on.kinds[0], types.Float):
        return value
    # -0.0 + 0.0 is 0.0, which it equals.
    number = on.context.cast(builder, value, on.kinds[0], types.float64)
    number = builder.fadd(number, ir.DoubleType()(0.0))
    bits = builder.bitcast(number, _I64)
    below = builder.and_(builder.ashr(bits, _I64(63)), _I64(_GREATEST))
    is_nan = builder.fcmp_unordered("uno", number, number)
    return builder.select(is_nan, _I64(_GREATEST), builder.xor(bits, below))


@emits(types.void, types.int64, types.int64, types.int64)
def _count_before(on: Emitter, keys: Any, ranks: Any, count: Any) -> None:
    """Write how many of `count` keys at an address precede each key."""
    builder = on.builder
    v = Vectors(on, types.int64, types.int64)

    def ranked(k: Any, mask: Any, _: Values) -> Values:
        own = v.load(v.place(keys, k), v.kind, mask, v.zero())
        after = builder.add(k, _I64(v.lanes))
        end = builder.select(builder.icmp_signed("<", after, count), after, count)

        def added(first: Any, last: Any, totals: Values, before: Any) -> Values:
            def one(j: Any, totals: Values) -> Values:
                place = v.place(keys, builder.add(first, j))
                other = builder.load(builder.inttoptr(place, _I64.as_pointer()))
                found = before(j, v.all(other, v.kind))
                return [builder.sub(totals[0], builder.sext(found, v.kind))]

            return v.loop(builder.sub(last, first), 1, totals, one)

        def among(j: Any, other: Any) -> Any:
            lanes = ir.Constant(v.kind, list(range(v.lanes)))
            later = builder.icmp_signed(">", lanes, v.all(j, v.kind))
            equal = builder.and_(builder.icmp_signed("==", other, own), later)
            return builder.or_(builder.icmp_signed("<", other, own), equal)

        totals = [v.zero()]
        totals = added(_I64(0), k, totals, lambda _, other: builder.icmp_signed("<=", other, own))
        totals = added(k, end, totals, among)
        totals = added(end, count, totals, lambda _, other: builder.icmp_signed("<", other, own))
        v.store(totals[0], v.place(ranks, k), mask)
        return []

    v.each(count, [], ranked)


@function()
def keys_of(x: Any, count: int, width: int, descending: bool, keys: Any) -> None:
    """Write the keys of every `width`-th value; in descending order if set."""
    turn = -1 if descending else 0
    if width == 1:
        for row in range(count):
            keys[row] = _key_of(x[row]) ^ turn
    else:
        for row in range(count):
            keys[row] = _key_of(x[row * width]) ^ turn


@function()
def first_rows(keys: Any, count: int, wanted: int, best: Any, rows: Any) -> None:
    """Write the first `wanted` rows in order; `best` is scratch for as many keys."""
    found = 0
    for row in range(count):
        key = keys[row]
        if found == wanted and not key < best[wanted - 1]:
            continue
        at = min(found, wanted - 1)
        found = min(found + 1, wanted)
        while at > 0 and key < best[at - 1]:
            best[at], rows[at] = best[at - 1], rows[at - 1]
            at -= 1
        best[at], rows[at] = key, row


@function()
def sorted_rows(keys: Any, rows: Any, other_keys: Any, other_rows: Any, count: int) -> bool:
    """Write all rows in order to `rows` or `other_rows`; return whether to the latter.

    Args:
        keys: the input; overwritten.
        other_keys: scratch of the same size.
    """
    for first in range(0, count, BLOCK):
        own, size = keys + first, min(BLOCK, count - first)
        ranks, to = rows + first, other_keys + first
        _count_before(address(own), address(ranks), size)
        named = other_rows + first
        for row in range(size):
            at = ranks[row]
            to[at] = own[row]
            named[at] = first + row
    swapped, size = True, BLOCK
    while size < count:
        for first in range(0, count, 2 * size):
            middle, end = min(first + size, count), min(first + 2 * size, count)
            if end - middle == size and other_keys[middle] < other_keys[middle - 1]:
                _merge_equal(other_keys, other_rows, first, size, keys, rows)
            else:
                _merge(other_keys, other_rows, first, middle, end, keys, rows)
        keys, other_keys, rows, other_rows = other_keys, keys, other_rows, rows
        swapped, size = not swapped, 2 * size
    return swapped


@function()
def _merge_equal(keys: Any, rows: Any, first: int, size: int, to_keys: Any, to_rows: Any) -> None:
    """Merge two sorted runs of `size`, half of the result from the front and half from the back.

    Neither half can run past the end of a run, and they are independent of each other.
    """
    a, b, c, d = first, first + size, first + size - 1, first + 2 * size - 1
    low, high = a, d
    for _ in range(size):
        # Branch-free. Among equal keys those of the first run come first.
        one, other = keys[a], keys[b]
        later = other < one
        to_keys[low], to_rows[low] = other if later else one, rows[a + (b - a) * later]
        a += 1 - later
        b += later
        low += 1
        one, other = keys[c], keys[d]
        later = other < one
        to_keys[high], to_rows[high] = one if later else other, rows[d + (c - d) * later]
        c -= later
        d -= 1 - later
        high -= 1


@function()
def _merge(
    keys: Any, rows: Any, first: int, middle: int, end: int, to_keys: Any, to_rows: Any
) -> None:
    """Merge two sorted runs."""
    a, b = first, middle
    in_order = middle == end or keys[middle - 1] <= keys[middle]
    for at in range(first, end):
        if b == end or (a < middle and (in_order or keys[a] <= keys[b])):
            to_keys[at], to_rows[at] = keys[a], rows[a]
            a += 1
        else:
            to_keys[at], to_rows[at] = keys[b], rows[b]
            b += 1
