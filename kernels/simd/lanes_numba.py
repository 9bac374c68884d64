"""SIMD vectors as values in compiled Python.

    a = load(array, position, count)      the next `count` elements; lanes past them are 0
    store(a * b + 1.0, array, position, count)

Products and sums are fused where the processor supports it. The number of elements per vector, and
of registers, depends on the level that is compiled for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from lodcli.kernels.native.language_numba import Emitter, data_of, emits
from lodcli.kernels.native.target import level
from lodcli.kernels.rnn.engine.native.layout import Layout
from lodcli.kernels.runtime.jit_numba import (
    AbstractTemplate,
    infer_global,
    ir,
    lower_builtin,
    models,
    register_model,
    signature,
    types,
)
from lodcli.kernels.simd import instructions

_I64 = ir.IntType(64)


LAYOUT = Layout(level().vector_bytes, level().registers)


def lanes_of(dtype: Any) -> int:
    """Return the number of lanes for a numba dtype."""
    return LAYOUT.lanes(dtype.bitwidth // 8)


class Lanes(types.Type):
    """The type of a vector of float32 or float64."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(name=f"Lanes({dtype})")
        self.dtype = dtype


def vector_type(dtype: Any) -> Any:
    """Return LLVM's type of a vector."""
    element = ir.FloatType() if dtype == types.float32 else ir.DoubleType()
    return ir.VectorType(element, lanes_of(dtype))


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, vector_type(kind.dtype))  # type: ignore[no-untyped-call]


def address(builder: Any, pointer: Any, position: Any) -> Any:
    """Return the address of one element behind a pointer."""
    return builder.gep(data_of(builder, pointer), [position])


def _as_vector(builder: Any, kind: Any, value: Any, wanted: Lanes) -> Any:
    if isinstance(kind, Lanes):
        return value
    vector = vector_type(wanted.dtype)
    if kind.bitwidth > wanted.dtype.bitwidth:
        value = builder.fptrunc(value, vector.element)
    elif kind.bitwidth < wanted.dtype.bitwidth:
        value = builder.fpext(value, vector.element)
    return instructions.splat(builder, value, vector)


def _operator(function: Any, emit: str) -> None:
    @infer_global(function)
    class _Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            kinds = [kind for kind in args if isinstance(kind, Lanes)]
            if len(args) == 2 and kinds:
                others = [kind for kind in args if not isinstance(kind, Lanes)]
                if all(isinstance(kind, types.Float) for kind in others):
                    return signature(kinds[0], *args)
            return None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [
            _as_vector(builder, kind, value, sig.return_type)
            for kind, value in zip(sig.args, args, strict=True)
        ]
        return getattr(builder, emit)(*values, flags=("contract",))

    for kinds in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):
        lower_builtin(function, *kinds)(lower)


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


def _same(kind: Any, *_: Any) -> Any:
    return kind


def _lanes(array: Any, *_: Any) -> Any:
    return Lanes(array.dtype)


@emits(types.int64, None)
def lanes_in(on: Emitter, array: Any) -> Any:
    """Return the number of lanes for elements of a pointer, a compile-time constant."""
    return _I64(lanes_of(on.kinds[0].dtype))


def _some(builder: Any, vector: Any, count: Any, whole: Callable[[], Any], part: Any) -> Any:
    """Emit whole() for a full vector, else part(mask) with the first `count` lanes set."""
    full = builder.icmp_signed(">=", count, _I64(vector.count))
    results = []
    with builder.if_else(full) as (then, otherwise):
        with then:
            results.append((whole(), builder.block))
        with otherwise:
            mask = instructions.first_lanes(builder, count, vector.count)
            results.append((part(mask), builder.block))
    if results[0][0] is None:
        return None
    joined = builder.phi(vector)
    for value, block in results:
        joined.add_incoming(value, block)
    return joined


@emits(_lanes, None, types.int64, types.int64)
def load(on: Emitter, array: Any, position: Any, count: Any) -> Any:
    """Return array[position:position+count], zeros in other lanes."""
    dtype = on.result.dtype
    builder = on.builder
    vector = vector_type(dtype)
    first = address(builder, array, position)
    place = builder.bitcast(first, vector.as_pointer())
    bytes_each = dtype.bitwidth // 8

    def whole() -> Any:
        return instructions.load(builder, place, bytes_each)

    def part(mask: Any) -> Any:
        zero = ir.Constant(vector, [0.0] * vector.count)
        return instructions.load(builder, place, bytes_each, mask, zero)

    return _some(builder, vector, count, whole, part)


