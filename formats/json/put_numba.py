"""Kernel that writes rows and offsets as lines of JSON."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lodcli.formats.text.digits_numba import put
from lodcli.formats.text.strings_numba import put_json_text
from lodcli.formats.text.words_numba import byte_at, put_byte
from lodcli.kernels.native.declare import Pointer, T, U, kernel
from lodcli.kernels.native.language_numba import address

_COMMA, _OPEN, _CLOSE, _END = 44, 91, 93, 10


class Lists(NamedTuple):
    """Nested lists.

    Attributes:
        offsets: of all levels, concatenated; begins: (depth,), where those of each level begin.
        place, end: (depth,) scratch.
    """

    offsets: Pointer[np.int64]
    begins: Pointer[np.int64]
    depth: int
    place: Pointer[np.int64]
    end: Pointer[np.int64]


# Other integers are converted to one of these: put_native.py.
@kernel(
    types=(
        *(("float32", "uint32"), ("float64", "uint64"), ("bool", "uint8"), ("uint8", "uint8")),
        *(("int32", "uint32"), ("int64", "uint64"), ("uint64", "uint64")),
    )
)
def put_lines(
    values: Pointer[T], bits: Pointer[U], large: float, lists: Lists, item_from: int, item_to: int,
    out: int,
) -> int:  # fmt: skip
    """Write items to an address; return how many bytes they take.

    Args:
        bits: the values as unsigned numbers.
        large: floats from this on are written with an exponent.
    """
    depth, place, end = lists.depth, lists.place, lists.end
    at = out
    for item in range(item_from, item_to):
        level = 0
        child = item
        while depth > 0:
            put_byte(at, _OPEN)
            at += 1
            begin = lists.begins[level] + child
            place[level] = lists.offsets[begin]
            end[level] = lists.offsets[begin + 1]
            if level == depth - 1:
                for row in range(place[level], end[level]):
                    at = put(values[row], bits[row], large, at)
                    put_byte(at, _COMMA)
                    at += 1
                place[level] = end[level]
            while level >= 0 and place[level] == end[level]:
                if byte_at(at - 1) == _COMMA:
                    at -= 1
                put_byte(at, _CLOSE)
                put_byte(at + 1, _COMMA)
                at += 2
                level -= 1
            if level < 0:
                at -= 1  # drop the comma after the item
                break
            child = place[level]
            place[level] += 1
            level += 1
        if depth == 0:
            at = put(values[item], bits[item], large, at)
        put_byte(at, _END)
        at += 1
    return at - out


@kernel()
def put_texts(
    values: Pointer[np.uint8], lists: Lists, item_from: int, item_to: int, out: int
) -> int:
    """Write items whose innermost lists are text; return how many bytes they take.

    Args:
        values: UTF-8.
    """
    depth, place, end = lists.depth, lists.place, lists.end
    bytes_at = address(values)
    at = out
    for item in range(item_from, item_to):
        level = 0
        child = item
        while level >= 0:
            begin = lists.begins[level] + child
            if level == depth - 1:
                start, stop = lists.offsets[begin], lists.offsets[begin + 1]
                at = put_json_text(bytes_at + start, bytes_at + stop, at)
                put_byte(at, _COMMA)
                at += 1
                level -= 1
            else:
                put_byte(at, _OPEN)
                at += 1
                place[level] = lists.offsets[begin]
                end[level] = lists.offsets[begin + 1]
            while level >= 0 and place[level] == end[level]:
                if byte_at(at - 1) == _COMMA:
                    at -= 1
                put_byte(at, _CLOSE)
                put_byte(at + 1, _COMMA)
                at += 2
                level -= 1
            if level >= 0:
                child = place[level]
                place[level] += 1
                level += 1
        put_byte(at - 1, _END)  # overwrites the last comma
    return at - out
