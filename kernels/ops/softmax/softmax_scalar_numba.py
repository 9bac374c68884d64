"""Softmax of single float32 values with SIMD, on the vectors of vectors.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lodcli.kernels.runtime.jit_numba import intrinsic, ir, types
from lodcli.kernels.simd.exponential import exp32
from lodcli.kernels.simd.instructions import call
from lodcli.kernels.simd.vectors import Vectors

_I64, _FLOAT = ir.IntType(64), ir.FloatType()


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
                value = exp32(builder, builder.fsub(v.load(place(at, k), v.kind), top))
                v.store(value, place(to, k))
                return [v.plus(total[0], value)]

            of_tail = builder.select(mask, exp32(builder, builder.fsub(tail, top)), v.zero())
            total = v.joined(v.loop(many, v.lanes, [of_tail], power), plus, None)[0]
            one = builder.extract_element(total, ir.IntType(32)(0))
            end = place(to, many)
            with builder.if_else(log) as (logarithm, plain):
                with logarithm:
                    less = v.all(call(builder, "log", one), v.kind)
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
