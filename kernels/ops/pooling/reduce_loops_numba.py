"""Inner loops of sums, min/max and argmin/argmax, on the vectors of vectors.py.

There are four variants: `columns` for some columns of many rows, `row` for one row that is too wide
for registers, `values` for whole rows whose width divides a vector, read as one run of values and
folded at the end, and `single` for short segments of single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.native.target import level
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import VECTOR_BYTES
from lodcli.kernels.simd.vectors import FIRST, MORE, STREAMS, Values, Vectors, lanes_of

# Whether there are 32 vector registers. They hold STREAMS rows of two or three vectors, and rows of
# up to 24 vectors.
MANY_REGISTERS = level().registers * level().vector_bytes >= 32 * VECTOR_BYTES

_I64, _BIT = ir.IntType(64), ir.IntType(1)


@dataclass(frozen=True)
class _Place:
    """The destination of the result of some lanes, and its current content."""

    to: Any
    index_to: Any
    at: Any
    row: Any
    fresh: Any
    flip: Any
    mask: Any


@dataclass(frozen=True)
class _Row:
    """Input values: 0 where the mask is unset; `number` are their row numbers."""

    values: Any
    number: Any
    flip: Any
    mask: Any


# Accumulators of some vectors, and their destination.
Results = list[tuple[Values, _Place]]


class _Sum:
    """One running total per lane."""

    def start(self, v: Vectors) -> Values:
        return [v.constant(0.0 if v.floating else 0, v.total_kind)]

    def take(self, v: Vectors, state: Values, new: _Row) -> Values:
        return [v.plus(state[0], v.widened(self.flipped(v, new.values, new.flip, new.mask)))]

    def flips(self, v: Vectors) -> bool:
        """Return whether `flip` applies: to integers that are widened."""
        return v.bytes < v.total_bytes and not v.floating

    def flipped(self, v: Vectors, values: Any, flip: Any, mask: Any) -> Any:
        """Return integers with the bits of `flip` inverted in every 64; others as they are.

        Vectors of int32 begin at even columns, because totals are aligned to 16 bytes.
        """
        if not self.flips(v):
            return values
        size = v.lanes * v.bytes
        words = ir.VectorType(_I64 if size >= 8 else ir.IntType(8 * size), -(-size // 8))
        bits = flip if size >= 8 else v.builder.trunc(flip, words.element)
        flipped = v.builder.xor(v.builder.bitcast(values, words), v.all(bits, words))
        return v.where(mask, v.builder.bitcast(flipped, v.kind), v.zero())

    def merge(self, v: Vectors, a: Values, b: Values) -> Values:
        return [v.plus(a[0], b[0])]

    def rows_of(self, v: Vectors, state: Values, shift: Any) -> Values:
        return state

    def finish(self, v: Vectors, results: Results) -> None:
        with v.builder.if_else(_is(v, results[0][1], MORE)) as (more, new):
            with more:
                # A sum starts at 0 and is added to the previous total last: short sums lose fewer
                # digits.
                zero = self.start(v)[0]
                old = [v.load(place.to, v.total_kind, place.mask, zero) for _, place in results]
                for (state, place), before in zip(results, old, strict=True):
                    v.store(v.plus(before, state[0]), place.to, place.mask)
            with new:
                for state, place in results:
                    v.store(state[0], place.to, place.mask)

    def add(self, v: Vectors, place: _Place, numbers: Any) -> None:
        old = v.load(place.to, v.total_kind, place.mask, self.start(v)[0])
        new = v.load(place.at, v.kind, place.mask, v.zero())
        new = self.flipped(v, new, place.flip, place.mask)
        v.store(v.plus(old, v.widened(new)), place.to, place.mask)


class _Extreme:
    """The greatest value per lane."""

    def start(self, v: Vectors) -> Values:
        return [v.lost()]

    def take(self, v: Vectors, state: Values, new: _Row) -> Values:
        return _Extreme.merge(self, v, state, [self.compared(v, new)])

    def compared(self, v: Vectors, new: _Row) -> Any:
        return v.where(new.mask, v.flipped(new.values, new.flip), v.lost())

    def merge(self, v: Vectors, a: Values, b: Values) -> Values:
        return [v.builder.select(v.greater(b[0], a[0]), b[0], a[0])]

    def rows_of(self, v: Vectors, state: Values, shift: Any) -> Values:
        return state

    def finish(self, v: Vectors, results: Results) -> None:
        with v.builder.if_else(_is(v, results[0][1], MORE)) as (more, new):
            with more:
                for state, place in results:
                    old = v.flipped(v.load(place.to, v.kind, place.mask, v.zero()), place.flip)
                    best = self.merge(v, [old], state)[0]
                    v.store(v.flipped(best, place.flip), place.to, place.mask)
            with new:
                for state, place in results:
                    first = v.flipped(v.load(place.at, v.kind, place.mask, v.zero()), place.flip)
                    begins = _everywhere(v, _is(v, place, FIRST))
                    own = v.builder.select(v.builder.and_(v.stays(first), begins), first, state[0])
                    v.store(v.flipped(own, place.flip), place.to, place.mask)

    def add(self, v: Vectors, place: _Place, numbers: Any) -> Any:
        """Return where the new values are better."""
        old, new = (v.load(each, v.kind, place.mask, v.zero()) for each in (place.to, place.at))
        better = v.greater(v.flipped(new, place.flip), v.flipped(old, place.flip))
        v.store(v.builder.select(better, new, old), place.to, place.mask)
        return better


class _Index(_Extreme):
    """The greatest value per lane and its row number, `nowhere` if there is none yet."""

    def start(self, v: Vectors) -> Values:
        return [v.lost(), v.constant(v.nowhere, v.numbers)]

    def take(self, v: Vectors, state: Values, new: _Row) -> Values:
        value = self.compared(v, new)
        better = v.greater(value, state[0])
        return [
            v.builder.select(better, value, state[0]),
            v.builder.select(better, new.number, state[1]),
        ]

    def merge(self, v: Vectors, a: Values, b: Values) -> Values:
        builder = v.builder
        # Lanes are not in row order: among equal values the earlier row wins.
        alike = builder.not_(builder.or_(v.greater(a[0], b[0]), v.greater(b[0], a[0])))
        earlier = builder.and_(alike, builder.icmp_unsigned("<", b[1], a[1]))
        better = builder.or_(v.greater(b[0], a[0]), earlier)
        return [builder.select(better, new, old) for old, new in zip(a, b, strict=True)]

    def rows_of(self, v: Vectors, state: Values, shift: Any) -> Values:
        wide = shift if v.numbers == v.longs else v.builder.trunc(shift, v.numbers.element)
        nowhere = v.constant(v.nowhere, v.numbers)
        row = v.builder.lshr(state[1], v.all(wide, v.numbers))
        none = v.builder.icmp_signed("==", state[1], nowhere)
        return [state[0], v.builder.select(none, nowhere, row)]

    def folded(self, v: Vectors, state: Values) -> Values:
        best = v.joined(state[:1], lambda a, b: _Extreme.merge(self, v, a, b), None)
        # All lanes hold the best value now.
        nowhere = v.constant(v.nowhere, v.numbers)
        at = v.builder.select(v.equal(state[0], best[0]), state[1], nowhere)

        def earlier(a: Values, b: Values) -> Values:
            return [v.builder.select(v.builder.icmp_unsigned("<", b[0], a[0]), b[0], a[0])]

        return best + v.joined([at], earlier, None)

    def finish(self, v: Vectors, results: Results) -> None:
        builder = v.builder
        with builder.if_else(_is(v, results[0][1], MORE)) as (more, new):
            with more:
                for (best, at), place in results:
                    index = self._index(v, at, place)[0]
                    old = v.flipped(v.load(place.to, v.kind, place.mask, v.zero()), place.flip)
                    old_index = v.load(place.index_to, v.longs, place.mask, index)
                    better = v.greater(best, old)
                    best_now = builder.select(better, best, old)
                    v.store(v.flipped(best_now, place.flip), place.to, place.mask)
                    v.store(builder.select(better, index, old_index), place.index_to, place.mask)
            with new:
                for (best, at), place in results:
                    index, none = self._index(v, at, place)
                    first = v.flipped(v.load(place.at, v.kind, place.mask, v.zero()), place.flip)
                    begins = _everywhere(v, _is(v, place, FIRST))
                    # If no row is better, the result is that of the first row.
                    kept = builder.and_(begins, builder.or_(none, v.stays(first)))
                    index = builder.select(none, v.constant(-1, v.longs), index)
                    own = builder.select(kept, first, best)
                    row = v.all(place.row, v.longs)
                    v.store(v.flipped(own, place.flip), place.to, place.mask)
                    v.store(builder.select(kept, row, index), place.index_to, place.mask)

    def add(self, v: Vectors, place: _Place, numbers: Any) -> None:
        old = v.load(place.index_to, v.longs, place.mask, v.constant(0, v.longs))
        better = _Extreme.add(self, v, place, numbers)
        v.store(v.builder.select(better, numbers, old), place.index_to, place.mask)

    def _index(self, v: Vectors, at: Any, place: _Place) -> Values:
        """Return the row numbers in the tensor; `nowhere` if there is none."""
        wide = at if v.numbers == v.longs else v.builder.sext(at, v.longs)
        index = v.builder.add(wide, v.all(place.row, v.longs))
        return [index, v.builder.icmp_signed("==", wide, v.constant(v.nowhere, v.longs))]


def _is(v: Vectors, place: _Place, fresh: int) -> Any:
    return v.builder.icmp_signed("==", place.fresh, _I64(fresh))


def _everywhere(v: Vectors, condition: Any) -> Any:
    return v.all(condition, ir.VectorType(_BIT, v.lanes))


def _columns(reduction: Any, blocks: int, fixed: int | None = None, share: int = 1) -> Any:
    """Return a function for up to `blocks` vectors side by side.

    Args:
        share: use vectors of this fraction of the size. A load that crosses a cache line takes
            twice as long, even if the bytes behind the line are masked.
        fixed: the minimum number of vectors, all whole. The last of them ends at the last column
            and may overlap the previous one, recomputing the same values. By default all vectors,
            the last one masked.
    """

    @emits(types.void, *[types.int64] * 9, None, None)
    def columns(
        on: Emitter, to: Any, index_to: Any, at: Any, row_bytes: Any, rows: Any, count: Any,
        row: Any, fresh: Any, flip: Any, zero: Any, total: Any,
    ) -> None:  # fmt: skip
        """Reduce `count` columns of this many rows, `row_bytes` apart."""
        builder = on.builder
        lanes = lanes_of(on.kinds[10].bitwidth // 8) // share
        v = Vectors(on, on.kinds[9], on.kinds[10], lanes)
        columns = [_I64(n * v.lanes) for n in range(blocks)]
        masks = [None] * blocks
        if fixed is None:
            masks[-1] = v.below(builder.sub(count, columns[-1]))
        else:
            end = builder.sub(count, _I64(v.lanes))
            for n in range(fixed, blocks):
                fits = builder.icmp_signed("<", columns[n], end)
                columns[n] = builder.select(fits, columns[n], end)
        streams = STREAMS if fixed is None else 1
        size = len(reduction.start(v))

        def body(at: Any, base: Any, masks: Sequence[Any]) -> Any:
            def step(k: Any, values: Values) -> Values:
                result: Values = []
                for n in range(len(values) // size):
                    stream, block = divmod(n, blocks)
                    here = builder.add(k, _I64(stream))
                    place = builder.add(at, builder.mul(here, row_bytes))
                    place = v.place(place, columns[block])
                    new = v.load(place, v.kind, masks[block], v.zero())
                    number = _numbered(v, builder.add(base, here))
                    state = values[n * size : (n + 1) * size]
                    result += reduction.take(v, state, _Row(new, number, flip, None))
                return result

            return step

        # The vectors of a row end before the second next row. All but the last row are read without
        # masks: of masked loads, an AMD EPYC (Zen 5) does not prefetch what follows.
        safe = rows if fixed is not None else builder.sub(rows, _I64(1))
        many = builder.and_(safe, _I64(-streams))
        start = reduction.start(v) * streams * blocks
        states = v.loop(many, streams, start, body(at, _I64(0), [None] * blocks))
        if streams > 1:
            found: Values = []
            for block in range(blocks):
                of_streams = [
                    states[n * size : (n + 1) * size]
                    for n in range(block, streams * blocks, blocks)
                ]
                found += reduce(lambda a, b: reduction.merge(v, a, b), of_streams)
            after = builder.add(at, builder.mul(many, row_bytes))
            left = builder.sub(rows, many)
            states = v.loop(left, 1, found, body(after, many, masks))
        results = []
        for n, column in enumerate(columns):
            place = _Place(
                v.place(to, column, v.total_bytes),
                v.place(index_to, column, 8),
                v.place(at, column),
                *(row, fresh, flip, masks[n]),
            )
            results.append((states[n * size : (n + 1) * size], place))
        reduction.finish(v, results)

    return columns


def _numbered(v: Vectors, number: Any) -> Any:
    narrow = number if v.numbers == v.longs else v.builder.trunc(number, v.numbers.element)
    return v.all(narrow, v.numbers)


def _row(reduction: Any, *, numbered: bool) -> Any:
    """Return a function for one row of values, or, if `numbered`, for partial results."""

    @emits(types.void, *[types.int64] * 6, None, None)
    def row(
        on: Emitter, to: Any, index_to: Any, at: Any, count: Any, number: Any, flip: Any, zero: Any,
        total: Any,
    ) -> None:  # fmt: skip
        """Join `count` columns at `at` to those at `to`: `number` is the row number, or the address
        of one row number per column."""
        builder = on.builder
        v = Vectors(on, on.kinds[6], on.kinds[7])

        def add(k: Any, mask: Any = None) -> Values:
            numbers = v.all(number, v.longs)
            if numbered and isinstance(reduction, _Index):
                numbers = v.load(v.place(number, k, 8), v.longs, mask, v.constant(0, v.longs))
            places = v.place(to, k, v.total_bytes), v.place(index_to, k, 8), v.place(at, k)
            reduction.add(v, _Place(*places, None, None, flip, mask), numbers)
            return []

        # Aligned stores: a store across two cache lines takes twice as long.
        first = builder.and_(builder.neg(to), _I64(v.lanes * v.total_bytes - 1))
        first = builder.udiv(first, _I64(v.total_bytes))
        first = builder.select(builder.icmp_signed("<", count, first), count, first)
        with builder.if_then(builder.icmp_signed(">", first, _I64(0))):
            add(_I64(0), v.below(first))
        left = builder.sub(count, first)
        v.each(left, [], lambda k, mask, _: add(builder.add(first, k), mask))

    return row


def _values(reduction: Any) -> Any:
    @emits(types.void, *[types.int64] * 9, None, None)
    def values(
        on: Emitter, to: Any, index_to: Any, at: Any, count: Any, width: Any, shift: Any, row: Any,
        fresh: Any, flip: Any, zero: Any, total: Any,
    ) -> None:  # fmt: skip
        """Reduce `count` values: rows of `width` = 2**`shift` values, which divides a vector."""
        builder = on.builder
        v = Vectors(on, on.kinds[9], on.kinds[10])
        lanes = ir.Constant(v.numbers, list(range(v.lanes)))

        def taken(state: Values, k: Any, mask: Any) -> Values:
            new = v.load(v.place(at, k), v.kind, mask, v.zero())
            number = builder.add(_numbered(v, k), lanes)
            return list(reduction.take(v, state, _Row(new, number, flip, mask)))

        many = builder.and_(count, _I64(-v.lanes))
        state = v.loop(many, v.lanes, reduction.start(v), lambda k, s: taken(s, k, None))
        state = taken(state, many, v.below(builder.sub(count, many)))
        state = reduction.rows_of(v, state, shift)
        state = v.joined(state, lambda a, b: reduction.merge(v, a, b), width)
        mask = v.below(width)
        reduction.finish(v, [(state, _Place(to, index_to, at, row, fresh, flip, mask))])

    return values


def _single(reduction: Any) -> Any:
    @emits(types.void, *[types.int64] * 6, None, None)
    def single(
        on: Emitter, to: Any, index_to: Any, at: Any, count: Any, row: Any, flip: Any, zero: Any,
        total: Any,
    ) -> None:  # fmt: skip
        """Reduce `count` single values at the start of a segment; reads up to one vector further.

        Not masked: a masked load across a cache line takes twice as long.
        """
        builder = on.builder
        v = Vectors(on, on.kinds[6], on.kinds[7])

        # `take` of extremes, and of sums of flipped values, ignores lanes without mask.
        masks = isinstance(reduction, _Extreme) or reduction.flips(v)

        def taken(state: Values, k: Any, mask: Any) -> Values:
            new = v.load(v.place(at, k), v.kind)
            if mask is not None and not masks:
                # Here `flip` is 0, unknown to LLVM, which would otherwise combine load and
                # select to a masked load, twice as slow across a cache line.
                new = builder.select(mask, v.flipped(new, flip), v.nothing())
            return list(reduction.take(v, state, _Row(new, None, flip, mask)))

        many = builder.and_(count, _I64(-v.lanes))
        start = reduction.start(v)[:1]
        state = v.loop(many, v.lanes, start, lambda k, s: taken(s, k, None))
        state = taken(state, many, v.below(builder.sub(count, many)))
        all_lanes = v.joined(state, lambda a, b: reduction.merge(v, a, b), None)[0]
        one = Vectors(on, on.kinds[6], on.kinds[7], lanes=1)
        place = _Place(to, index_to, at, row, _I64(FIRST), flip, None)
        reduction.finish(one, [([v.first(all_lanes)], place)])
        if isinstance(reduction, _Index):
            _put_place(v, place, all_lanes, count)

    return single


def _put_place(v: Vectors, place: _Place, best: Any, count: Any) -> None:
    """Write the number of the first row with the best value, if it differs from the current one."""
    builder = v.builder
    before = builder.block
    head, after = builder.append_basic_block("v_seek"), builder.append_basic_block("v_found")
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(_I64)
    k.add_incoming(_I64(0), before)
    here = v.place(place.at, k)
    found = v.equal(v.flipped(v.load(here, v.kind), place.flip), best)
    bits = builder.bitcast(found, ir.IntType(v.lanes))
    following = builder.add(k, _I64(v.lanes))
    k.add_incoming(following, head)
    nothing = builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 0))
    more = builder.and_(nothing, builder.icmp_signed("<", following, count))
    builder.cbranch(more, head, after)
    builder.position_at_end(after)
    lane = builder.zext(builder.cttz(bits, _BIT(0)), _I64)
    at = builder.add(k, lane)
    # A NaN in the first row is the greatest, and is not equal to anything.
    one = Vectors(v.on, v.value, v.total, lanes=1)
    first = builder.extract_element(one.stays(one.load(place.at, one.kind)), ir.IntType(32)(0))
    kept = builder.or_(first, builder.icmp_signed(">=", at, count))
    value = builder.select(kept, place.row, builder.add(place.row, at))
    builder.store(value, builder.inttoptr(place.index_to, _I64.as_pointer()))


def _made(reduction: Any, single: Any) -> Sequence[Any]:
    """Return the functions for a quarter and half of a vector, for one to three vectors, for 4, 8,
    16 and 24, whole rows, partial results, values and single values."""
    narrow = [_columns(reduction, 1, share=share) for share in (4, 2)]
    tails, blocks = [_columns(reduction, 1)] * 3, [_columns(reduction, 4, 3)] * 4
    if MANY_REGISTERS:
        tails[1:] = _columns(reduction, 2), _columns(reduction, 3)
        blocks[1:] = [_columns(reduction, 8, 4)] * 3
    if MANY_REGISTERS and not isinstance(reduction, _Index):
        blocks[2:] = _columns(reduction, 16, 8), _columns(reduction, 24, 16)
    rows = (_row(reduction, numbered=numbered) for numbered in (False, True))
    return (*narrow, *tails, *blocks, *rows, _values(reduction), _single(single))


class _ShortIndex(_Index):
    """The greatest value; its row is looked up afterwards."""

    def take(self, v: Vectors, state: Values, new: _Row) -> Values:
        return _Extreme.take(self, v, state, new)

    def merge(self, v: Vectors, a: Values, b: Values) -> Values:
        return _Extreme.merge(self, v, a, b)

    def finish(self, v: Vectors, results: Results) -> None:
        _Extreme.finish(self, v, results)


SUMS = _made(_Sum(), _Sum())
EXTREMES = _made(_Extreme(), _Extreme())
INDEXES = _made(_Index(), _ShortIndex())
