"""What a processor does with a word in one step, and numba has no name for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

_BYTE, _WORD, _WIDE = ir.IntType(8), ir.IntType(64), ir.IntType(128)
_REAL = ir.DoubleType()


def _operation(code: Callable[..., Any]) -> Any:
    """Return `code` as an operation of compiled code; numba's own type shows the context too."""
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
    """Return how many of the highest bits of a uint64, not 0, are 0."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


# An address and not an array: numba counts who holds an array at every call, in memory, which
# costs more than the call does.


@_operation
def put_byte(typingctx: Any, at: Any, byte: Any) -> Any:
    """Put a byte at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.uint8), code


@_operation
def put_four(typingctx: Any, at: Any, word: Any) -> Any:
    """Put the four bytes of a uint32 at any address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store = builder.store(args[1], builder.inttoptr(args[0], ir.IntType(32).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint32), code


@_operation
def byte_at(typingctx: Any, at: Any) -> Any:
    """Return the byte at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _BYTE.as_pointer()))

    return types.uint8(types.int64), code


@_operation
def int_at(typingctx: Any, at: Any) -> Any:
    """Return the int64 at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _WORD.as_pointer()))

    return types.int64(types.int64), code


@_operation
def put_int(typingctx: Any, at: Any, value: Any) -> Any:
    """Put an int64 at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@_operation
def put_real(typingctx: Any, at: Any, value: Any) -> Any:
    """Put a float64 at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _REAL.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), code
