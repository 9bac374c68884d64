"""Reductions of rows with accumulators in vector registers, in LLVM IR.

Plain loops load and store the accumulator of every column for every row. Here the accumulators
of a block of columns stay in registers for many rows and are stored once. Partial vectors are
loaded and stored with a mask. Only LLVM's portable vectors are used, 64 bytes wide, which it
splits on machines with narrower registers.

All functions take addresses and check nothing. `fresh` describes the memory at `to`: MORE, it holds
values to merge with; FIRST, it is not set yet, and the rows begin a segment; NEXT, it is not set
yet, and they do not. Extremes are always maxima: for minima, `flip` has the bits to invert so that
the order is reversed, the sign bit of a float or all bits of an integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import (
    VECTOR_BYTES,
    constant,
    first_lanes,
    load,
    prefetch,
    splat,
    store,
)

MORE, FIRST, NEXT = 0, 1, 2
STREAMS = 4  # rows at once if a row is one vector: hides the latency of additions
_BIT, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
Values = list[Any]


def lanes_of(total_bytes: int) -> int:
    """Return the number of accumulators of `total_bytes` bytes in a vector."""
    return VECTOR_BYTES // max(4, total_bytes)


class Vectors:
    """Builds instructions on vectors of values that are summed or compared."""

    def __init__(self, on: Emitter, value: Any, total: Any, lanes: int | None = None) -> None:
        self.on, self.builder, self.value, self.total = on, on.builder, value, total
        self.lanes = lanes or lanes_of(total.bitwidth // 8)
        self.bytes, self.total_bytes = value.bitwidth // 8, total.bitwidth // 8
        self.floating = isinstance(value, types.Float)
        self.signed = self.floating or value.signed
        self.kind = ir.VectorType(on.context.get_value_type(value), self.lanes)
        self.total_kind = ir.VectorType(on.context.get_value_type(total), self.lanes)
        self.bits = ir.VectorType(ir.IntType(value.bitwidth), self.lanes)
        # Row numbers: 64 bits for accumulators of 8 bytes, else 32.
        self.numbers = ir.VectorType(_I64 if self.total_bytes == 8 else _I32, self.lanes)
        # Greater than every row number. Not -1: the instruction that sets all bits reads the old
        # content of its register, so the processor waits for it.
        self.nowhere = (1 << (self.numbers.element.width - 1)) - 1
        self.longs = ir.VectorType(_I64, self.lanes)

    def all(self, value: Any, kind: Any) -> Any:
        """Return a vector with `value` in all lanes."""
        return splat(self.builder, value, kind)

    def first(self, vector: Any) -> Any:
        """Return the first lane as a vector of one lane."""
        return self.ordered(vector, [0])

    def constant(self, value: Any, kind: Any) -> Any:
        return constant(kind, value)

    def below(self, count: Any) -> Any:
        """Return a mask with the first `count` lanes set."""
        return first_lanes(self.builder, count, self.lanes)

    def place(self, at: Any, k: Any, size: int | None = None) -> Any:
        """Return the address of value k; values have `size` bytes, by default as in `kind`."""
        size = self.bytes if size is None else size
        return self.builder.add(at, self.builder.mul(k, _I64(size)))

    def where(self, mask: Any, value: Any, other: Any) -> Any:
        """Return `value`, but `other` in lanes with unset `mask`; None sets all lanes."""
        return value if mask is None else self.builder.select(mask, value, other)

    def load(self, at: Any, kind: Any, mask: Any = None, other: Any = None) -> Any:
        """Return the vector at an address; lanes with unset `mask` are not read: `other`."""
        return load(self.builder, self.builder.inttoptr(at, kind.as_pointer()), 1, mask, other)

    def store(self, vector: Any, to: Any, mask: Any = None) -> None:
        """Write a vector to an address; lanes with unset `mask` are not written."""
        where = self.builder.inttoptr(to, vector.type.as_pointer())
        store(self.builder, vector, where, 1, mask)

    def fetch(self, at: Any) -> None:
        """Prefetch the memory at an address, which may be invalid."""
        # Not into the L1 cache, which holds the data in use.
        prefetch(self.builder, self.builder.inttoptr(at, ir.IntType(8).as_pointer()), 2)

    def widened(self, vector: Any) -> Any:
        """Return values converted to the type of the accumulators."""
        if self.bytes == self.total_bytes:
            return vector
        if self.floating:
            return self.builder.fpext(vector, self.total_kind)
        extend = self.builder.sext if self.signed else self.builder.zext
        return extend(vector, self.total_kind)

    def flipped(self, vector: Any, flip: Any) -> Any:
        """Return values with the bits in `flip` inverted."""
        narrow = flip if self.bytes == 8 else self.builder.trunc(flip, self.bits.element)
        bits = self.builder.bitcast(vector, self.bits) if self.floating else vector
        bits = self.builder.xor(bits, self.all(narrow, self.bits))
        return self.builder.bitcast(bits, self.kind) if self.floating else bits

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b) if self.floating else self.builder.add(a, b)

    def greater(self, a: Any, b: Any) -> Any:
        """Return the mask of a > b, unset where one is a NaN."""
        if self.floating:
            return self.builder.fcmp_ordered(">", a, b)
        compare = self.builder.icmp_signed if self.signed else self.builder.icmp_unsigned
        return compare(">", a, b)

    def equal(self, a: Any, b: Any) -> Any:
        if self.floating:
            return self.builder.fcmp_ordered("==", a, b)
        return self.builder.icmp_unsigned("==", a, b)

    def zero(self) -> Any:
        return self.constant(0.0 if self.floating else 0, self.kind)

    def nothing(self) -> Any:
        """Return the neutral element of addition."""
        return self.constant(-0.0 if self.floating else 0, self.kind)

    def lost(self) -> Any:
        """Return the neutral element of the maximum."""
        if self.floating:
            return self.constant(float("-inf"), self.kind)
        return self.constant(-(1 << (8 * self.bytes - 1)) if self.signed else 0, self.kind)

    def stays(self, first: Any) -> Any:
        """Return the mask of NaNs in the first values, which no later value replaces."""
        if self.floating:
            return self.builder.fcmp_unordered("uno", first, first)
        return ir.Constant(ir.VectorType(_BIT, self.lanes), [0] * self.lanes)

    def turned(self, vector: Any, by: int) -> Any:
        """Return the lanes rotated down by `by`."""
        return self.ordered(vector, [(lane + by) % self.lanes for lane in range(self.lanes)])

    def ordered(self, vector: Any, lanes: list[int], other: Any = None) -> Any:
        """Return the lanes with these numbers; numbers of `other` follow those of `vector`."""
        numbers = ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)
        other = ir.Constant(vector.type, ir.Undefined) if other is None else other
        return self.builder.shuffle_vector(vector, other, numbers)

    def joined(self, values: Values, merge: Callable[..., Values], width: Any) -> Values:
        """Return each lane below `width` merged with those `width`, 2 `width`, .. above it."""
        by = self.lanes // 2
        while by:
            merged = merge(values, [self.turned(each, by) for each in values])
            if width is not None:
                deeper = self.builder.icmp_signed("<=", width, _I64(by))
                merged = [
                    self.builder.select(deeper, new, old)
                    for new, old in zip(merged, values, strict=True)
                ]
            values = merged
            by //= 2
        return values

    def loop(self, count: Any, step: Any, carried: Values, body: Callable[..., Values]) -> Values:
        """Run body(k, values) for k = 0, step, .. below `count`; return the last values."""
        builder = self.builder
        before = builder.block
        head, inside, after = (builder.append_basic_block(f"v_{n}") for n in ("head", "in", "out"))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(_I64)
        k.add_incoming(_I64(0), before)
        values = []
        for value in carried:
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            values.append(phi)
        builder.cbranch(builder.icmp_signed("<", k, count), inside, after)
        builder.position_at_end(inside)
        changed = body(k, values)
        step = _I64(step) if isinstance(step, int) else step
        k.add_incoming(builder.add(k, step), builder.block)
        for phi, value in zip(values, changed, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return values

    def each(self, count: Any, carried: Values, body: Callable[..., Values]) -> Values:
        """Run body(k, mask, values) for each vector of `count` values; return the last values.

        The mask is None, except for a last vector that is not full.
        """
        builder = self.builder
        many = builder.and_(count, _I64(-self.lanes))
        carried = self.loop(many, self.lanes, carried, lambda k, values: body(k, None, values))
        left = builder.sub(count, many)
        some = builder.zext(builder.icmp_signed(">", left, _I64(0)), _I64)
        mask = self.below(left)
        return self.loop(some, 1, carried, lambda _, values: body(many, mask, values))


@emits(types.void, types.int64, types.int64, types.float64, None)
def divide(on: Emitter, to: Any, count: Any, by: Any, total: Any) -> None:
    """Divide `count` floating totals at an address by a float64; integers stay."""
    builder = on.builder
    v = Vectors(on, on.kinds[3], on.kinds[3])
    if v.floating:
        divisor = v.all(on.context.cast(builder, by, types.float64, on.kinds[3]), v.kind)

        def divided(k: Any, mask: Any, _: Values) -> Values:
            place = v.place(to, k)
            found = v.load(place, v.kind, mask, divisor)
            v.store(builder.fdiv(found, divisor), place, mask)
            return []

        v.each(count, [], divided)
