"""Raw memory access: loads and stores of single values, which numba lacks."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.runtime.jit_numba import intrinsic, types


@intrinsic
def _value_at(typing_context: Any, at: Any, zero: Any) -> Any:
    """Return the value at an address, of the type of `zero`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = context.get_value_type(sig.args[1])
        found = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
        found.align = 1
        return found

    return zero(types.int64, zero), generate


@intrinsic
def _put(typing_context: Any, to: Any, value: Any, like: Any) -> Any:
    """Write a value to an address, converted to the type of `like`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = context.cast(builder, args[1], sig.args[1], sig.args[2])
        builder.store(value, builder.inttoptr(args[0], value.type.as_pointer())).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, value, like), generate


value_at: Any = _value_at
put: Any = _put
