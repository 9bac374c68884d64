"""Parses protocol buffers: the fields of many messages at once, with NumPy.

All messages advance together, one field per round. The last few messages are parsed one by one, so
that one message with very many fields does not need a round for each.

References:
    https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.forms import ranges

Bytes = npt.NDArray[np.uint8]
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_VARINT_BYTES = 10
# Zeros after a buffer, so that a varint at its end is read without a bounds check.
PADDING = 16
_FEW = 24
# For parts of this average length, slices cost less than an index for each byte.
_LONG_BYTES = 64


@dataclass(frozen=True)
class Spans:
    """Parts of a buffer, in order.

    Attributes:
        buffer: (B,) uint8, PADDING zeros at its end.
        owner: (F,) int64, number of the message or record of each part; never decreasing.
        begin, end: (F,) int64, range of each part.
    """

    buffer: Bytes
    owner: Offsets
    begin: Offsets
    end: Offsets

    def taken(self, places: Array) -> Spans:
        """Return some of the parts, selected by indices or a mask."""
        return Spans(self.buffer, self.owner[places], self.begin[places], self.end[places])

    def numbered(self) -> Spans:
        """Return the parts with their own numbers as owners."""
        return Spans(self.buffer, np.arange(self.begin.size), self.begin, self.end)

    def counts(self, owners: int) -> Offsets:
        """Return the number of parts of each owner."""
        return np.bincount(self.owner, minlength=owners)

    @property
    def offsets(self) -> Offsets:
        """The offsets of the parts in `joined()`."""
        result = np.zeros(self.begin.size + 1, np.int64)
        np.cumsum(self.end - self.begin, out=result[1:])
        return result

    def joined(self) -> Bytes:
        """Return the parts one after another, copied."""
        offsets = self.offsets
        if offsets[-1] >= _LONG_BYTES * self.begin.size:
            raw = self.buffer.data
            cuts = zip(self.begin.tolist(), self.end.tolist(), strict=True)
            return np.frombuffer(b"".join([raw[low:high] for low, high in cuts]), np.uint8)
        return self.buffer[ranges(self.begin, offsets)]


class Fields(NamedTuple):
    """The fields of messages, in order.

    Attributes:
        spans: of the values; the owner is the number of the message.
        number: (F,) int64, of each field.
        wire: (F,) uint8, its wire type.
    """

    spans: Spans
    number: Offsets
    wire: Bytes

    def of(self, number: int, what: str) -> Spans:
        """Return the fields with this number, which are messages, text or bytes.

        Raises:
            DamagedFileError: one has another wire type.
        """
        found = self.number == number
        if (self.wire[found] != BYTES).any():
            raise DamagedFileError(f"{what}: field {number} has another wire type than bytes")
        return self.spans.taken(found)


def fields(messages: Spans, what: str) -> Fields:
    """Return the fields of messages.

    Raises:
        DamagedFileError: a field exceeds its message, or has an unknown wire type.
    """
    buffer, stop = messages.buffer, messages.end
    place = messages.begin.copy()
    live = np.flatnonzero(place < stop)
    rounds: list[tuple[Array, ...]] = []
    while live.size > _FEW:
        tag, at = _varints(buffer, place[live], what)
        wire = (tag & 7).astype(np.uint8)
        begin, end = at, at.copy()
        for kind, size in ((FIXED64, 8), (FIXED32, 4)):
            end[wire == kind] += size
        for kind in (VARINT, BYTES):
            some = np.flatnonzero(wire == kind)
            if some.size:
                value, after = _varints(buffer, at[some], what)
                end[some] = after
                if kind == BYTES:
                    begin = begin.copy() if begin is at else begin
                    begin[some] = after
                    # Clipped, so that the sum does not overflow: it is too long in any case.
                    end[some] += np.minimum(value, 2**62).astype(np.int64)
        known = (wire == VARINT) | (wire == FIXED64) | (wire == BYTES) | (wire == FIXED32)
        if not (known & (tag >> 3 > 0) & (end <= stop[live])).all():
            raise _broken(what)
        rounds.append((live, (tag >> 3).astype(np.int64), wire, begin, end))
        place[live] = end
        live = live[end < stop[live]]
    rest = [_rest(buffer, int(one), int(place[one]), int(stop[one]), what) for one in live]
    parts = [np.concatenate(column) for column in zip(*rounds, *rest, strict=True)]
    if not parts:
        none = np.zeros(0, np.int64)
        return Fields(Spans(buffer, none, none, none), none, none.astype(np.uint8))
    owner, number, wire, begin, end = parts
    order = np.argsort(owner, kind="stable")
    spans = Spans(buffer, messages.owner[owner[order]], begin[order], end[order])
    return Fields(spans, number[order], wire[order])


def _varints(buffer: Bytes, at: Offsets, what: str) -> tuple[Array, Offsets]:
    """Return the numbers (uint64) at these positions, and the positions after them."""
    byte = buffer[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    open_ = np.flatnonzero(byte & 0x80)
    shift = 7
    while open_.size:
        if shift == 7 * MOST_VARINT_BYTES:
            raise _broken(what)
        byte = buffer[np.minimum(after[open_], buffer.size - 1)]
        value[open_] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
        after[open_] += 1
        open_ = open_[byte & 0x80 != 0]
        shift += 7
    return value, after


def _rest(buffer: Bytes, owner: int, place: int, stop: int, what: str) -> tuple[Array, ...]:
    """Return the fields of one message, one by one."""
    raw = buffer.data
    numbers, wires, begins, ends = [], [], [], []
    while place < stop:
        tag, place = _varint(raw, place, stop, what)
        wire, begin = tag & 7, place
        if wire == VARINT:
            _, place = _varint(raw, place, stop, what)
        elif wire == BYTES:
            length, begin = _varint(raw, place, stop, what)
            place = begin + length
        elif wire in (FIXED64, FIXED32):
            place += 8 if wire == FIXED64 else 4
        else:
            raise _broken(what)
        if place > stop or tag >> 3 == 0:
            raise _broken(what)
        numbers.append(tag >> 3)
        wires.append(wire)
        begins.append(begin)
        ends.append(place)
    owners = np.full(len(numbers), owner)
    found = (np.array(column, np.int64) for column in (numbers, begins, ends))
    number, begins_, ends_ = found
    return owners, number, np.array(wires, np.uint8), begins_, ends_


def _varint(raw: memoryview, place: int, stop: int, what: str) -> tuple[int, int]:
    value = 0
    for count in range(MOST_VARINT_BYTES):
        if place >= stop:
            break
        byte = raw[place]
        place += 1
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place
    raise _broken(what)


def packed_varints(parts: Spans, what: str) -> tuple[Array, Offsets]:
    """Return the numbers (int64) in parts that hold only varints, and the count of each part."""
    data, offsets = parts.joined(), parts.offsets
    filled = offsets[1:] > offsets[:-1]
    if (data[offsets[1:][filled] - 1] & 0x80).any():
        raise _broken(what)
    if not (data & 0x80).any():
        return data.astype(np.int64), np.diff(offsets)
    last = np.flatnonzero(data < 0x80)
    first = np.concatenate([[0], last[:-1] + 1])
    sizes = last + 1 - first
    longest = int(sizes.max())
    if longest > MOST_VARINT_BYTES:
        raise _broken(what)
    value = (data[first] & 0x7F).astype(np.uint64)
    some = np.arange(first.size)
    for more in range(1, longest):
        some = some[sizes[some] > more]
        byte = data[first[some] + more] & np.uint8(0x7F)
        value[some] |= byte.astype(np.uint64) << np.uint64(7 * more)
    return value.view(np.int64), np.diff(np.searchsorted(last, offsets))


def _broken(what: str) -> DamagedFileError:
    return DamagedFileError(f"{what}: is not a protocol buffer of this kind")


# -- writing -----------------------------------------------------------------------


def varint(number: int) -> bytes:
    """Return a number, 0 or more, as a varint.

    >>> varint(1), varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    if number < 0x80:
        return _ONE_BYTE[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def packed(numbers: Array) -> tuple[Bytes, Offsets]:
    """Return integers as varints, and their offsets."""
    left = numbers.astype(np.int64, copy=False).view(np.uint64)
    sizes = np.ones(left.size, np.int64)
    for bits in range(7, 64, 7):
        more = left >> np.uint64(bits) != 0
        if not more.any():
            break
        sizes += more
    offsets = np.zeros(left.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    some = np.arange(left.size)
    for place in range(int(sizes.max(initial=0))):
        some = some[sizes[some] > place]
        byte = (left[some] >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        data[offsets[some] + place] = byte | ((sizes[some] > place + 1) << 7).astype(np.uint8)
    return data, offsets
