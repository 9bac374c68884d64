"""Extensions of numba's language for kernels: pointers, and functions that kernels call.

Only for modules `*_numba.py`, which are imported to build kernels, not to run them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import numba as nb
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model

_I64 = ir.IntType(64)
_CONFIG: Any = nb.config  # its attributes are created on import
_njit: Any = nb.njit  # some of its options lack annotations
# : Whether pointer indices are bounds-checked; pointers then carry their number of elements.
CHECKED = bool(_CONFIG.BOUNDSCHECK)


def function(
    *, fastmath: set[str] | frozenset[str] | None = None, inline: str = "never"
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a function that kernels call.

    It has no reference counting, so it cannot create arrays; division is as in NumPy.
    """
    made: Any = _njit(
        nogil=True,
        error_model="numpy",
        fastmath=set(fastmath) if fastmath else False,
        inline=inline,
        _nrt=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    return made  # type: ignore[no-any-return]


class Emitter(NamedTuple):
    """The place in compiled code where instructions are emitted.

    Attributes:
        kinds: numba's types of the arguments.
        result: numba's type of the result.
    """

    context: Any
    builder: Any
    kinds: Sequence[Any]
    result: Any


def emits(result: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a function of compiled code, given as a function that emits it.

    The decorated function takes an Emitter and LLVM's value of each argument, and returns that of
    the result, if any.

    Args:
        result: numba's type of the result, or a function of the types of the arguments.
        kinds: numba's types of the arguments; None: any.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def typed(_: Any, *given: Any) -> Any:
            wanted = [own if kind is None else kind for kind, own in zip(kinds, given, strict=True)]
            made = result if isinstance(result, types.Type) else result(*given)
            return made(*wanted), generate

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            found = emit(Emitter(context, builder, sig.args, sig.return_type), *args)
            return context.get_dummy_value() if found is None else found

        # Numba inspects the parameters.
        names = [f"a{n}" for n in range(1 + len(kinds))]
        parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        typed.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return decorate


class PointerType(types.Type):
    """The type of a pointer to elements of one type."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Pointer({dtype})")


if CHECKED:

    @register_model(PointerType)
    class _CheckedModel(models.StructModel):
        def __init__(self, manager: Any, kind: PointerType) -> None:
            members = [("data", types.CPointer(kind.dtype)), ("count", types.int64)]
            super().__init__(manager, kind, members)  # type: ignore[no-untyped-call]

else:

    @register_model(PointerType)
    class _PlainModel(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: PointerType) -> None:
            element = manager.lookup(kind.dtype).get_data_type()
            super().__init__(manager, kind, element.as_pointer())  # type: ignore[no-untyped-call]


def data_of(builder: Any, value: Any) -> Any:
    """Return the LLVM pointer to the first element."""
    return builder.extract_value(value, 0) if CHECKED else value


def made_pointer(context: Any, builder: Any, kind: PointerType, data: Any, count: Any) -> Any:
    """Return a pointer value; `count` is its number of elements, used only if checked."""
    element = context.get_data_type(kind.dtype)
    data = builder.bitcast(data, element.as_pointer())
    if not CHECKED:
        return data
    empty = ir.Constant(context.get_value_type(kind), ir.Undefined)
    return builder.insert_value(builder.insert_value(empty, data, 0), count, 1)


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the address of an element, bounds-checked if enabled."""
    pointer, index = args[:2]
    index = context.cast(builder, index, sig.args[1], types.int64)
    if CHECKED:
        # Unsigned, so that negative indices are out of bounds too.
        inside = builder.icmp_unsigned("<", index, builder.extract_value(pointer, 1))
        with builder.if_then(builder.not_(inside), likely=False):
            message = ("an index is out of bounds of an array argument",)
            context.call_conv.return_user_exc(builder, IndexError, message)
    return builder.gep(data_of(builder, pointer), [index])


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], PointerType) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, *args)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], PointerType) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], args[1], args[0].dtype)
        return None


@infer_global(operator.add)
class _Add(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], PointerType) and isinstance(args[1], types.Integer):
            return signature(args[0], *args)
        return None


@lower_builtin(operator.getitem, PointerType, types.Integer)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    place = _place(context, builder, sig, args)
    return context.unpack_value(builder, sig.args[0].dtype, place)


@lower_builtin(operator.setitem, PointerType, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    place = _place(context, builder, sig, args)
    context.pack_value(builder, sig.args[0].dtype, args[2], place)
    return context.get_dummy_value()


@lower_builtin(operator.add, PointerType, types.Integer)  # type: ignore[untyped-decorator]
def _further(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    count = context.cast(builder, args[1], sig.args[1], types.int64)
    data = builder.gep(data_of(builder, args[0]), [count])
    left = builder.sub(builder.extract_value(args[0], 1), count) if CHECKED else None
    return made_pointer(context, builder, sig.return_type, data, left)


@emits(types.int64, None)
def address(on: Emitter, pointer: Any) -> Any:
    """Return the address in a pointer as int64."""
    return on.builder.ptrtoint(data_of(on.builder, pointer), _I64)


@emits(lambda *kinds: PointerType(kinds[-1].dtype), types.int64, types.int64, None)
def pointer(on: Emitter, address: Any, count: Any, kind: Any) -> Any:
    """Return a pointer to `count` elements of a type at an address."""
    data = on.builder.inttoptr(address, ir.IntType(8).as_pointer())
    return made_pointer(on.context, on.builder, on.result, data, count)


@emits(types.void)
def not_inlined(on: Emitter) -> None:
    """Prevent inlining of the calling function.

    For functions with products and sums that may be fused: LLVM could fuse differently at each
    place of inlining, and the last bits of results would differ.
    """
    on.builder.function.attributes.add("noinline")


@emits(types.int64, None)
def item_bytes(on: Emitter, kind: Any) -> Any:
    """Return the size of a type in bytes, as a compile-time constant."""
    return _I64(on.kinds[0].dtype.bitwidth // 8)


@emits(types.boolean, None)
def is_float(on: Emitter, kind: Any) -> Any:
    """Return whether a type is floating-point, as a compile-time constant."""
    return ir.IntType(1)(int(isinstance(on.kinds[0].dtype, types.Float)))
