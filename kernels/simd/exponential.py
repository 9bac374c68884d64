"""e^x for x <= 0 and log(x) for x >= 1 in compiled code, of numbers and SIMD vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.native.target import level
from lodcli.kernels.runtime.jit_numba import cgutils, ir
from lodcli.kernels.simd.instructions import call, constant


@dataclass(frozen=True)
class _Type:
    """Constants of a floating-point type, and the series for its functions."""

    of: type[np.floating[Any]]
    bits: int
    fraction: int
    least: float  # below, e^x returns 0: 2^n would not be a normal number
    ln2: tuple[float, float]  # high and low part; n times the high part is exact
    powers: tuple[float, ...]  # coefficients of e^r from r^2 upwards, the last first
    logarithms: int  # number of terms of atanh(s) after the first, for s^2 < 0.03


# Coefficients of Cephes' expf; Taylor series, whose next term is 4e-18.
_TYPES = {
    "float": _Type(
        *(np.float32, 32, 23, -87.33, (0.693359375, -2.12194440e-4)),
        (
            *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2),
            *(1.6666665459e-1, 5.0000001201e-1),
        ),
        4,
    ),
    "double": _Type(
        *(np.float64, 64, 52, -708.39, (0.6931471803691238, 1.9082149292705877e-10)),
        tuple(1 / math.factorial(k) for k in range(13, 1, -1)),
        10,
    ),
}


class _Builder:
    """Emits arithmetic on values of the type of `x`, a float or a vector of floats."""

    def __init__(self, builder: Any, x: Any) -> None:
        lanes = x.type.count if isinstance(x.type, ir.VectorType) else 0
        self.builder, self.kind = builder, x.type
        self.type = _TYPES[str(x.type.element if lanes else x.type)]
        whole = ir.IntType(self.type.bits)
        self.whole = ir.VectorType(whole, lanes) if lanes else whole
        # Added to a number, this rounds it to an integer, which is then in the low bits.
        self.shift = 1.5 * 2.0**self.type.fraction

    def number(self, value: float) -> Any:
        # Rounded to the type, because LLVM rejects other constants.
        return constant(self.kind, float(self.type.of(value)))

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, rounded only once if the processor can."""
        return call(self.builder, "fmuladd", a, b, c)

    def polynomial(self, x: Any, terms: Sequence[float]) -> Any:
        result = self.number(terms[0])
        for term in terms[1:]:
            result = self.fused(result, x, self.number(term))
        return result

    def as_bits(self, value: Any) -> Any:
        return self.builder.bitcast(value, self.whole)

    def of_bits(self, value: Any) -> Any:
        return self.builder.bitcast(value, self.kind)

    def whole_number(self, value: int) -> Any:
        return constant(self.whole, value)


def exp_of(builder: Any, x: Any) -> Any:
    """Return e^x for x <= 0, within 2 units in the last place; a NaN stays one."""
    on = _Builder(builder, x)
    least = on.number(on.type.least)
    scaled = _scale_of(x.type)
    vanishes = builder.fcmp_ordered("<", x, least)
    low = x if scaled else builder.select(vanishes, least, x)
    shifted = on.fused(low, on.number(math.log2(math.e)), on.number(on.shift))
    n = builder.fsub(shifted, on.number(on.shift))
    r = on.fused(n, on.number(-on.type.ln2[0]), low)
    r = on.fused(n, on.number(-on.type.ln2[1]), r)
    p = builder.fmul(on.polynomial(r, on.type.powers), r)
    p = on.fused(p, r, builder.fadd(r, on.number(1.0)))
    if scaled:
        return scaled(builder, p, n, builder.fcmp_unordered(">=", x, least))
    exponent = builder.shl(on.as_bits(shifted), on.whole_number(on.type.fraction))
    power = on.of_bits(builder.add(on.as_bits(p), exponent))
    power = builder.select(vanishes, on.number(0.0), power)
    return builder.select(builder.fcmp_unordered("uno", x, x), x, power)


def _scale_of(kind: Any) -> Callable[[Any, Any, Any, Any], Any] | None:
    """Return a function of (builder, p, n, mask), 2^n p or 0: an instruction of AVX-512."""
    bits = kind.count * _TYPES[str(kind.element)].bits if isinstance(kind, ir.VectorType) else 0
    if level().name != "x86-64-v4" or bits not in (128, 256, 512):
        return None
    letter = {"float": "s", "double": "d"}[str(kind.element)]
    name = f"llvm.x86.avx512.mask.scalef.p{letter}.{bits}"

    def scaled(builder: Any, p: Any, n: Any, mask: Any) -> Any:
        whole = ir.IntType(max(8, kind.count))
        if kind.count < 8:
            lanes = [*range(kind.count)] + [kind.count] * (8 - kind.count)
            nothing = ir.Constant(mask.type, [0] * kind.count)
            order = ir.Constant(ir.VectorType(ir.IntType(32), 8), lanes)
            mask = builder.shuffle_vector(mask, nothing, order)
        given = [p, n, constant(kind, 0.0), builder.bitcast(mask, whole)]
        if bits == 512:  # the rounding of the processor
            given.append(ir.Constant(ir.IntType(32), 4))
        form = ir.FunctionType(kind, [each.type for each in given])
        return builder.call(cgutils.get_or_insert_function(builder.module, form, name), given)

    return scaled


def log_of(builder: Any, x: Any) -> Any:
    """Return log(x) for finite x >= 1, within 2 units in the last place; a NaN stays one."""
    on = _Builder(builder, x)
    # x is 2^n m, with m between the square roots of 1/2 and 2.
    root = int(on.type.of(0.5**0.5).view(f"u{on.type.bits // 8}"))
    fraction = on.whole_number(on.type.fraction)
    whole = builder.ashr(builder.sub(on.as_bits(x), on.whole_number(root)), fraction)
    m = on.of_bits(builder.sub(on.as_bits(x), builder.shl(whole, fraction)))
    shift = int(on.type.of(on.shift).view(f"u{on.type.bits // 8}"))
    n = on.of_bits(builder.add(whole, on.whole_number(shift)))
    n = builder.fsub(n, on.number(on.shift))
    less = builder.fsub(m, on.number(1.0))
    s = builder.fdiv(less, builder.fadd(m, on.number(1.0)))
    z = builder.fmul(s, s)
    # log(m) is 2 atanh(s), and 2 s is m - 1 - s (m - 1).
    p = on.polynomial(z, [2 / (2 * k + 1) for k in range(on.type.logarithms, 0, -1)])
    tail = builder.fmul(s, builder.fsub(builder.fmul(z, p), less))
    low = on.fused(n, on.number(on.type.ln2[1]), tail)
    log = on.fused(n, on.number(on.type.ln2[0]), builder.fadd(less, low))
    return builder.select(builder.fcmp_unordered("uno", x, x), x, log)


@emits(lambda x: x, None)
def exp(on: Emitter, x: Any) -> Any:
    """Return e^x for a number or a vector; see `exp_of`."""
    return exp_of(on.builder, x)
