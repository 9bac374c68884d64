"""Damage to Arrow IPC: one field of a table of its metadata, or the frame around a message.

The metadata are FlatBuffers. A table begins with the distance to its vtable, which has the position
of each field; a field of four bytes may be the distance to another table, a vector or a text.
Tables are found without a schema, by following every value that can be such a distance.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np

from tests.reliability.mutators.generic import Mutator, rearrange, with_integer

_MAGIC = b"ARROW1"
_MOST_TABLES = 400


def _messages(raw: bytes) -> list[tuple[int, int]]:
    """Return start and size of the metadata of each message, and of the footer."""
    at = 8 if raw.startswith(_MAGIC) else 0
    found = []
    while at + 8 <= len(raw) and raw[at : at + 4] == b"\xff\xff\xff\xff":
        (size,) = struct.unpack_from("<i", raw, at + 4)
        if size <= 0:
            break
        found.append((at + 8, size))
        at += 8 + size + _body(raw, at + 8)
        at += -at % 8
    if raw.endswith(_MAGIC):
        (size,) = struct.unpack_from("<i", raw, len(raw) - 10)
        found.append((len(raw) - 10 - size, size))
    return found


def _body(raw: bytes, start: int) -> int:
    """Return the length of the body: field 3 of the table Message."""
    table = start + struct.unpack_from("<I", raw, start)[0]
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    if struct.unpack_from("<H", raw, vtable)[0] < 12:
        return 0
    (offset,) = struct.unpack_from("<H", raw, vtable + 10)
    return int(struct.unpack_from("<q", raw, table + offset)[0]) if offset else 0


def _fields(raw: bytes, start: int, size: int) -> list[tuple[int, int]]:
    """Return position and width of the fields of all tables, vectors and vtables."""
    end = start + size
    found: list[tuple[int, int]] = [(start, 4)]
    waiting, seen = [start + struct.unpack_from("<I", raw, start)[0]], set[int]()
    while waiting and len(seen) < _MOST_TABLES:
        table = waiting.pop()
        if table in seen or not start <= table <= end - 4:
            continue
        seen.add(table)
        vtable = table - struct.unpack_from("<i", raw, table)[0]
        if not start <= vtable <= end - 4:
            waiting += _vector(raw, table, end, found)
            continue
        count, extent = struct.unpack_from("<HH", raw, vtable)
        offsets = [
            struct.unpack_from("<H", raw, at)[0]
            for at in range(vtable + 4, min(vtable + count, end - 1), 2)
        ]
        ends = sorted({*filter(None, offsets), extent})
        if not 4 <= count <= 64 or any(offset > extent for offset in offsets):
            waiting += _vector(raw, table, end, found)
            continue
        found += [(table, 4), (vtable, 2), (vtable + 2, 2)]
        for number, offset in enumerate(offsets):
            if not offset or table + offset >= end:
                continue
            width = min([one for one in ends if one > offset] or [offset + 1]) - offset
            width = 8 if width >= 8 else 4 if width >= 4 else 2 if width >= 2 else 1
            found += [(table + offset, width), (vtable + 4 + 2 * number, 2)]
            if width >= 4 and table + offset + 4 <= end:
                waiting.append(table + offset + struct.unpack_from("<I", raw, table + offset)[0])
    return [one for one in found if one[0] + one[1] <= end]


def _vector(raw: bytes, at: int, end: int, found: list[tuple[int, int]]) -> list[int]:
    """Note the fields of a vector; return where its elements may lead."""
    (count,) = struct.unpack_from("<I", raw, at)
    found.append((at, 4))
    if not 0 < count <= 64:
        return []
    found += [(place, 8) for place in range(at + 4, min(at + 4 + 24 * count, end - 8), 8)]
    return [
        place + struct.unpack_from("<I", raw, place)[0]
        for place in range(at + 4, min(at + 4 + 4 * count, end - 3), 4)
    ]


def change_a_metadata_field(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one field of one table."""
    messages = _messages(raw)
    if not messages:
        return raw
    fields = _fields(raw, *messages[int(rng.integers(len(messages)))])
    position, width = fields[int(rng.integers(len(fields)))]
    return with_integer(raw, position, width, rng)


def change_a_frame(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change the length before a message, or what marks it; or the length of the footer."""
    places = [(start - 8, 4) for start, _ in _messages(raw)]
    places += [(start - 4, 4) for start, _ in _messages(raw)]
    if raw.endswith(_MAGIC):
        places += [(len(raw) - 10, 4)] * 2
    position, width = places[int(rng.integers(len(places)))]
    return with_integer(raw, max(0, position), width, rng)


def rearrange_messages(raw: bytes, rng: np.random.Generator) -> bytes:
    """Lose, double or swap whole messages."""
    starts = [start - 8 for start, _ in _messages(raw)]
    if raw.endswith(_MAGIC):
        starts[-1] += 8
    bounds = [*starts, len(raw)]
    parts = [raw[at:stop] for at, stop in pairwise(bounds)]
    rearrange(parts, rng)
    return raw[: starts[0]] + b"".join(parts)


ARROW: tuple[Mutator, ...] = (
    *(change_a_metadata_field, change_a_metadata_field, change_a_metadata_field),
    *(change_a_frame, rearrange_messages),
)
