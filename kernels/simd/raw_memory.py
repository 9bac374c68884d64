"""Raw memory access: loads and stores of single values, which numba lacks."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.runtime.jit_numba import types


@emits(lambda at, zero: zero, types.int64, None)
def value_at(on: Emitter, at: Any, zero: Any) -> Any:
    """Return the value at an address, of the type of `zero`."""
    builder = on.builder
    kind = on.context.get_value_type(on.kinds[1])
    found = builder.load(builder.inttoptr(at, kind.as_pointer()))
    found.align = 1
    return found


@emits(types.void, types.int64, None, None)
def put(on: Emitter, to: Any, value: Any, like: Any) -> None:
    """Write a value to an address, converted to the type of `like`."""
    builder = on.builder
    value = on.context.cast(builder, value, on.kinds[1], on.kinds[2])
    builder.store(value, builder.inttoptr(to, value.type.as_pointer())).align = 1
