"""Softmax and its gradient with accumulators in vector registers, on the vectors of vectors.py.

Rows of at most a vector are read as one run of values, as many whole rows at once as fit a vector;
wider rows in blocks of columns, each carried down the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any

from lodcli.kernels.native.language_numba import Emitter, address, emits, function
from lodcli.kernels.native.target import level
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.exponential import exp_of, log_of
from lodcli.kernels.simd.instructions import VECTOR_BYTES, constant
from lodcli.kernels.simd.nontemporal_stores import store_line
from lodcli.kernels.simd.vectors import Values, Vectors

_I64 = ir.IntType(64)

BLOCKS = 4  # number of vectors side by side
SIDE_BYTES = BLOCKS * VECTOR_BYTES
RUN = 256  # vectors per partial sum: rounding errors grow with this
# Single values of at most this many bytes use one narrower vector: the same sums, without zeros.
SHORT_BYTES = min(level().vector_bytes, VECTOR_BYTES // 2)


class _Columns:
    """Visits some vectors side by side, row by row."""

    one_run = False  # whether there are at most RUN vectors

    def __init__(self, v: Vectors, rows: Any, row_bytes: Any, mask: Any, blocks: int) -> None:
        self.v, self.rows, self.row_bytes, self.mask, self.blocks = v, rows, row_bytes, mask, blocks
        self.held: dict[Any, Any] = {}

    def visit(self, start: Values, body: Callable[..., Any], *, sums: bool = False) -> Values:
        """Call body(offset in bytes, mask, block, carried) for every vector.

        Args:
            sums: whether it carries sums, which then are those of runs of RUN vectors.

        Returns:
            It carries values, initially `start`, for each block; without `start`, none.
        """

        def row(r: Any, values: Values) -> Values:
            found = []
            for n in range(self.blocks):
                offset = self.offset(r, self.row_bytes, n)
                found.append(body(offset, self.mask, n, values[n] if values else None))
            return found if values else []

        return self.loop(self.rows, 1, start, row, sums)

    def loop(
        self, count: Any, step: Any, carried: Values, body: Callable[..., Values], sums: bool
    ) -> Values:
        """Return the values after the loop; see `visit`."""
        v, builder = self.v, self.v.builder
        if not sums:
            return v.loop(count, step, carried, body)
        length = builder.mul(_I64(step) if isinstance(step, int) else step, _I64(RUN))

        def size(left: Any) -> Any:
            return builder.select(builder.icmp_signed("<", left, length), left, length)

        def run(before: Any, totals: Values) -> Values:
            first, zeros = builder.add(before, length), [v.zero() for _ in totals]
            parts = v.loop(
                size(builder.sub(count, first)),
                *(step, zeros, lambda k, part: body(builder.add(first, k), part)),
            )
            return list(map(v.plus, totals, parts))

        # The first run needs no sum of its own: most sequences have only this one.
        totals = v.loop(size(count), step, carried, body)
        return v.loop(builder.sub(count, length), length, totals, run)

    def offset(self, row: Any, row_bytes: Any, block: int) -> Any:
        """Return the bytes from the first vector to another one."""
        builder = self.v.builder
        return builder.add(builder.mul(row, row_bytes), _I64(block * VECTOR_BYTES))

    def fold(self, values: Values, merge: Callable[[Any, Any], Any]) -> Values:
        """Join the lanes of the same column."""
        return values

    def keep(self, value: Any, to: Any, offset: Any, mask: Any) -> None:
        """Store a value that will be loaded and stored again."""
        self.store(value, to, offset, mask)

    def rewrite(self, to: Any, change: Callable[[Any, int], Any]) -> None:
        """Replace every vector by change(vector, block)."""

        def changed(offset: Any, mask: Any, block: int, _: Any) -> None:
            self.store(change(self.load(to, offset, mask), block), to, offset, mask)

        self.visit([], changed)

    def fetch(self, at: Any, offset: Any) -> None:
        """Prefetch the next segment, assuming that it is as long."""
        builder = self.v.builder
        size = builder.mul(self.rows, self.row_bytes)
        self.v.fetch(builder.add(builder.add(at, offset), size))

    def map(self, values: Values, function: Callable[[Any], Any]) -> Values:
        """Return function(value) of a folded value."""
        return [function(value) for value in values]

    def load(self, at: Any, offset: Any, mask: Any) -> Any:
        other = None if mask is None else self.v.zero()
        return self.v.load(self.v.builder.add(at, offset), self.v.kind, mask, other)

    def store(self, value: Any, to: Any, offset: Any, mask: Any) -> None:
        self.v.store(value, self.v.builder.add(to, offset), mask)


class _Streamed(_Columns):
    """Visits vectors whose results bypass the caches; what a visit keeps is in a copy.

    The same columns of many wide rows compete for a few lines of a cache, displaced before
    the next visit. So if `copied`, the next visits find in the copy what one loads, too.

    Args:
        spare: address of the copies, twice the size of the vectors.
        ahead: bytes to the vectors that are visited next, of these rows or of the next segment.
        copied: whether to copy what is loaded.
    """

    def __init__(
        self, v: Vectors, rows: Any, row_bytes: Any, spare: Any, ahead: Any, *, copied: bool
    ) -> None:
        super().__init__(v, rows, row_bytes, None, BLOCKS)
        self.copied = copied
        size = v.builder.mul(rows, _I64(SIDE_BYTES))
        self.spare, self.ahead = (spare, v.builder.add(spare, size)), ahead
        # The copy of each array, by its address: in `held` if it is complete, else in `begun`.
        self.begun: dict[Any, Any] = {}
        self.loaded: set[Any] = set()

    def visit(self, start: Values, body: Callable[..., Any], *, sums: bool = False) -> Values:
        values = super().visit(start, body, sums=sums)
        self.held |= self.begun
        self.begun = {}
        return values

    def offset(self, row: Any, row_bytes: Any, block: int) -> Any:
        """Return the bytes in the array, and in its copy."""
        there = super().offset(row, row_bytes, block)
        return there, super().offset(row, _I64(SIDE_BYTES), block)

    def keep(self, value: Any, to: Any, offset: Any, mask: Any) -> None:
        self.begun[to] = self.spare[0]
        super().store(value, self.spare[0], offset[1], None)

    def fetch(self, at: Any, offset: Any) -> None:
        if at in self.loaded:
            builder = self.v.builder
            self.v.fetch(builder.add(builder.add(at, offset[0]), self.ahead))

    def load(self, at: Any, offset: Any, mask: Any) -> Any:
        self.loaded.add(at)
        if at in self.held:
            return super().load(self.held[at], offset[1], None)
        if not self.copied:
            return super().load(at, offset[0], None)
        if at not in self.begun:
            self.begun[at] = self.spare[len(self.held) + len(self.begun)]
        value = super().load(at, offset[0], None)
        super().store(value, self.begun[at], offset[1], None)
        return value

    def store(self, value: Any, to: Any, offset: Any, mask: Any) -> None:
        builder = self.v.builder
        where = builder.inttoptr(builder.add(to, offset[0]), value.type.as_pointer())
        store_line(builder, value, where)


class _Narrow(_Columns):
    """Visits the values of rows of at most a vector, `step` at a time: some whole rows.

    Lanes beyond `step` hold the next row, and are read and written again with it. The last vector,
    which may be partial, comes first: short segments have only this one, and it stays in registers.
    """

    def __init__(
        self, v: Vectors, size: Any, many: Any, width: Any, step: Any, loose: bool, one_run: bool
    ) -> None:
        self.v, self.many, self.width, self.step, self.loose = v, many, width, step, loose
        self.one_run = one_run
        self.mask = v.below(v.builder.sub(size, many))
        self.blocks = 1
        # Values of the last vector by address: they stay in registers instead of memory.
        self.held: dict[Any, Any] = {}

    def visit(self, start: Values, body: Callable[..., Any], *, sums: bool = False) -> Values:
        builder = self.v.builder

        def visited(k: Any, mask: Any, values: Values) -> Values:
            offset = builder.mul(k, _I64(self.v.bytes))
            found = body(offset, mask, 0, values[0] if values else None)
            return [found] if values else []

        values = visited(self.many, self.mask, start)
        return self.loop(self.many, self.step, values, lambda k, v: visited(k, None, v), sums)

    def fold(self, values: Values, merge: Callable[[Any, Any], Any]) -> Values:
        v, builder = self.v, self.v.builder
        if isinstance(self.width, int):
            return [_folded(v, values[0], self.width, merge)]
        after = builder.append_basic_block("folded")
        cases = [builder.append_basic_block(f"fold_{n + 1}") for n in range(v.lanes)]
        switch = builder.switch(self.width, cases[-1])
        found = []
        for n, case in enumerate(cases):
            switch.add_case(_I64(n + 1), case)
            builder.position_at_end(case)
            found.append((_folded(v, values[0], n + 1, merge), case))
            builder.branch(after)
        builder.position_at_end(after)
        folded = builder.phi(v.kind)
        for value, case in found:
            folded.add_incoming(value, case)
        return [folded]

    def keep(self, value: Any, to: Any, offset: Any, mask: Any) -> None:
        if mask is None:
            self.store(value, to, offset, None)
        else:
            self.held[to] = value

    def rewrite(self, to: Any, change: Callable[[Any, int], Any]) -> None:
        v, builder = self.v, self.v.builder

        def offset(k: Any) -> Any:
            return builder.mul(k, _I64(v.bytes))

        self.store(change(self.held[to], 0), to, offset(self.many), self.mask)
        own = v.below(self.step)

        def changed(k: Any, values: Values) -> Values:
            after = builder.add(k, self.step)
            more = builder.icmp_signed("<", after, self.many)
            # Before the store, which overlaps it: a load after it would stall.
            following = self.load(to, offset(builder.select(more, after, k)), None)
            value = builder.select(own, change(values[0], 0), values[0])
            self.store(value, to, offset(k), None)
            return [following]

        with builder.if_then(builder.icmp_signed(">", self.many, _I64(0))):
            v.loop(self.many, self.step, [self.load(to, _I64(0), None)], changed)

    def fetch(self, at: Any, offset: Any) -> None:
        pass

    def map(self, values: Values, function: Callable[[Any], Any]) -> Values:
        if not isinstance(self.width, int):
            return super().map(values, function)
        one = self.v.builder.extract_element(values[0], ir.IntType(32)(0))
        return [self.v.all(function(one), self.v.kind)]

    def load(self, at: Any, offset: Any, mask: Any) -> Any:
        if mask is None:
            return super().load(at, offset, None)
        if at not in self.held:
            self.held[at] = super().load(at, offset, None if self.loose else mask)
        return self.held[at]

    def store(self, value: Any, to: Any, offset: Any, mask: Any) -> None:
        super().store(value, to, offset, None if self.loose else mask)


def _folded(v: Vectors, value: Any, width: int, merge: Callable[[Any, Any], Any]) -> Any:
    """Return in every lane the reduction of its column."""
    if width == 1:
        # By halves, with narrower vectors each time, in the order of `joined`.
        while value.type.count > 1:
            half = value.type.count // 2
            low, high = (v.ordered(value, list(range(n, n + half))) for n in (0, half))
            value = merge(low, high)
        return v.ordered(value, [0] * v.lanes)
    if v.lanes % width == 0:
        joined = v.joined([value], lambda a, b: [merge(a[0], b[0])], _I64(width))
        return joined[0]
    rows = [
        v.ordered(value, [lane % width + n * width for lane in range(v.lanes)])
        for n in range(v.lanes // width)
    ]
    return reduce(merge, rows)


# -- Operations on the values of a segment, or of a piece of one ----------------------------------


def _greater(v: Vectors) -> Callable[[Any, Any], Any]:
    # Maxima propagate NaN. Even if one is lost, its exponential is NaN, and so are the sum and all.
    return lambda top, new: v.builder.select(v.greater(top, new), top, new)


def _tops(on: _Columns, at: Any) -> Values:
    """Return the maximum of every column."""
    v = on.v

    def top(offset: Any, mask: Any, block: int, top: Any) -> Any:
        return _greater(v)(top, v.where(mask, on.load(at, offset, mask), v.lost()))

    return on.fold(on.visit([v.lost()] * on.blocks, top), _greater(v))


def _powers(on: _Columns, to: Any, at: Any, tops: Values, *, kept: bool = True) -> Values:
    """Return the sums of the exponentials, which are written if `kept`."""
    v = on.v

    def power(offset: Any, mask: Any, block: int, total: Any) -> Any:
        value = exp_of(v.builder, v.builder.fsub(on.load(at, offset, mask), tops[block]))
        if kept:
            on.keep(value, to, offset, mask)
        on.fetch(at, offset)
        on.fetch(to, offset)
        return v.plus(total, v.where(mask, value, v.zero()))

    return on.fold(on.visit([v.zero()] * on.blocks, power, sums=True), v.plus)


def _subtract(on: _Columns, to: Any, at: Any, tops: Values, logs: Values) -> None:
    builder = on.v.builder

    def less(offset: Any, mask: Any, block: int, _: Any) -> None:
        value = builder.fsub(on.load(at, offset, mask), tops[block])
        on.store(builder.fsub(value, logs[block]), to, offset, mask)

    on.visit([], less)


def _flows(on: _Columns, flow: Any, y: Any, log: bool) -> Values:
    """Return the sums of every column for the gradient."""
    v = on.v

    def added(offset: Any, mask: Any, block: int, total: Any) -> Any:
        value = on.load(flow, offset, mask)
        if not log:
            value = v.builder.fmul(value, on.load(y, offset, mask))
        return v.plus(total, v.where(mask, value, v.zero()))

    return on.fold(on.visit([v.zero()] * on.blocks, added, sums=not on.one_run), v.plus)


def _flow_back(on: _Columns, to: Any, flow: Any, y: Any, totals: Values, log: bool) -> None:
    builder = on.v.builder

    def back(offset: Any, mask: Any, block: int, _: Any) -> None:
        up, own = on.load(flow, offset, mask), on.load(y, offset, mask)
        for each in (flow, y, to):
            on.fetch(each, offset)
        if log:
            value = builder.fsub(up, builder.fmul(exp_of(builder, own), totals[block]))
        else:
            value = builder.fmul(own, builder.fsub(up, totals[block]))
        on.store(value, to, offset, mask)

    on.visit([], back)


# -- Functions of compiled code: arguments in order of use, addresses first -----------------------


def _either(on: _Columns, log: Any, emit: Callable[[bool], None]) -> None:
    """Emit emit(True) if `log` is set, else emit(False)."""
    held = on.held
    with on.v.builder.if_else(log) as branches:
        for branch, is_log in zip(branches, (True, False), strict=True):
            with branch:
                on.held = dict(held)
                emit(is_log)
    on.held = held


def _forward(on: _Columns, to: Any, at: Any, _: Any, __: Any, log: Any) -> None:
    builder = on.v.builder

    def softmax(log: bool) -> None:
        tops = _tops(on, at)
        totals = _powers(on, to, at, tops, kept=not log)
        if log:
            _subtract(on, to, at, tops, on.map(totals, lambda total: log_of(builder, total)))
        else:
            by = on.map(totals, lambda t: builder.fdiv(constant(t.type, 1.0), t))
            on.rewrite(to, lambda power, block: builder.fmul(power, by[block]))

    _either(on, log, softmax)


def _backward(on: _Columns, to: Any, flow: Any, y: Any, _: Any, log: Any) -> None:
    _either(on, log, lambda log: _flow_back(on, to, flow, y, _flows(on, flow, y, log), log))


def _in_memory(on: _Columns, at: Any) -> Values:
    """Return the values of a row for the columns."""
    return [on.load(at, _I64(n * VECTOR_BYTES), on.mask) for n in range(on.blocks)]


def _to_memory(on: _Columns, values: Values, to: Any) -> None:
    for n, value in enumerate(values):
        on.store(value, to, _I64(n * VECTOR_BYTES), on.mask)


def _part_tops(on: _Columns, to: Any, at: Any, _: Any, __: Any, log: Any) -> None:
    _to_memory(on, _tops(on, at), to)


def _part_powers(on: _Columns, to: Any, at: Any, top: Any, total: Any, log: Any) -> None:
    _to_memory(on, _powers(on, to, at, _in_memory(on, top)), total)


def _part_finish(on: _Columns, to: Any, at: Any, top: Any, by: Any, log: Any) -> None:
    def finish(log: bool) -> None:
        if log:
            _subtract(on, to, at, _in_memory(on, top), _in_memory(on, by))
        else:
            factors = _in_memory(on, by)
            on.rewrite(to, lambda power, block: on.v.builder.fmul(power, factors[block]))

    _either(on, log, finish)


def _part_flows(on: _Columns, to: Any, flow: Any, y: Any, _: Any, log: Any) -> None:
    _either(on, log, lambda log: _to_memory(on, _flows(on, flow, y, log), to))


def _part_back(on: _Columns, to: Any, flow: Any, y: Any, total: Any, log: Any) -> None:
    totals = _in_memory(on, total)
    _either(on, log, lambda log: _flow_back(on, to, flow, y, totals, log))


def _narrow(
    emit: Callable[..., None],
    *,
    loose: bool,
    single: bool = False,
    most_bytes: int = 0,
    one_run: bool = False,
) -> Any:
    """Return a function for a segment of narrow rows, or of `single` values.

    Args:
        loose: whether it may read and write up to one vector further.
        most_bytes: maximum size of a segment, if known to be short.
        one_run: whether a segment has at most RUN vectors, which saves a gradient the tests.
    """

    @emits(types.void, *[types.int64] * 7, types.boolean, None)
    def narrow(
        on: Emitter, to: Any, at: Any, y: Any, size: Any, many: Any, width: Any, step: Any,
        log: Any, like: Any,
    ) -> None:  # fmt: skip
        """Process `size` values, rows of `width`: their last vector begins at `many`."""
        v = _vectors(on, most_bytes)
        if single:
            width, step = 1, _I64(v.lanes)
        if most_bytes:
            many = _I64(0)
        emit(_Narrow(v, size, many, width, step, loose, one_run), to, at, y, None, log)

    return narrow


def _vectors(on: Emitter, vector_bytes: int = 0) -> Vectors:
    """Return the vectors for the dtype of the last argument."""
    kind = on.kinds[-1].dtype
    return Vectors(on, kind, kind, vector_bytes * 8 // kind.bitwidth)


@function(inline="always")
def bytes_each(like: Any) -> Any:
    """Return the item size of a pointer."""
    return address(like + 1) - address(like)


def _of_blocks(emit: Callable[..., None], blocks: int, how: str = "") -> Any:
    """Return a function for some vectors side by side.

    Args:
        how: "masked", "streamed", "copied" or nothing.
    """

    @emits(types.void, *[types.int64] * 7, types.boolean, None)
    def columns(
        on: Emitter, to: Any, at: Any, y: Any, more: Any, rows: Any, row_bytes: Any, count: Any,
        log: Any, like: Any,
    ) -> None:  # fmt: skip
        """Process some vectors of columns, or `count` columns."""
        v = _vectors(on)
        if how in ("streamed", "copied"):
            side: _Columns = _Streamed(v, rows, row_bytes, more, count, copied=how == "copied")
        else:
            side = _Columns(v, rows, row_bytes, v.below(count) if how else None, blocks)
        emit(side, to, at, y, more, log)

    return columns


@cache  # one function for all that use it
def _part_of_rows(emit: Callable[..., None]) -> Any:
    """Return a function for the first `left` bytes of some rows."""
    many, one, last = (
        _of_blocks(emit, BLOCKS), _of_blocks(emit, 1), _of_blocks(emit, 1, "masked"),
    )  # fmt: skip

    @function()
    def part(  # type: ignore[no-untyped-def]
        to, at, y, more, rows, row_bytes, left, log, like
    ):
        while left > 0:
            if left >= SIDE_BYTES:
                many(to, at, y, more, rows, row_bytes, 0, log, like)
                done = SIDE_BYTES
            elif left >= VECTOR_BYTES:
                one(to, at, y, more, rows, row_bytes, 0, log, like)
                done = VECTOR_BYTES
            else:
                last(to, at, y, more, rows, row_bytes, left // bytes_each(like), log, like)
                done = left
            to, at, y, more, left = to + done, at + done, y + done, more + done, left - done

    return part


def _columns(emit: Callable[..., None]) -> Any:
    """Return a function for all columns of some rows."""
    part = _part_of_rows(emit)

    @function()
    def columns(  # type: ignore[no-untyped-def]
        to, at, y, more, rows, width, log, like
    ):
        row_bytes = width * bytes_each(like)
        part(to, at, y, more, rows, row_bytes, row_bytes, log, like)

    return columns


def _streamed(emit: Callable[..., None], how: str) -> Any:
    """Return a function for all columns of a segment, whose results bypass the caches."""
    many, part = _of_blocks(emit, BLOCKS, how), _part_of_rows(emit)

    @function()
    def streamed(  # type: ignore[no-untyped-def]
        to, at, y, spare, rows, width, log, like
    ):
        """Process rows of a multiple of VECTOR_BYTES bytes."""
        row_bytes = width * bytes_each(like)
        # Results bypass the caches in whole lines: up to the first one, they do not.
        done = -to & (VECTOR_BYTES - 1)
        part(to, at, y, 0, rows, row_bytes, done, log, like)
        to, at, y, left = to + done, at + done, y + done, row_bytes - done
        while left >= SIDE_BYTES:
            ahead = SIDE_BYTES
            if left < 2 * SIDE_BYTES:
                ahead = rows * row_bytes + left - row_bytes
            many(to, at, y, spare, rows, row_bytes, ahead, log, like)
            to, at, y, left = to + SIDE_BYTES, at + SIDE_BYTES, y + SIDE_BYTES, left - SIDE_BYTES
        part(to, at, y, 0, rows, row_bytes, left, log, like)

    return streamed


single_forward = _narrow(_forward, loose=True, single=True)
short_forward = _narrow(_forward, loose=True, single=True, most_bytes=SHORT_BYTES)
loose_forward, exact_forward = (_narrow(_forward, loose=loose) for loose in (True, False))
loose_backward = _narrow(_backward, loose=True, one_run=True)
exact_backward = _narrow(_backward, loose=False)
forward, backward = _columns(_forward), _columns(_backward)
streamed_forward, streamed_backward = (
    _streamed(each, "streamed") for each in (_forward, _backward)
)
copied_forward, copied_backward = (_streamed(each, "copied") for each in (_forward, _backward))
tops, powers, finish = (_columns(part) for part in (_part_tops, _part_powers, _part_finish))
flows, back = _columns(_part_flows), _columns(_part_back)
