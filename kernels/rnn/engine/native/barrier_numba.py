"""Threads that share every step of a sequence wait for each other here.

A wait is a fraction of a microsecond where all threads run, so they spin; one that has waited
for longer gives its processor away, for then another process, or the thread it waits for,
needs it.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.rnn.engine.native.barrier import STRIDE
from lodcli.kernels.runtime.jit_numba import intrinsic, ir, types
from lodcli.kernels.simd.lanes_numba import address

_SPINS = 100
_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())


@intrinsic
def _emit_publish(typing_context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write a word for other threads to see, after everything written before."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = address(builder, args[0], args[1])
        builder.store_atomic(args[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def _emit_published(typing_context: Any, array: Any, position: Any) -> Any:
    """Read a word that another thread may have written, and after it what came before."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = address(builder, args[0], args[1])
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def _emit_pause(typing_context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        triple = builder.module.triple
        name = {"x86": "llvm.x86.sse2.pause"}.get(triple[:3])
        if name:
            kind = ir.FunctionType(ir.VoidType(), [])
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


# Called from compiled code with fewer arguments than the functions above have.
_publish: Any = _emit_publish
_published: Any = _emit_published
_pause: Any = _emit_pause


@function()
def meet(barrier: Any, member: int, members: int) -> bool:
    """Return once all members are here; whether to go on: False once they are stopped."""
    if members == 1:
        return True
    mine = barrier[(member + 1) * STRIDE] + 1
    _publish(barrier, (member + 1) * STRIDE, mine)
    for other in range(members):
        spins = 0
        while _published(barrier, (other + 1) * STRIDE) < mine:
            if _published(barrier, 0):
                return False
            spins += 1
            if spins < _SPINS:
                _pause()
            else:
                _sched_yield()
    return True
