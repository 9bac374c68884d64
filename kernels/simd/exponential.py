"""e^x for x <= 0 in compiled code, for float32 with SIMD vectors or vectorisable loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.runtime.jit_numba import intrinsic, ir, numba, overload, types
from lodcli.kernels.simd.instructions import call, constant

FAST = {"contract", "nsz"}
_TERMS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1)
_LEAST = -87.33  # below, e^x is 0 here


def exp32(builder: Any, x: Any) -> Any:
    """Return e^x for x <= 0, float32 or a vector of it; a NaN stays one.

    Within 2 units in the last place (Cephes' expf).
    """

    def number(value: float) -> Any:
        # As float32 holds it, or LLVM refuses the constant.
        return constant(x.type, float(np.float32(value)))

    def fused(a: Any, b: Any, c: Any) -> Any:
        return call(builder, "fmuladd", a, b, c)

    least = number(_LEAST)
    vanishes = builder.fcmp_ordered("<", x, least)
    low = builder.select(vanishes, least, x)
    n = call(builder, "floor", fused(low, number(1.44269504), number(0.5)))
    r = fused(n, number(-0.693359375), low)
    r = fused(n, number(2.12194440e-4), r)
    p = number(_TERMS[0])
    for term in (*_TERMS[1:], 5.0000001201e-1):
        p = fused(p, r, number(term))
    p = fused(builder.fmul(p, r), r, builder.fadd(r, number(1.0)))
    lanes = x.type.count if isinstance(x.type, ir.VectorType) else 0
    whole = ir.VectorType(ir.IntType(32), lanes) if lanes else ir.IntType(32)
    bits = builder.add(builder.fptosi(n, whole), constant(whole, 127))
    scale = builder.bitcast(builder.shl(bits, constant(whole, 23)), x.type)
    power = builder.select(vanishes, number(0.0), builder.fmul(p, scale))
    return builder.select(builder.fcmp_unordered("uno", x, x), x, power)


@intrinsic
def _single(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return exp32(builder, args[0])

    return types.float32(types.float32), generate


# Called from compiled code without the typing context.
_exp32: Any = _single


def exp(x: Any) -> Any:
    """Return e^x for x <= 0."""
    raise NotImplementedError("for compiled code only")


@overload(exp)
def _exp_of(x: Any) -> Any:
    def single(x: Any) -> Any:
        return _exp32(x)

    def double(x: Any) -> Any:
        return np.exp(x)

    return single if x == numba.types.float32 else double
