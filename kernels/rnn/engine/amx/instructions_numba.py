"""LLVM's x86 intrinsics for AMX and bfloat16.

A function with such instructions is compiled with these CPU features: LLVM does not inline it into
its callers, which run on all processors of the level.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.target import level
from lodcli.kernels.runtime.jit_numba import cgutils, ir

_FEATURES = ("+amx-tile", "+amx-bf16", "+avx512bf16")


class BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's type bfloat, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"


def call(builder: Any, name: str, *args: Any, result: Any = None) -> Any:
    """Call an x86 intrinsic of LLVM; the calling function is compiled with the CPU features it
    needs."""
    features = ",".join((*level().features, *_FEATURES))
    # llvmlite's `add` does not support attributes with values.
    set.add(builder.function.attributes, f'"target-features"="{features}"')
    form = ir.FunctionType(result or ir.VoidType(), [each.type for each in args])
    called = cgutils.get_or_insert_function(builder.module, form, f"llvm.x86.{name}")
    return builder.call(called, args)
