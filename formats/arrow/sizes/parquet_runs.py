"""Total length of text in Parquet's encodings, without decoding the text.

https://parquet.apache.org/docs/file-format/data-pages/encodings/
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array


def dictionary_lengths(body: bytes, words: int) -> Array:
    """Return the length of each word of a dictionary, (words,) int64; fewer if it is truncated."""
    found: list[int] = []
    at = 0
    while len(found) < words and at + 4 <= len(body):
        length = int.from_bytes(body[at : at + 4], "little")
        found.append(length)
        at += 4 + length
    return np.array(found, np.int64)


def indexed_sum(body: bytes, lengths: Array, most: int) -> int:
    """Return the total length of the words that a page of indices refers to.

    Args:
        body: the bit width, then runs: RLE and bit-packed ones.
        lengths: of the words; an index beyond them counts as 0, because reading it fails.
        most: maximum number of values of the page; what follows is padding.
    """
    if not body:
        return 0
    width, at, total = body[0], 1, 0
    while most > 0 and at < len(body):
        head, at = _varint(body, at)
        if head & 1:
            count = min(8 * (head >> 1), most)
            size = width * (head >> 1)
            indices = _unpacked(body[at : at + size], width)[:count]
            total += int(lengths[indices[indices < lengths.size]].sum())
            at += size
        else:
            count = min(head >> 1, most)
            size = (width + 7) // 8
            index = int.from_bytes(body[at : at + size], "little")
            total += count * int(lengths[index]) if index < lengths.size else 0
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
            deltas = _unpacked(body[at : at + size], width, each)[: min(each, left)]
            values = value + np.cumsum(deltas + least)
            total += int(values.sum())
            value = int(values[-1]) if values.size else value
            at, left = at + size, left - each
    return total


def _unpacked(packed: bytes, width: int, count: int | None = None) -> Array:
    """Return numbers of `width` bits each, the lowest bit first, as int64."""
    if not width:
        return np.zeros(count or 0, np.int64)
    if width > 62:
        return np.zeros(0, np.int64)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    whole = bits[: bits.size // width * width].reshape(-1, width)
    return whole @ (1 << np.arange(width, dtype=np.int64))


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
