"""Copies of bytes in blocks of 64, used by all ops that copy rows.

A short range costs one vector load and one store, without a loop or a mask: bytes behind its
end are moved along where there is room, and overwritten by the range that follows. So ranges
must be written in rising order, each thread within its own stretch of the result, and what
lies behind its `stop` is never touched. Addresses are whole numbers, so that one compiled
version serves every dtype and row shape.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.runtime.jit_numba import cgutils, intrinsic, ir, numba, types
from lodcli.kernels.simd.instructions import VECTOR_BYTES, load, prefetch, store

FETCHED_BYTES = 512
AHEAD = 16  # rows or ranges asked for before their turn
_BYTE, _I64 = ir.IntType(8), ir.IntType(64)
# numba's own checks do not see addresses, so these kernels check them where it would.
_CONFIG: Any = numba.config  # its attributes are made while it is imported
_CHECKED = bool(_CONFIG.BOUNDSCHECK)


def _at(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return load(builder, _at(builder, address, kind), 1)


def _store(builder: Any, value: Any, address: Any) -> None:
    store(builder, value, _at(builder, address, value.type), 1)


def _mover(vectors: int, word_bytes: int, kind: str, group: int = 1) -> Any:
    """Return a function of addresses `to` and `at` that moves so many vectors of words.

    Args:
        kind: "move" as they are; "turn": backwards; "splat": the one word at `at`,
            over the whole vector; "word": one word, no vector.
        group: so many words that stay together are turned or splat.
    """
    word = ir.IntType(8 * word_bytes)
    lanes = VECTOR_BYTES // word_bytes
    vector = ir.VectorType(word, lanes)
    order = ir.VectorType(ir.IntType(32), lanes)

    @intrinsic
    def mover(typing_context: Any, to: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            to, at = args
            if kind == "word":
                _store(builder, _load(builder, at, word), to)
                return context.get_dummy_value()
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
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return mover


@intrinsic
def _copy_exactly(typing_context: Any, to: Any, at: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to, at, count = args
        cgutils.raw_memcpy(
            builder, _at(builder, to, _BYTE), _at(builder, at, _BYTE), count, _I64(1)
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _clear(typing_context: Any, to: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to = _at(builder, args[0], _BYTE)
        cgutils.memset(builder, to, args[1], 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _number_at(typing_context: Any, at: Any) -> Any:
    """Return the int64 at an address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _load(builder, args[0], _I64)

    return types.int64(types.int64), generate


@intrinsic
def _fetch(typing_context: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        prefetch(builder, _at(builder, args[0], _BYTE), 3)
        return context.get_dummy_value()

    return types.void(types.int64), generate


# An intrinsic is called without the typing context that it is declared with.
number_at: Any = _number_at
copy_exactly: Any = _copy_exactly
_zeros: Any = _clear
_asked: Any = _fetch
_move, _move_four = _mover(1, 8, "move"), _mover(4, 8, "move")
_turn_1, _turn_2, _turn_4, _turn_8 = (_mover(1, n, "turn") for n in (1, 2, 4, 8))
_splat_1, _splat_2, _splat_4, _splat_8 = (_mover(1, n, "splat") for n in (1, 2, 4, 8))
_turn_16, _turn_32 = (_mover(1, 8, "turn", n) for n in (2, 4))
_splat_16, _splat_32 = (_mover(1, 8, "splat", n) for n in (2, 4))
_word_1, _word_2, _word_4, _word_8 = (_mover(1, n, "word") for n in (1, 2, 4, 8))


@numba.njit(nogil=True, error_model="numpy")
def fetch(at: int, count: int) -> None:
    """Ask for the first of `count` bytes at an address, which may lie anywhere, to be cached.

    For rows that lie apart: no processor guesses where the next one is.
    """
    # Line by line: rows seldom begin where lines do.
    for line in range(at & -VECTOR_BYTES, at + min(count, FETCHED_BYTES), VECTOR_BYTES):
        _asked(line)


@numba.njit(nogil=True, error_model="numpy")
def require(to: int, stop: int, at: int, end: int, count: int) -> None:
    if _CHECKED and (count < 0 or to + count > stop or at + count > end):
        raise IndexError("a range of bytes leaves its array")


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
    """Copy one row of `width` bytes, a short one as one word."""
    require(to, stop, at, end, width)
    if width == 4:
        _word_4(to, at)
    elif width == 8:
        _word_8(to, at)
    elif width == 2:
        _word_2(to, at)
    elif width == 1:
        _word_1(to, at)
    else:
        copy(to, stop, at, end, width)


@numba.njit(nogil=True, error_model="numpy")
def pick_words(to: int, at: int, end: int, begins: Any, ends: Any, last: bool, fill: int) -> None:
    """Copy of every range of words of 4 bytes the last one or the first, `fill` of an empty one."""
    for s in range(ends.size):
        place = ends[s] - 1 if last else begins[s]
        empty = begins[s] == ends[s]
        source = fill if empty else at + 4 * place
        require(to, to + 4 * ends.size, source, fill + 4 if empty else end, 4)
        _word_4(to + 4 * s, source)


@numba.njit(nogil=True, error_model="numpy")
def copy_backwards(to: int, stop: int, at: int, end: int, rows: int, width: int) -> None:
    """Copy `rows` rows of `width` bytes that end at `end`, the last one first.

    Args:
        at: where the array begins.
    """
    require(to, stop, at, end, rows * width)
    if _CHECKED and end - rows * width < at:
        raise IndexError("a range of bytes leaves its array")
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
    """Write the row of `width` bytes at `at` so many times."""
    require(to, stop, at, end, width)
    require(to, stop, to, stop, rows * width)
    short = width == 4 or width == 8 or width == 2 or width == 1 or width == 16 or width == 32
    left = rows * width
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


@numba.njit(nogil=True, error_model="numpy")
def segment_at(offsets: Any, row: int) -> int:
    """Return the segment that holds a row: the last that begins at it or before."""
    low, high = 0, offsets.size - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if offsets[middle] <= row:
            low = middle
        else:
            high = middle - 1
    return low
