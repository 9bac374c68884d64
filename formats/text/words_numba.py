"""Intrinsics on machine words that numba lacks."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.runtime.jit_numba import ir, types

_BYTE, _WORD, _WIDE = ir.IntType(8), ir.IntType(64), ir.IntType(128)
_REAL = ir.DoubleType()


@emits(types.UniTuple(types.uint64, 2), types.uint64, types.uint64)
def times(on: Emitter, a: Any, b: Any) -> Any:
    """Return the high and the low half of a product of two uint64."""
    builder = on.builder
    product = builder.mul(*(builder.zext(each, _WIDE) for each in (a, b)))
    high = builder.lshr(product, ir.Constant(_WIDE, 64))
    halves = [builder.trunc(half, _WORD) for half in (high, product)]
    return on.context.make_tuple(builder, on.result, halves)


@emits(types.int64, types.uint64)
def leading_zeros(on: Emitter, word: Any) -> Any:
    """Return the number of leading zero bits of a uint64, which is not 0."""
    return on.builder.ctlz(word, ir.Constant(ir.IntType(1), 1))


# Addresses instead of arrays: numba counts references to arrays at every call, in memory, which
# takes longer than the call.


def _load(kind: Any, stored: Any) -> Any:
    """Return an intrinsic that loads a value from an address."""

    @emits(kind, types.int64)
    def load(on: Emitter, at: Any) -> Any:
        return on.builder.load(on.builder.inttoptr(at, stored.as_pointer()))

    return load


def _store(kind: Any, stored: Any, align: int | None = None) -> Any:
    """Return an intrinsic that stores a value at an address, which may be unaligned if align=1."""

    @emits(types.void, types.int64, kind)
    def store(on: Emitter, at: Any, value: Any) -> None:
        put = on.builder.store(value, on.builder.inttoptr(at, stored.as_pointer()))
        put.align = align

    return store


byte_at, int_at = _load(types.uint8, _BYTE), _load(types.int64, _WORD)
four_at = _load(types.uint32, ir.IntType(32))
real_at, single_at = _load(types.float64, _REAL), _load(types.float32, ir.FloatType())
put_byte, put_int = _store(types.uint8, _BYTE), _store(types.int64, _WORD)
put_real = _store(types.float64, _REAL)
put_four = _store(types.uint32, ir.IntType(32), align=1)
