"""Texts in order of their bytes, eight bytes of many texts at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths

# Bytes that are compared at a time; number of texts whose arrays fit into a cache; and number of
# texts up to which they are compared one by one.
_WORD, _BLOCK, _FEW = 8, 1 << 15, 500
# Masks of the first n bytes of a word.
_MASKS = np.array([2**64 - 2 ** (64 - 8 * n) for n in range(_WORD + 1)], np.uint64)


class Texts(NamedTuple):
    """Texts in one array of bytes.

    Attributes:
        data: (N,) uint8, at least eight.
        starts: (K,) int64, the first byte of each text.
        lengths: (K,) int64, of the texts in bytes.
    """

    data: Array
    starts: Offsets
    lengths: Offsets

    @classmethod
    def of(cls, data: Array, offsets: Offsets) -> Texts:
        """Return the texts of a tensor.

        Args:
            data: (N,) uint8.
            offsets: (K + 1,).

        >>> texts = Texts.of(np.frombuffer(b"onetwo", np.uint8), np.array([0, 3, 6]))
        >>> texts.starts.tolist(), texts.lengths.tolist()
        ([0, 3], [3, 3])
        """
        if data.size < _WORD:
            data = np.append(data, np.zeros(_WORD, np.uint8))
        return cls(np.ascontiguousarray(data), offsets[:-1], offsets_to_lengths(offsets))

    @classmethod
    def of_words(cls, words: list[str]) -> Texts:
        """Return words as texts."""
        contents = [word.encode() for word in words]
        offsets = np.cumsum([0, *map(len, contents)])
        return cls.of(np.frombuffer(b"".join(contents), np.uint8), offsets)

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """Return the texts of all parts, one after another."""
        if len(parts) == 1:
            return parts[0]
        begins = np.cumsum([0, *(part.data.size for part in parts[:-1])])
        return cls(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.starts + at for part, at in zip(parts, begins, strict=True)]),
            np.concatenate([part.lengths for part in parts]),
        )

    def taken(self, numbers: Array | slice) -> Texts:
        """Return the texts with these numbers, (M,), or in a range; no bytes are copied."""
        return Texts(self.data, self.starts[numbers], self.lengths[numbers])

    def after(self, position: int) -> Texts:
        """Return each text from a position on; no text may be shorter than `position` bytes."""
        return Texts(self.data, self.starts + position, self.lengths - position)

    def words(self, position: int) -> Array:
        """Return eight bytes of each text as numbers that sort like them, (K,) uint64.

        Bytes after the end of a text are zeros.

        Args:
            position: position of the first byte; no text may be shorter.
        """
        last = self.data.size - _WORD
        every = np.ndarray((last + 1,), ">u8", self.data, strides=(1,))
        places = self.starts + position
        inside = np.minimum(places, last)
        found = every[inside].astype(np.uint64)
        beyond = (places - inside).view(np.uint64)
        if beyond.any():
            found <<= beyond * np.uint64(8)
        found &= _MASKS[np.minimum(self.lengths - position, _WORD)]
        return found

    def bytes_of(self, number: int) -> bytes:
        """Return the bytes of one text."""
        start = self.starts.item(number)
        return self.data[start : start + self.lengths.item(number)].tobytes()


def text_order(one: Texts, other: Texts, *, equality: bool = False) -> Array:
    """Return -1, 0 or 1 for texts before, equal to or after others by their bytes, (K,) int8.

    Args:
        one: K texts.
        other: the texts to compare with, K texts or a single one.
        equality: whether the caller only tests for zeros: other results may have any sign.

    >>> texts = Texts.of_words(["b", "a", "bb"])
    >>> text_order(texts, Texts.of_words(["b"])).tolist()
    [0, -1, 1]
    """
    order = np.empty(one.lengths.size, np.int8)
    single = other.lengths.size == 1
    for first in range(0, order.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        beside = other if single else other.taken(block)
        order[block] = _block_order(one.taken(block), beside, equality=equality)
    return order


def _block_order(one: Texts, other: Texts, *, equality: bool) -> Array:
    order: Array = np.sign(one.lengths - other.lengths).astype(np.int8)
    shorter = np.minimum(one.lengths, other.lengths)
    # Pairs of texts that are equal so far.
    pairs = np.flatnonzero(order == 0 if equality else shorter)
    position, single = 0, other.lengths.size == 1
    while pairs.size > _FEW:
        a = one.taken(pairs).words(position)
        b = (other if single else other.taken(pairs)).words(position)
        differ = np.flatnonzero(a != b)
        order[pairs[differ]] = np.where(a > b, 1, -1)[differ]
        position += _WORD
        pairs = pairs[(a == b) & (shorter[pairs] > position)]
    for pair in pairs.tolist():
        left, right = one.bytes_of(pair), other.bytes_of(0 if single else pair)
        order[pair] = (left > right) - (left < right)
    return order
