"""Kernels that convert float16 and bfloat16 to and from float32 by bit operations.

NumPy converts one value at a time, and is slow for subnormal results. Most processors have
instructions for this, but not all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import Emitter, address, emits
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import constant
from lodcli.kernels.simd.vectors import Values, Vectors

_HALF_BIAS = 112 << 23  # difference of the exponent biases of float32 and float16
_INFINITE = 0x7F800000


class _Bits:
    """Emits arithmetic on vectors of uint32."""

    def __init__(self, v: Vectors) -> None:
        self.v, self.builder = v, v.builder
        self.kind, self.short = v.bits, ir.VectorType(ir.IntType(16), v.lanes)

    def all(self, value: int) -> Any:
        return constant(self.kind, value)

    def masked(self, value: Any, mask: int) -> Any:
        return self.builder.and_(value, self.all(mask))

    def left(self, value: Any, by: int) -> Any:
        return self.builder.shl(value, self.all(by))

    def right(self, value: Any, by: int) -> Any:
        return self.builder.lshr(value, self.all(by))

    def above(self, value: Any, limit: int) -> Any:
        return self.builder.icmp_unsigned(">", value, self.all(limit))

    def rounded(self, value: Any, bits: int) -> Any:
        """Return value / 2**bits, rounded to nearest, ties to even."""
        odd = self.masked(self.right(value, bits), 1)
        half = self.builder.add(odd, self.all((1 << (bits - 1)) - 1))
        return self.right(self.builder.add(value, half), bits)

    def as_float(self, value: Any) -> Any:
        return self.builder.bitcast(value, self.v.kind)

    def of_float(self, value: Any) -> Any:
        return self.builder.bitcast(value, self.kind)


def _from_float16(on: _Bits, x: Any) -> Any:
    builder = on.builder
    size = on.masked(x, 0x7FFF)
    fraction = builder.uitofp(on.masked(x, 0x03FF), on.v.kind)
    subnormal = on.of_float(builder.fmul(fraction, constant(on.v.kind, 2.0**-24)))
    normal = builder.add(on.left(size, 13), on.all(_HALF_BIAS))
    infinite = builder.or_(on.left(size, 13), on.all(_INFINITE))
    found = builder.select(on.above(size, 0x7BFF), infinite, normal)
    found = builder.select(on.above(size, 0x03FF), found, subnormal)
    return builder.or_(found, on.left(on.masked(x, 0x8000), 16))


def _to_float16(on: _Bits, x: Any) -> Any:
    builder = on.builder
    size = on.masked(x, 0x7FFFFFFF)
    normal = on.rounded(builder.sub(size, on.all(_HALF_BIAS)), 13)
    # The unit in the last place of 0.5 in float32 is that of subnormal float16.
    half = constant(on.v.kind, 0.5)
    subnormal = builder.sub(on.of_float(builder.fadd(on.as_float(size), half)), on.of_float(half))
    found = builder.select(on.above(size, 0x387FFFFF), normal, subnormal)
    found = builder.select(on.above(size, 0x477FFFFF), on.all(0x7C00), found)
    # A NaN keeps its first fraction bit, so that it does not become infinity.
    nan = builder.or_(on.masked(on.right(size, 13), 0x03FF), on.all(0x7E00))
    found = builder.select(on.above(size, _INFINITE), nan, found)
    return builder.or_(found, on.right(on.masked(x, 0x80000000), 16))


def _from_bfloat16(on: _Bits, x: Any) -> Any:
    return on.left(x, 16)


def _to_bfloat16(on: _Bits, x: Any) -> Any:
    nan = on.builder.or_(on.masked(on.right(x, 16), 0x8000), on.all(0x7FC0))
    is_nan = on.above(on.masked(x, 0x7FFFFFFF), _INFINITE)
    return on.builder.select(is_nan, nan, on.rounded(x, 16))


def _converted(convert: Callable[[_Bits, Any], Any], *, widens: bool) -> Any:
    @emits(types.void, types.int64, types.int64, types.int64)
    def converted(on: Emitter, to: Any, at: Any, count: Any) -> None:
        """Convert `count` values at an address."""
        builder = on.builder
        v = Vectors(on, types.float32, types.float32)
        bits = _Bits(v)
        read, written = (2, 4) if widens else (4, 2)

        def one(k: Any, mask: Any, _: Values) -> Values:
            kind = bits.short if widens else bits.kind
            value = v.load(v.place(at, k, read), kind, mask, constant(kind, 0))
            value = convert(bits, builder.zext(value, bits.kind) if widens else value)
            value = value if widens else builder.trunc(value, bits.short)
            v.store(value, v.place(to, k, written), mask)
            return []

        v.each(count, [], one)

    return converted


_widen_float16 = _converted(_from_float16, widens=True)
_widen_bfloat16 = _converted(_from_bfloat16, widens=True)
_round_float16 = _converted(_to_float16, widens=False)
_round_bfloat16 = _converted(_to_bfloat16, widens=False)


@kernel()
def widen(
    x: Pointer[np.uint16], out: Pointer[np.float32], brain: bool, count: int, piece_values: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write float16, or bfloat16 if `brain`, as float32."""
    begin, end = first * piece_values, min(last * piece_values, count)
    if brain:
        _widen_bfloat16(address(out + begin), address(x + begin), end - begin)
    else:
        _widen_float16(address(out + begin), address(x + begin), end - begin)
    return 0


@kernel()
def narrow(
    x: Pointer[np.float32], out: Pointer[np.uint16], brain: bool, count: int, piece_values: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Convert float32 to float16, or bfloat16 if `brain`, rounding to nearest."""
    begin, end = first * piece_values, min(last * piece_values, count)
    if brain:
        _round_bfloat16(address(out + begin), address(x + begin), end - begin)
    else:
        _round_float16(address(out + begin), address(x + begin), end - begin)
    return 0
