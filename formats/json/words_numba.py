"""Intrinsics on machine words that numba lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lodcli.kernels.runtime.jit_numba import intrinsic, ir, types

_BYTE, _WORD, _WIDE = ir.IntType(8), ir.IntType(64), ir.IntType(128)
_REAL = ir.DoubleType()


def _operation(code: Callable[..., Any]) -> Any:
    """Return `code` as an intrinsic; untyped, as numba's type includes the typing context."""
    return intrinsic(code)


@_operation
def times(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the high and the low half of a product of two uint64."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.mul(*(builder.zext(arg, _WIDE) for arg in args))
        high = builder.lshr(product, ir.Constant(_WIDE, 64))
        halves = [builder.trunc(half, _WORD) for half in (high, product)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), code


@_operation
def leading_zeros(typingctx: Any, word: Any) -> Any:
    """Return the number of leading zero bits of a uint64, which is not 0."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


# Addresses instead of arrays: numba counts references to arrays at every call, in memory, which
# takes longer than the call.


def _load(kind: Any, stored: Any) -> Any:
    """Return an intrinsic that loads a value from an address."""

    def load(typingctx: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], stored.as_pointer()))

        return kind(types.int64), code

    return _operation(load)


def _store(kind: Any, stored: Any, align: int | None = None) -> Any:
    """Return an intrinsic that stores a value at an address, which may be unaligned if align=1."""

    def store(typingctx: Any, at: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            put = builder.store(args[1], builder.inttoptr(args[0], stored.as_pointer()))
            put.align = align
            return context.get_dummy_value()

        return types.void(types.int64, kind), code

    return _operation(store)


byte_at, int_at = _load(types.uint8, _BYTE), _load(types.int64, _WORD)
put_byte, put_int = _store(types.uint8, _BYTE), _store(types.int64, _WORD)
put_real = _store(types.float64, _REAL)
put_four = _store(types.uint32, ir.IntType(32), align=1)
