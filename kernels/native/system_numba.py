"""Intrinsics for threads and Python: atomics, system calls, and calls by address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lodcli.kernels.native.language_numba import Emitter, emits, function
from lodcli.kernels.native.target import level

# System call numbers.
_FUTEX = {"x86_64": 202, "aarch64": 98}
_I32, _I64, _REAL = ir.IntType(32), ir.IntType(64), ir.DoubleType()


def _at(builder: Any, address: Any, kind: Any = _I64) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _called(arguments: int, real: bool) -> Any:
    """Return an intrinsic that calls a C function of this many int64 and returns int64 or
    float64."""
    result = types.float64 if real else types.int64

    def emit(builder: Any, args: Any) -> Any:
        kind = ir.FunctionType(_REAL if real else _I64, [_I64] * arguments)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return _intrinsic_of(result, 1 + arguments, emit)


def _intrinsic_of(result: Any, count: int, emit: Callable[..., Any]) -> Any:
    """Return an intrinsic of `count` int64, implemented by emit(builder, arguments)."""
    return emits(result, *[types.int64] * count)(lambda on, *args: emit(on.builder, args))


def _pause(builder: Any, args: Any) -> Any:
    name = {"x86_64": "llvm.x86.sse2.pause", "aarch64": "llvm.aarch64.hint"}[level().machine]
    given = [_I32(1)] if level().machine == "aarch64" else []  # the hint yield (pause)
    kind = ir.FunctionType(ir.VoidType(), [each.type for each in given])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given)


def _exchanged(builder: Any, args: Any) -> Any:
    done = builder.cmpxchg(_at(builder, args[0]), args[1], args[2], "seq_cst", "seq_cst")
    return builder.zext(builder.extract_value(done, 1), _I64)


def _external(name: str, result: Any, kinds: list[Any], *, variadic: bool = False) -> Any:
    """Return an intrinsic that calls a C library function with int64 cast to its parameter
    types."""

    def emit(builder: Any, args: Any) -> Any:
        fixed = kinds[:1] if variadic else kinds
        kind = ir.FunctionType(result, fixed, var_arg=variadic)
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        given = [
            builder.trunc(value, want) if want != _I64 else value
            for value, want in zip(args, kinds, strict=True)
        ]
        found = builder.call(function, given)
        return builder.sext(found, _I64) if result != _I64 else found

    return _intrinsic_of(types.int64, len(kinds), emit)


call_0, call_1, call_2, call_3 = (_called(n, False) for n in range(4))
call_real_1 = _called(1, True)
# : load(address), store(address, value): with acquire and release ordering.
load = _intrinsic_of(types.int64, 1, lambda b, a: b.load_atomic(_at(b, a[0]), "acquire", 8))
store = _intrinsic_of(
    types.void, 2, lambda b, a: b.store_atomic(a[1], _at(b, a[0]), "release", 8) and None
)
# : add(address, value), at_least(address, value): return the previous value.
add = _intrinsic_of(types.int64, 2, lambda b, a: b.atomic_rmw("add", _at(b, a[0]), a[1], "seq_cst"))
at_least = _intrinsic_of(
    types.int64, 2, lambda b, a: b.atomic_rmw("max", _at(b, a[0]), a[1], "seq_cst")
)
# : exchange(address, old, new): compare-and-swap; whether it succeeded.
exchange = _intrinsic_of(types.int64, 3, _exchanged)
pause = _intrinsic_of(types.void, 0, _pause)
_syscall = _external("syscall", _I64, [_I64] * 5, variadic=True)
clock_gettime = _external("clock_gettime", _I32, [_I32, _I64])
sched_yield = _external("sched_yield", _I32, [])
# : current_cpu(): the processor that this thread runs on; -1 if unknown.
current_cpu = _external("sched_getcpu", _I32, [])
_getaffinity, _setaffinity = (
    _external(f"sched_{name}affinity", _I32, [_I32, _I64, _I64]) for name in ("get", "set")
)


@intrinsic(prefer_literal=True)
def _stack_words(typing_context: Any, count: Any) -> Any:
    """Return the address of a constant number of stack words, which live until the function
    returns."""
    words = count.literal_value

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ptrtoint(cgutils.alloca_once(builder, _I64, size=words), _I64)

    return types.int64(count), generate


@emits(types.int64, types.float64)
def _bits_of(on: Emitter, value: Any) -> Any:
    """Return the bits of a float64 as an int64."""
    return on.builder.bitcast(value, _I64)


@emits(types.int64)
def _number(on: Emitter) -> Any:
    return _I64(_FUTEX[level().machine])


@function()
def futex(word: int, operation: int, value: int, limit: int) -> int:
    """Wait on a word, or wake waiters; see futex(2)."""
    found: int = _syscall(_number(), word, operation, value, limit)
    return found


@function()
def sleep(nanoseconds: int) -> None:
    """Sleep for this long."""
    word = stack_words(3)
    store(word, 0)
    store(word + 8, nanoseconds // 1_000_000_000)
    store(word + 16, nanoseconds % 1_000_000_000)
    futex(word, 128, 0, word + 8)


@function()
def allow_cpu(thread: int, cpu: int, allowed: bool) -> bool:
    """Add a processor to the affinity mask of a thread, or remove it.

    Returns:
        Whether the mask was changed: not if it would be empty.
    """
    # For up to 1024 processors; does nothing beyond.
    mask = stack_words(16)
    if _getaffinity(thread, 128, mask):
        return False
    word, bit, any_left = mask + cpu // 64 * 8, 1 << cpu % 64, 0
    before = load(word)
    store(word, before | bit if allowed else before & ~bit)
    for place in range(16):
        any_left |= load(mask + 8 * place)
    if not any_left or load(word) == before:
        return False
    return not _setaffinity(thread, 128, mask)


# Called from kernels without the typing context of their declaration.
stack_words: Any = _stack_words
bits_of: Any = _bits_of
