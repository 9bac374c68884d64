"""Copies of bytes in blocks of 64, used by all ops that copy rows.

A short range costs one vector load and one store, without a loop or a mask: where there is room,
bytes beyond its end are copied too, and the next range overwrites them. So ranges must be written
in ascending order, each thread within its own part of the result; nothing is written beyond its
`stop`. Addresses are integers, so that one compiled version serves every dtype and row shape.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import CHECKED, Emitter, emits
from lodcli.kernels.runtime.jit_numba import cgutils, ir, numba, types
from lodcli.kernels.simd.instructions import VECTOR_BYTES, load, prefetch, store

FETCHED_BYTES, FAR_BYTES = 512, 4096
AHEAD, LONG_AHEAD = 16, 2  # prefetch distance in rows or ranges; in long ranges
_BYTE, _I64 = ir.IntType(8), ir.IntType(64)


def _at(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return load(builder, _at(builder, address, kind), 1)


def _store(builder: Any, value: Any, address: Any) -> None:
    store(builder, value, _at(builder, address, value.type), 1)


def _mover(vectors: int, word_bytes: int, kind: str, group: int = 1) -> Any:
    """Return a function that copies `vectors` vectors of words from address `at` to `to`.

    Args:
        kind: "move": unchanged; "turn": words in reverse order; "splat": the word at `at`, in all
            lanes; "word": a single word of up to 32 bytes instead of a vector.
        group: number of words that "turn" and "splat" treat as one.
    """
    word = ir.IntType(8 * word_bytes) if word_bytes <= 8 else ir.VectorType(_I64, word_bytes // 8)
    lanes = VECTOR_BYTES // word_bytes
    vector = ir.VectorType(ir.IntType(8 * min(8, word_bytes)), VECTOR_BYTES // min(8, word_bytes))
    order = ir.VectorType(ir.IntType(32), lanes)

    @emits(types.void, types.int64, types.int64)
    def mover(on: Emitter, to: Any, at: Any) -> None:
        builder = on.builder
        if kind == "word":
            _store(builder, _load(builder, at, word), to)
            return
        places = [_I64(VECTOR_BYTES * n) for n in range(vectors)]
        if kind == "splat":
            few = _load(builder, at, ir.VectorType(word, group))
            again = ir.Constant(order, [lane % group for lane in range(lanes)])
            none = ir.Constant(few.type, ir.Undefined)
            found = [builder.shuffle_vector(few, none, again)]
        else:
            found = [_load(builder, builder.add(at, place), vector) for place in places]
        if kind == "turn":
            last = lanes - group
            turned = [last - lane // group * group + lane % group for lane in range(lanes)]
            none, backwards = ir.Constant(vector, ir.Undefined), ir.Constant(order, turned)
            found = [builder.shuffle_vector(each, none, backwards) for each in found]
        for value, place in zip(found, places, strict=True):
            _store(builder, value, builder.add(to, place))

    return mover


def _ends(vectors: int) -> Any:
    """Return a function that copies the first and the last `vectors` vectors of `count` bytes.

    It loads all of them before it stores one: the loads need not wait for the stores.
    """

    @emits(types.void, types.int64, types.int64, types.int64)
    def ends(on: Emitter, to: Any, at: Any, count: Any) -> None:
        builder = on.builder
        places = [_I64(VECTOR_BYTES * n) for n in range(vectors)]
        places += [builder.sub(count, _I64(VECTOR_BYTES * (n + 1))) for n in range(vectors)]
        vector = ir.VectorType(_BYTE, VECTOR_BYTES)
        found = [_load(builder, builder.add(at, place), vector) for place in places]
        for value, place in zip(found, places, strict=True):
            _store(builder, value, builder.add(to, place))

    return ends


@emits(types.void, types.int64, types.int64, types.int64)
def copy_exactly(on: Emitter, to: Any, at: Any, count: Any) -> None:
    builder = on.builder
    cgutils.raw_memcpy(builder, _at(builder, to, _BYTE), _at(builder, at, _BYTE), count, _I64(1))


@emits(types.void, types.int64, types.int64)
def _zeros(on: Emitter, to: Any, count: Any) -> None:
    builder = on.builder
    cgutils.memset(builder, _at(builder, to, _BYTE), count, 0)


@emits(types.int64, types.int64)
def number_at(on: Emitter, at: Any) -> Any:
    """Return the int64 at an address."""
    return _load(on.builder, at, _I64)


def _fetched(locality: int) -> Any:
    @emits(types.void, types.int64)
    def fetched(on: Emitter, at: Any) -> None:
        builder = on.builder
        prefetch(builder, _at(builder, at, _BYTE), locality)

    return fetched


nearest, _second = _fetched(3), _fetched(2)
_move, _move_four = _mover(1, 8, "move"), _mover(4, 8, "move")
_one_end, _two_ends = _ends(1), _ends(2)
_turn_1, _turn_2, _turn_4, _turn_8 = (_mover(1, n, "turn") for n in (1, 2, 4, 8))
_splat_1, _splat_2, _splat_4, _splat_8 = (_mover(1, n, "splat") for n in (1, 2, 4, 8))
_turn_16, _turn_32 = (_mover(1, 8, "turn", n) for n in (2, 4))
_splat_16, _splat_32 = (_mover(1, 8, "splat", n) for n in (2, 4))
_word_1, _word_2, _word_4, _word_8 = (_mover(1, n, "word") for n in (1, 2, 4, 8))
_word_16, _word_32 = (_mover(1, n, "word") for n in (16, 32))


@numba.njit(nogil=True, error_model="numpy")
def fetch_near(at: int, count: int) -> None:
    """Prefetch bytes into the L1 cache."""
    stop = at + min(count, FAR_BYTES)
    # The same number of iterations for all rows of one width: no branch is mispredicted.
    for line in range(at, stop, VECTOR_BYTES):
        nearest(line)
    nearest(stop - 1)


@numba.njit(nogil=True, error_model="numpy")
def fetch(at: int, count: int) -> None:
    """Prefetch the first of `count` bytes at an address, which may be invalid.

    For scattered rows, which the hardware prefetcher cannot predict.
    """
    fetch_near(at, min(count, FETCHED_BYTES))


@numba.njit(nogil=True, error_model="numpy")
def fetch_far(at: int, count: int) -> None:
    """Prefetch bytes into the L2 cache, which can wait for more lines at once than L1.

    For rows and long ranges. For many short ranges `fetch` is faster.
    """
    stop = at + min(count, FAR_BYTES)
    for line in range(at, stop, VECTOR_BYTES):
        _second(line)
    _second(stop - 1)


@numba.njit(nogil=True, error_model="numpy")
def require(to: int, stop: int, at: int, end: int, count: int) -> None:
    # numba's bounds checks do not cover addresses.
    if CHECKED and (count < 0 or to + count > stop or at + count > end):
        raise IndexError("a byte range is out of bounds of its array")


@numba.njit(nogil=True, error_model="numpy")
def copy(to: int, stop: int, at: int, end: int, count: int) -> None:
    """Copy `count` bytes from `at`, in an array that ends at `end`, to `to`, before `stop`."""
    require(to, stop, at, end, count)
    up = (count + (VECTOR_BYTES - 1)) & -VECTOR_BYTES
    if to + up > stop or at + up > end:
        copy_exactly(to, at, count)
        return
    k = 0
    while k + 4 * VECTOR_BYTES <= up:
        _move_four(to + k, at + k)
        k += 4 * VECTOR_BYTES
    while k < up:
        _move(to + k, at + k)
        k += VECTOR_BYTES


@numba.njit(nogil=True, error_model="numpy")
def copy_row(to: int, stop: int, at: int, end: int, width: int) -> None:
    """Copy one row of `width` bytes, without reading or writing bytes outside it.

    The bytes beside a scattered row are often on a cache line that nothing else needs. The last
    move of a row overlaps the one before.
    """
    require(to, stop, at, end, width)
    if width > 4 * VECTOR_BYTES:
        last = width - 4 * VECTOR_BYTES
        for k in range(0, last, 4 * VECTOR_BYTES):
            _move_four(to + k, at + k)
        _move_four(to + last, at + last)
    elif width > 2 * VECTOR_BYTES:
        _two_ends(to, at, width)
    elif width >= VECTOR_BYTES:
        _one_end(to, at, width)
    elif width >= 32:
        _word_32(to, at)
        _word_32(to + width - 32, at + width - 32)
    elif width >= 16:
        _word_16(to, at)
        _word_16(to + width - 16, at + width - 16)
    elif width >= 8:
        _word_8(to, at)
        _word_8(to + width - 8, at + width - 8)
    elif width >= 4:
        _word_4(to, at)
        _word_4(to + width - 4, at + width - 4)
    elif width >= 2:
        _word_2(to, at)
        _word_2(to + width - 2, at + width - 2)
    elif width:
        _word_1(to, at)


@numba.njit(nogil=True, error_model="numpy")
def copy_backwards(to: int, stop: int, at: int, end: int, rows: int, width: int) -> None:
    """Copy the `rows` rows of `width` bytes that end at `end`, in reverse order.

    Args:
        at: start of the array.
    """
    require(to, stop, at, end, rows * width)
    if CHECKED and end - rows * width < at:
        raise IndexError("a byte range is out of bounds of its array")
    short = width == 4 or width == 8 or width == 2 or width == 1 or width == 16 or width == 32
    left = rows * width
    while short and left > 0 and to + VECTOR_BYTES <= stop and end - VECTOR_BYTES >= at:
        if width == 4:
            _turn_4(to, end - VECTOR_BYTES)
        elif width == 8:
            _turn_8(to, end - VECTOR_BYTES)
        elif width == 16:
            _turn_16(to, end - VECTOR_BYTES)
        elif width == 32:
            _turn_32(to, end - VECTOR_BYTES)
        elif width == 2:
            _turn_2(to, end - VECTOR_BYTES)
        else:
            _turn_1(to, end - VECTOR_BYTES)
        to += VECTOR_BYTES
        end -= VECTOR_BYTES
        left -= VECTOR_BYTES
    source = end
    while left > 0:
        copy_row(to, stop, source - width, end, width)
        to += width
        source -= width
        left -= width


@numba.njit(nogil=True, error_model="numpy")
def repeat(to: int, stop: int, at: int, end: int, rows: int, width: int) -> None:
    """Write the row of `width` bytes at `at`, `rows` times."""
    require(to, stop, at, end, width)
    require(to, stop, to, stop, rows * width)
    short = width == 4 or width == 8 or width == 2 or width == 1 or width == 16 or width == 32
    left = rows * width
    if not short and width < 32 and left > 4 * VECTOR_BYTES:
        # The first rows, a vector and more, are written one by one, and then read as a vector.
        first, whole = to, VECTOR_BYTES // width * width
        for _ in range(VECTOR_BYTES // width + 1):
            copy_row(to, stop, at, end, width)
            to += width
        to = first + whole
        left -= whole
        while left > 0 and to + VECTOR_BYTES <= stop:
            _move(to, first)
            to += whole
            left -= whole
    while short and left > 0 and to + VECTOR_BYTES <= stop:
        if width == 4:
            _splat_4(to, at)
        elif width == 8:
            _splat_8(to, at)
        elif width == 16:
            _splat_16(to, at)
        elif width == 32:
            _splat_32(to, at)
        elif width == 2:
            _splat_2(to, at)
        else:
            _splat_1(to, at)
        to += VECTOR_BYTES
        left -= VECTOR_BYTES
    while left > 0:
        copy_row(to, stop, at, end, width)
        to += width
        left -= width


@numba.njit(nogil=True, error_model="numpy")
def clear(to: int, stop: int, count: int) -> None:
    """Write `count` zero bytes."""
    require(to, stop, to, stop, count)
    _zeros(to, count)
