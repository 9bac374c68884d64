"""Non-temporal stores of byte ranges larger than the caches.

A normal store reads its cache line from memory first, and the written line displaces other data
in the cache. Non-temporal stores of whole lines do neither: a large copy moves two thirds of the
bytes. Ranges do not end at line boundaries, so a line that two of them share is assembled in a
register, from the end of one and the beginning of the other.

Ranges are appended in ascending order, each thread within its own part of the result. Its state is
three numbers: `to`, the address of the current line; `held`, the address of the first bytes of that
line, FOREIGN if others write them; and `full`, the number of these bytes.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.runtime.jit_numba import ir, numba, types
from lodcli.kernels.simd.byte_moves import copy_exactly, require
from lodcli.kernels.simd.instructions import VECTOR_BYTES, load

FOREIGN = 0
_BYTE, _I64 = ir.IntType(8), ir.IntType(64)
_LINE = ir.VectorType(_BYTE, VECTOR_BYTES)


def _load(builder: Any, at: Any) -> Any:
    return load(builder, builder.inttoptr(at, _LINE.as_pointer()), 1)


def _store(builder: Any, line: Any, to: Any) -> None:
    store_line(builder, line, builder.inttoptr(to, _LINE.as_pointer()))


def store_line(builder: Any, line: Any, where: Any) -> None:
    """Write a whole line with a non-temporal store, to a pointer aligned to a line."""
    store = builder.store(line, where)
    store.align = VECTOR_BYTES
    store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


def _lines(count: int) -> Any:
    @emits(types.void, types.int64, types.int64)
    def lines(on: Emitter, to: Any, at: Any) -> None:
        """Copy `count` lines to an address that is aligned to a line."""
        builder = on.builder
        places = [_I64(VECTOR_BYTES * n) for n in range(count)]
        found = [_load(builder, builder.add(at, place)) for place in places]
        for line, place in zip(found, places, strict=True):
            _store(builder, line, builder.add(to, place))

    return lines


@emits(types.void, *[types.int64] * 4)
def _joined(on: Emitter, to: Any, held: Any, full: Any, at: Any) -> None:
    """Write a line: its first `full` bytes from the line at `held`, the rest from that at `at`."""
    builder = on.builder
    undefined = ir.Constant(_LINE, ir.Undefined)
    number = ir.IntType(32)
    one = builder.insert_element(undefined, builder.trunc(full, _BYTE), number(0))
    zeros = ir.Constant(ir.VectorType(number, VECTOR_BYTES), [0] * VECTOR_BYTES)
    wanted = builder.shuffle_vector(one, undefined, zeros)
    lane = ir.Constant(_LINE, list(range(VECTOR_BYTES)))
    first = builder.icmp_signed("<", lane, wanted)
    _store(builder, builder.select(first, _load(builder, held), _load(builder, at)), to)


@emits(types.void)
def settle(on: Emitter) -> None:
    on.builder.fence("seq_cst")


_one_line, _four_lines = _lines(1), _lines(4)


@numba.njit(nogil=True, error_model="numpy")
def begin(to: int) -> Any:
    """Return the initial `to`, `held` and `full` of a part of the result that starts at `to`."""
    full = to & (VECTOR_BYTES - 1)
    return to - full, FOREIGN if full else to, full


# Inlined: the stack stores of a call would queue behind the non-temporal stores.
@numba.njit(nogil=True, error_model="numpy", inline="always")
def append(
    to: int, held: int, full: int, stop: int, at: int, first: int, end: int, count: int
) -> Any:
    """Copy `count` bytes from `at`, in an array from `first` to `end`; return the new state.

    Args:
        stop: end of the thread's part of the result.
    """
    require(to + full, stop, at, end, count)
    # Reads below stay within the array. The slow path is a call, to keep it out of hot loops.
    near = at - full < first or at + count + VECTOR_BYTES > end
    if near or held == FOREIGN or full + count < VECTOR_BYTES:
        return _append_slowly(to, held, full, at, count)
    k = 0
    if full:
        _joined(to, held, full, at - full)
        k = VECTOR_BYTES - full
        to += VECTOR_BYTES
    while k + 4 * VECTOR_BYTES <= count:
        _four_lines(to, at + k)
        to += 4 * VECTOR_BYTES
        k += 4 * VECTOR_BYTES
    while k + VECTOR_BYTES <= count:
        _one_line(to, at + k)
        to += VECTOR_BYTES
        k += VECTOR_BYTES
    return to, at + k, count - k


@numba.njit(nogil=True, error_model="numpy")
def _append_slowly(to: int, held: int, full: int, at: int, count: int) -> Any:
    """Append a short range, or one beside which no bytes may be read or written."""
    if held != FOREIGN and held != to:
        copy_exactly(to, held, full)
        held = to
    if full:
        n = min(count, VECTOR_BYTES - full)
        copy_exactly(to + full, at, n)
        if full + n < VECTOR_BYTES:
            return to, held, full + n
        at += n
        count -= n
        to += VECTOR_BYTES
    while count >= VECTOR_BYTES:
        _one_line(to, at)
        to += VECTOR_BYTES
        at += VECTOR_BYTES
        count -= VECTOR_BYTES
    copy_exactly(to, at, count)
    return to, to, count


@numba.njit(nogil=True, error_model="numpy")
def finish(to: int, held: int, full: int) -> None:
    """Write the last, partial line, then a fence: non-temporal stores are not ordered."""
    if full and held != FOREIGN and held != to:
        copy_exactly(to, held, full)
    settle()
