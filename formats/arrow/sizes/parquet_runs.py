"""Total length of text in Parquet's encodings, without decoding the text.

https://parquet.apache.org/docs/file-format/data-pages/encodings/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from lodcli.kernels.index.checks import Array

_PART = 1 << 16  # numbers; a multiple of 8
_LENGTH = struct.Struct("<I")


def dictionary_lengths(body: bytes, words: int) -> Array:
    """Return the length of each word of a dictionary, (words,) int64; fewer if it is truncated."""
    found: list[int] = []
    at, last, length_at, add = 0, len(body) - 4, _LENGTH.unpack_from, found.append
    for _ in range(words):
        if at > last:
            break
        (length,) = length_at(body, at)
        add(length)
        at += 4 + length
    return np.array(found, np.int64)


def indexed_sum(body: bytes, lengths: Array, most: int) -> int:
    """Return the total length of the words that a page of indices refers to.

    Args:
        body: the bit width, then runs: RLE and bit-packed ones.
        lengths: of the words; an index beyond them counts as 0, because reading it fails.
        most: maximum number of values of the page; the rest is padding.
    """
    if not body:
        return 0
    width, at, total = body[0], 1, 0
    size = (width + 7) // 8
    words = lengths.tolist()
    while most > 0 and at < len(body):
        head = body[at]  # one byte, except for very long runs
        head, at = (head, at + 1) if head < 128 else _varint(body, at)
        if head & 1:
            count = min(8 * (head >> 1), most)
            for indices in _unpacked(body[at : at + width * (head >> 1)], width, count):
                total += int(lengths[indices[indices < lengths.size]].sum())
            at += width * (head >> 1)
        else:
            count = min(head >> 1, most)
            index = int.from_bytes(body[at : at + size], "little")
            total += count * words[index] if index < len(words) else 0
            at += size
        most -= count
    return total


def delta_sum(body: bytes) -> int:
    """Return the sum of the numbers at the beginning of `body`, encoded as DELTA_BINARY_PACKED."""
    block_size, at = _varint(body, 0)
    minis, at = _varint(body, at)
    left, at = _varint(body, at)
    value, at = _zigzag(body, at)
    if not minis or block_size % minis or block_size // minis % 8:
        return 0
    each, total, left = block_size // minis, value, left - 1
    while left > 0 and at < len(body):
        least, at = _zigzag(body, at)
        widths, at = body[at : at + minis], at + minis
        for width in widths:
            if left <= 0:
                break
            size = width * each // 8
            for deltas in _unpacked(body[at : at + size], width, min(each, left)):
                values = value + np.cumsum(deltas + least)
                total += int(values.sum())
                value = int(values[-1])
            at, left = at + size, left - each
    return total


def _unpacked(packed: bytes, width: int, count: int) -> Iterator[Array]:
    """Yield up to `count` numbers of `width` bits each, the lowest bit first, as int64, in parts.

    A few bytes may be any number of them, and each bit takes 8 bytes here.
    """
    if width > 62:
        return
    places = 1 << np.arange(width, dtype=np.int64)
    for start in range(0, count, _PART):
        many = min(_PART, count - start)
        first = start * width // 8
        part = np.frombuffer(packed, np.uint8)[first : first + (many * width + 7) // 8]
        bits = np.unpackbits(part, bitorder="little")
        many = min(many, bits.size // width) if width else many
        if not many:
            return
        yield bits[: many * width].reshape(many, width) @ places


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(body) and shift <= 63:
        byte = body[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(body, at)
    return (value >> 1) ^ -(value & 1), at
