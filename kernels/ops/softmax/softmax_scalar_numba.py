"""Softmax of single float32 values, whole vectors at a time, on the vectors of vectors.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.runtime.jit_numba import cgutils, intrinsic, ir, types
from lodcli.kernels.simd.vectors import Vectors

_I64, _FLOAT = ir.IntType(64), ir.FloatType()
# Cephes' expf: within 2 units in the last place of e^x.
_TERMS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1)
_LEAST = -87.33  # below, e^x is 0 here


def _called(v: Vectors, name: str, *values: Any) -> Any:
    kind = values[0].type
    shape = f"v{v.lanes}f32" if isinstance(kind, ir.VectorType) else "f32"
    function = cgutils.get_or_insert_function(
        v.builder.module,
        ir.FunctionType(kind, [value.type for value in values]),
        f"llvm.{name}.{shape}",
    )
    return v.builder.call(function, values)


def _exp(v: Vectors, x: Any) -> Any:
    """Return e^x for x <= 0; a NaN stays one."""
    builder = v.builder

    def number(value: float) -> Any:
        # As float32 holds it, or LLVM refuses the constant.
        return v.constant(float(np.float32(value)), v.kind)

    def fused(a: Any, b: Any, c: Any) -> Any:
        return _called(v, "fmuladd", a, b, c)

    least = number(_LEAST)
    low = builder.select(v.greater(least, x), least, x)
    n = _called(v, "floor", fused(low, number(1.44269504), number(0.5)))
    r = fused(n, number(-0.693359375), low)
    r = fused(n, number(2.12194440e-4), r)
    p = number(_TERMS[0])
    for term in (*_TERMS[1:], 5.0000001201e-1):
        p = fused(p, r, number(term))
    p = fused(builder.fmul(p, r), r, builder.fadd(r, number(1.0)))
    bits = builder.add(builder.fptosi(n, v.numbers), v.constant(127, v.numbers))
    scale = builder.bitcast(builder.shl(bits, v.constant(23, v.numbers)), v.kind)
    power = builder.select(v.greater(least, x), v.zero(), builder.fmul(p, scale))
    return builder.select(v.stays(x), x, power)


def _softmax(loose: bool) -> Any:
    @intrinsic
    def softmax(typing_context: Any, to: Any, at: Any, count: Any, log: Any) -> Any:
        """Write the softmax of `count` values, or its logarithm, to `to`.

        The loose version reads and writes up to a vector further.
        """

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            v = Vectors(context, builder, types.float32, types.float32)
            to, at, count, log = args
            many = builder.and_(count, _I64(-v.lanes))
            mask = v.below(builder.sub(count, many))

            def place(base: Any, k: Any) -> Any:
                return builder.add(base, builder.mul(k, _I64(v.bytes)))

            def last(base: Any) -> Any:
                here = place(base, many)
                return v.load(here, v.kind) if loose else v.load(here, v.kind, mask, v.zero())

            def greatest(a: list[Any], b: list[Any]) -> list[Any]:
                return [builder.select(v.greater(b[0], a[0]), b[0], a[0])]

            def plus(a: list[Any], b: list[Any]) -> list[Any]:
                return [v.plus(a[0], b[0])]

            tail = builder.select(mask, last(at), v.lost())
            found = v.loop(
                many,
                v.lanes,
                [tail],
                lambda k, top: greatest(top, [v.load(place(at, k), v.kind)]),
            )
            top = v.joined(found, greatest, None)[0]

            def power(k: Any, total: list[Any]) -> list[Any]:
                value = _exp(v, builder.fsub(v.load(place(at, k), v.kind), top))
                v.store(value, place(to, k))
                return [v.plus(total[0], value)]

            of_tail = builder.select(mask, _exp(v, builder.fsub(tail, top)), v.zero())
            total = v.joined(v.loop(many, v.lanes, [of_tail], power), plus, None)[0]
            one = builder.extract_element(total, ir.IntType(32)(0))
            end = place(to, many)
            with builder.if_else(log) as (logarithm, plain):
                with logarithm:
                    less = v.all(_called(v, "log", one), v.kind)
                    _each(v, many, place, at, to, lambda x: _less(v, x, top, less))
                    _last(v, _less(v, tail, top, less), end, mask, loose)
                with plain:
                    by = v.all(builder.fdiv(ir.Constant(_FLOAT, 1.0), one), v.kind)
                    _each(v, many, place, to, to, lambda x: builder.fmul(x, by))
                    _last(v, builder.fmul(of_tail, by), end, mask, loose)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.boolean), generate

    return softmax


def _less(v: Vectors, x: Any, top: Any, total: Any) -> Any:
    return v.builder.fsub(v.builder.fsub(x, top), total)


def _each(
    v: Vectors,
    many: Any,
    place: Callable[[Any, Any], Any],
    at: Any,
    to: Any,
    change: Callable[[Any], Any],
) -> None:
    def step(k: Any, nothing: list[Any]) -> list[Any]:
        v.store(change(v.load(place(at, k), v.kind)), place(to, k))
        return nothing

    v.loop(many, v.lanes, [], step)


def _last(v: Vectors, vector: Any, to: Any, mask: Any, loose: bool) -> None:
    v.store(vector, to, None if loose else mask)


softmax_loose, softmax_exact = _softmax(True), _softmax(False)
