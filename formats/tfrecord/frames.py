"""The frames of TFRecord: a length, the record, and a masked CRC32C of each.

References:
    https://www.tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details"
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from lodcli.formats.arrays import crc32c
from lodcli.formats.arrays.budget import ITEM_COPIES, require_fits
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.formats.tfrecord.messages import PADDING, Spans

_HEAD, _CRC = struct.Struct("<QI"), struct.Struct("<I")
HEAD_BYTES = _HEAD.size
_READ_BYTES = 1 << 20


class Records(NamedTuple):
    """Whole records of a file.

    Attributes:
        first: the number of the first one.
        spans: the position of each in memory.
    """

    first: int
    spans: Spans


def masked_crc(data: bytes) -> int:
    """Return the checksum of some bytes, as TFRecord stores it."""
    found = crc32c.value(data)
    return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF


def begins_record(head: bytes) -> bool:
    """Return whether these are the first bytes of a record."""
    if len(head) < HEAD_BYTES:
        return False
    return bool(masked_crc(head[:8]) == _HEAD.unpack_from(head)[1])


def framed(record: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the header of a record, the record, and its checksum."""
    length = len(record).to_bytes(8, "little")
    head = length + _CRC.pack(masked_crc(length))
    return head, record, _CRC.pack(masked_crc(record))


def records_of(file: BinaryIO, limit_bytes: int, bounds: Bounds) -> Iterator[Records]:
    """Yield the records of a file in order, about `limit_bytes` of them at a time.

    Raises:
        DamagedFileError: a checksum is wrong, or the file ends early; names record and byte.
    """
    number = position = 0
    waiting = b""
    while True:
        more = file.read(max(1, limit_bytes - len(waiting)))
        data = waiting + more if waiting else more
        if not data:
            return
        begins, ends, at = _whole(data, number, position)
        if begins:
            buffer = np.frombuffer(data + bytes(PADDING), np.uint8)
            begin, end = np.array(begins, np.int64), np.array(ends, np.int64)
            yield Records(number, Spans(buffer, np.arange(begin.size), begin, end))
            number += len(begins)
        position, waiting = position + at, data[at:]
        if not more:
            if waiting:
                raise DamagedFileError(f"is truncated: it ends within record {number}{FETCH_AGAIN}")
            return
        if not begins and len(waiting) >= HEAD_BYTES:
            waiting = _filled(file, waiting, number, bounds)


def _filled(file: BinaryIO, waiting: bytes, number: int, bounds: Bounds) -> bytes:
    """Return the bytes of a record that is larger than a batch, as far as the file has them."""
    size = HEAD_BYTES + _HEAD.unpack_from(waiting)[0] + _CRC.size
    bounds.check_block(size, "has a record of")
    require_fits(f"record {number}", size, ITEM_COPIES)
    parts, found = [waiting], len(waiting)
    # In parts: the file may be shorter than the declared length.
    while found < size and (part := file.read(min(_READ_BYTES, size - found))):
        parts.append(part)
        found += len(part)
    return b"".join(parts)


def _whole(data: bytes, number: int, position: int) -> tuple[list[int], list[int], int]:
    """Check the complete records in `data`; return their starts, their ends, and the last end."""
    begins: list[int] = []
    ends: list[int] = []
    at, size = 0, len(data)
    while at + HEAD_BYTES <= size:
        length, stored = _HEAD.unpack_from(data, at)
        if masked_crc(data[at : at + 8]) != stored:
            raise _wrong("length", number + len(begins), position + at)
        begin = at + HEAD_BYTES
        end = begin + length
        if end + 4 > size:
            break
        if masked_crc(data[begin:end]) != _CRC.unpack_from(data, end)[0]:
            raise _wrong("data", number + len(begins), position + at)
        begins.append(begin)
        ends.append(end)
        at = end + 4
    return begins, ends, at


def _wrong(what: str, number: int, position: int) -> DamagedFileError:
    return DamagedFileError(
        f"record {number} at byte {position}: the checksum of its {what} is wrong; the file is "
        f"damaged{FETCH_AGAIN}"
    )
