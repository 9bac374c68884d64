"""Converts rows of float32 to bfloat16, in the layout of the products."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits, function
from lodcli.kernels.rnn.engine.amx.instructions_numba import BFloat, call
from lodcli.kernels.rnn.engine.amx.layout import PAIRS, TILE_COLUMNS
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.lanes_numba import address, load

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_WORD_BYTES = 4


@emits(types.void, None, None, types.int64)
def _put(on: Emitter, value: Any, to: Any, position: Any) -> None:
    """Write a vector of float32 as bfloat16, two per word, at to[position]."""
    builder = on.builder
    count = value.type.count
    kind = ir.VectorType(BFloat(), count)
    found = call(builder, "avx512bf16.cvtneps2bf16.512", value, result=kind)
    bits = ir.VectorType(_I16, count)
    place = builder.bitcast(address(builder, to, position), bits.as_pointer())
    builder.store(builder.bitcast(found, bits), place).align = _WORD_BYTES


@function()
def round_row(a, at, count, to, to_at, words):  # type: ignore[no-untyped-def]
    """Write `count` elements of a row as bfloat16, zero-padded to this many words."""
    whole = count // PAIRS * (PAIRS // 2)
    for word in range(0, whole, PAIRS // 2):
        _put(load(a, at + 2 * word, PAIRS), to, to_at + word)
    for word in range(whole, words, PAIRS // 2):
        _put(load(a, at + 2 * word, count - 2 * word), to, to_at + word)


@emits(types.void, None, None, None, types.int64)
def _put_pairs(on: Emitter, low: Any, high: Any, to: Any, position: Any) -> None:
    """Write words of two bfloat16 each: one of `low` and one of `high`."""
    builder = on.builder
    count = low.type.count
    kind = ir.VectorType(BFloat(), 2 * count)
    found = call(builder, "avx512bf16.cvtne2ps2bf16.512", high, low, result=kind)
    halves = ir.VectorType(_I16, 2 * count)
    order = [n for lane in range(count) for n in (lane, count + lane)]
    mask = ir.Constant(ir.VectorType(_I32, 2 * count), order)
    bits = builder.bitcast(found, halves)
    pairs = builder.shuffle_vector(bits, bits, mask)
    place = builder.bitcast(address(builder, to, position), halves.as_pointer())
    builder.store(pairs, place).align = _WORD_BYTES


@emits(types.void, None, types.int64, None, types.int64, types.int64)
def turn(on: Emitter, a: Any, a_at: Any, out: Any, out_at: Any, out_row: Any) -> None:
    """Transpose 16 vectors of 16 words, stored consecutively in `a`, into 16 rows of `out`."""
    builder = on.builder
    count = TILE_COLUMNS
    vector = ir.VectorType(_I32, count)

    def place(array: Any, position: Any) -> Any:
        return builder.bitcast(address(builder, array, position), vector.as_pointer())

    rows = []
    for n in range(count):
        rows.append(builder.load(place(a, builder.add(a_at, _I64(n * count)))))
        rows[-1].align = _WORD_BYTES
    lanes = range(count)
    for bit in (8, 4, 2, 1):
        # Swaps this bit of the row number with that of the lane number.
        to_low = [lane - bit + count if lane & bit else lane for lane in lanes]
        to_high = [lane + count if lane & bit else lane + bit for lane in lanes]
        for n in lanes:
            if not n & bit:
                pair = rows[n], rows[n | bit]
                for to, order in ((n, to_low), (n | bit, to_high)):
                    rows[to] = builder.shuffle_vector(*pair, ir.Constant(vector, order))
    for n, row in enumerate(rows):
        position = builder.add(out_at, builder.mul(out_row, _I64(n)))
        builder.store(row, place(out, position)).align = _WORD_BYTES


#: Called from compiled code: see turn.


@function()
def round_pairs(low, low_at, lows, high, high_at, highs, vectors, to, to_at, apart):  # type: ignore[no-untyped-def]
    """Write two rows as interleaved pairs, one line per vector: the layout of columns in a panel.

    Args:
        low, low_at, lows: the row whose elements come first, and its length; zero-padded. Then
            likewise for the other row.
        vectors: number of vectors.
        to, to_at, apart: position of the first line, and stride in words.
    """
    for n in range(vectors):
        column = n * TILE_COLUMNS
        _put_pairs(
            load(low, low_at + column, lows - column), load(high, high_at + column, highs - column),
            to, to_at + n * apart,
        )  # fmt: skip
