"""Kernel that splits records into fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.text.words_numba import byte_at
from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import Emitter, address, emits
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import splat

_U = np.uint64
_QUOTE, _LINE_FEED = 34, 10
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
# Bytes that are compared at once, each of which becomes a bit of a word.
_STEP = 64


@kernel()
def split_records(
    data: Pointer[np.uint8], size: int, separator: int, width: int, records: int,
    has_quotes: bool, starts: Pointer[np.int64], stops: Pointer[np.int64],
) -> int:  # fmt: skip
    """Write where each field starts and stops, without quotes around it; return whether it is sure.

    Not if a record has another number of fields, and for line ends or quotes within quotes.

    Args:
        data: (N,), at least 64 bytes longer than the records.
        size: of the records, with the line end of the last one.
        records: the number of line ends.
        starts, stops: (width, records).
    """
    begin, base = 0, address(data)
    column, record = 0, 0
    inside, seen, around = _U(0), 0, 0
    for first in range(0, size, _STEP):
        ends = _equal(base + first, _LINE_FEED)
        marks = ends | _equal(base + first, separator)
        if has_quotes:
            quotes = _equal(base + first, _QUOTE)
            seen += _ones(quotes)
            # Bits from an odd number of quotes on.
            for shift in (1, 2, 4, 8, 16, 32):
                quotes ^= quotes << _U(shift)
            quotes ^= inside
            inside = _U(0) - (quotes >> _U(63))
            if ends & quotes != _U(0):
                return 0
            marks &= ~quotes
        while marks != _U(0):
            bit = _zeros(marks)
            stop = first + bit
            is_end = ends >> _U(bit) & _U(1) != _U(0)
            if is_end != (column == width - 1):
                return 0
            place = column * records + record
            if (
                has_quotes
                and begin < stop
                and (byte_at(base + begin) == _QUOTE or byte_at(base + stop - 1) == _QUOTE)
            ):
                if byte_at(base + begin) != byte_at(base + stop - 1):
                    return 0
                around += 2
                starts[place], stops[place] = begin + 1, stop - 1
            else:
                starts[place], stops[place] = begin, stop
            begin = stop + 1
            column += 1
            if is_end:
                column = 0
                record += 1
            marks &= marks - _U(1)
    return 1 if seen == around and inside == _U(0) else 0


@emits(types.uint64, types.int64, types.int64)
def _equal(on: Emitter, at: Any, byte: Any) -> Any:
    """Return a bit for each of 64 bytes at an address: whether it is this one."""
    builder, kind = on.builder, ir.VectorType(_BYTE, _STEP)
    found = builder.load(builder.inttoptr(at, kind.as_pointer()))
    found.align = 1
    wanted = splat(builder, builder.trunc(byte, _BYTE), kind)
    return builder.bitcast(builder.icmp_unsigned("==", found, wanted), _WORD)


@emits(types.int64, types.uint64)
def _zeros(on: Emitter, word: Any) -> Any:
    """Return the number of trailing zero bits of a uint64, which is not 0."""
    return on.builder.cttz(word, ir.Constant(ir.IntType(1), 1))


@emits(types.int64, types.uint64)
def _ones(on: Emitter, word: Any) -> Any:
    """Return the number of bits that are set."""
    return on.builder.ctpop(word)