@emits(_lanes, None, types.int64, types.int64, types.int64)
def load_between(on: Emitter, array: Any, position: Any, low: Any, high: Any) -> Any:
    """Return array[position + low:position + high] in lanes low to high, zeros in other lanes."""
    dtype = on.result.dtype
    builder = on.builder
    vector = vector_type(dtype)
    place = builder.bitcast(address(builder, array, position), vector.as_pointer())
    before, until = (instructions.first_lanes(builder, n, vector.count) for n in (low, high))
    mask = builder.and_(until, builder.not_(before))
    zeros = instructions.constant(vector, 0.0)
    return instructions.load(builder, place, dtype.bitwidth // 8, mask, zeros)


@emits(types.void, None, None, types.int64, types.int64)
def store(on: Emitter, value: Any, array: Any, position: Any, count: Any) -> None:
    """Write the first `count` lanes of `value` to array[position:]."""
    builder = on.builder
    vector = vector_type(on.kinds[0].dtype)
    first = address(builder, array, position)
    place = builder.bitcast(first, vector.as_pointer())
    bytes_each = on.kinds[0].dtype.bitwidth // 8

    def whole() -> None:
        instructions.store(builder, value, place, bytes_each)

    def part(mask: Any) -> None:
        instructions.store(builder, value, place, bytes_each, mask)

    _some(builder, vector, count, whole, part)


def _narrow(dtype: Any) -> Any:
    """Return LLVM's type of a quarter of a vector."""
    vector = vector_type(dtype)
    return ir.VectorType(vector.element, max(1, vector.count // 4))


@emits(_lanes, None, types.int64, types.int64)
def load_narrow(on: Emitter, array: Any, position: Any, count: Any) -> Any:
    """Like load, for at most a quarter of the lanes.

    Unaligned vectors mostly cross a cache line; narrow ones seldom do.
    """
    dtype = on.result.dtype
    builder = on.builder
    narrow, lanes = _narrow(dtype), lanes_of(dtype)
    place = builder.bitcast(address(builder, array, position), narrow.as_pointer())
    mask = instructions.first_lanes(builder, count, narrow.count)
    zeros = instructions.constant(narrow, 0.0)
    value = instructions.load(builder, place, dtype.bitwidth // 8, mask, zeros)
    order = [min(lane, narrow.count) for lane in range(lanes)]
    chosen = ir.Constant(ir.VectorType(ir.IntType(32), lanes), order)
    return builder.shuffle_vector(value, zeros, chosen)


@emits(types.void, None, None, types.int64, types.int64)
def store_narrow(on: Emitter, value: Any, array: Any, position: Any, count: Any) -> None:
    """Like store, for at most a quarter of the lanes."""
    builder = on.builder
    narrow = _narrow(on.kinds[0].dtype)
    place = builder.bitcast(address(builder, array, position), narrow.as_pointer())
    mask = instructions.first_lanes(builder, count, narrow.count)
    first = ir.Constant(ir.VectorType(ir.IntType(32), narrow.count), list(range(narrow.count)))
    low = builder.shuffle_vector(value, value, first)
    instructions.store(builder, low, place, on.kinds[0].dtype.bitwidth // 8, mask)


@emits(types.void, None, types.int64, types.int64, None, types.int64, types.int64)
def transpose(
    on: Emitter, source: Any, at: Any, row: Any, to: Any, to_at: Any, to_row: Any
) -> None:
    """Transpose a square block that is as wide as a vector.

    Its rows begin at source[at + n * row], and are written to to[to_at + n * to_row].
    """
    builder = on.builder
    vector = vector_type(on.kinds[0].dtype)
    lanes, bytes_each = vector.count, on.kinds[0].dtype.bitwidth // 8

    def place(array: Any, first: Any, step: Any, number: int) -> Any:
        position = builder.add(first, builder.mul(step, _I64(number)))
        return builder.bitcast(address(builder, array, position), vector.as_pointer())

    rows = [instructions.load(builder, place(source, at, row, n), bytes_each) for n in range(lanes)]
    # Each round interleaves rows n and n + lanes / 2: for four rows a, b, c, d into a0 c0 a1
    # c1, b0 d0 b1 d1, and then a0 b0 c0 d0.
    half = lanes // 2
    merged = [
        ir.Constant(
            ir.VectorType(ir.IntType(32), lanes),
            [n for k in range(first, first + half) for n in (k, lanes + k)],
        )
        for first in (0, half)
    ]
    for _ in range(lanes.bit_length() - 1):
        rows = [
            builder.shuffle_vector(rows[n], rows[n + half], order)
            for n in range(half)
            for order in merged
        ]
    for n, value in enumerate(rows):
        instructions.store(builder, value, place(to, to_at, to_row, n), bytes_each)


@emits(types.void, None, types.int64)
def fetch(on: Emitter, array: Any, position: Any) -> None:
    """Prefetch array[position]."""
    builder = on.builder
    instructions.prefetch(builder, address(builder, array, position), 3)


@emits(_same, None, None, None)
def fused(on: Emitter, x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z, fused if the processor supports it.

    For sums of two products: LLVM would fuse either one of x * y + u * v, not always the same.
    """
    return instructions.call(on.builder, "fmuladd", x, y, z)


@emits(_same, None, None)
def below(on: Emitter, value: Any, limit: Any) -> Any:
    """Return the minimum of a vector and a number; NaN is preserved."""
    return _limited(on, value, limit, ">")


@emits(_same, None, None)
def above(on: Emitter, value: Any, limit: Any) -> Any:
    """Return the maximum of a vector and a number; NaN is preserved."""
    return _limited(on, value, limit, "<")


def _limited(on: Emitter, value: Any, limit: Any, beyond: str) -> Any:
    limit = _as_vector(on.builder, on.kinds[1], limit, on.kinds[0])
    return on.builder.select(on.builder.fcmp_ordered(beyond, value, limit), limit, value)


@emits(_same, None, None, None)
def positive(on: Emitter, value: Any, chosen: Any, other: Any) -> Any:
    """Return `chosen` where `value` is positive, else `other`, a vector or a number."""
    return _chosen(on, ">", value, chosen, other)


@emits(_same, None, None, None)
def zero(on: Emitter, value: Any, chosen: Any, other: Any) -> Any:
    """Return `chosen` where `value` is 0, else `other`; each a vector or a number."""
    return _chosen(on, "==", value, chosen, other)


def _chosen(on: Emitter, relation: str, *values: Any) -> Any:
    value, *choices = (
        _as_vector(on.builder, kind, each, on.kinds[0])
        for kind, each in zip(on.kinds, values, strict=True)
    )
    nothing = ir.Constant(value.type, [0.0] * value.type.count)
    return on.builder.select(on.builder.fcmp_ordered(relation, value, nothing), *choices)


@emits(_same, None, None)
def power_of_two(on: Emitter, value: Any, shifted: Any) -> Any:
    """Return value * 2**n, where n is the integer in the low bits of `shifted`.

    `shifted` is n + 1.5 * 2**52, in float32 n + 1.5 * 2**23: adding this rounds to an integer in
    the low bits.
    """
    bits, fraction = (32, 23) if on.result.dtype == types.float32 else (64, 52)
    builder = on.builder
    whole = ir.VectorType(ir.IntType(bits), value.type.count)
    by = ir.Constant(whole, [fraction] * whole.count)
    steps = builder.shl(builder.bitcast(shifted, whole), by)
    return builder.bitcast(builder.add(builder.bitcast(value, whole), steps), value.type)


def _in_pairs(order: Callable[[int], int], negated: Callable[[int], bool]) -> Any:
    """Return a function on vectors of pairs, such as real and imaginary parts.

    Args:
        order: source lane of each lane.
        negated: whether the sign of each lane changes.
    """

    @emits(_same, None)
    def in_pairs(on: Emitter, value: Any) -> Any:
        builder = on.builder
        lanes = value.type.count
        chosen = [order(lane) + lanes * negated(lane) for lane in range(lanes)]
        kind = ir.VectorType(ir.IntType(32), lanes)
        return builder.shuffle_vector(value, builder.fneg(value), ir.Constant(kind, chosen))

    return in_pairs


swapped = _in_pairs(lambda lane: lane ^ 1, lambda lane: False)
both_first = _in_pairs(lambda lane: lane & ~1, lambda lane: False)
both_second = _in_pairs(lambda lane: lane | 1, lambda lane: lane % 2 == 0)
conjugated = _in_pairs(lambda lane: lane, lambda lane: lane % 2 == 1)
