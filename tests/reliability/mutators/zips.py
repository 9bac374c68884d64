"""Damage to zip archives: members changed with sizes and CRC-32 made right, and single fields."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator, extreme, with_integer

_LOCAL, _ENTRY, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
# Where the integers of each header are, and how wide they are.
LOCAL_FIELDS = (
    (4, 2),
    (6, 2),
    (8, 2),
    (10, 2),
    (12, 2),
    (14, 4),
    (18, 4),
    (22, 4),
    (26, 2),
    (28, 2),
)
ENTRY_FIELDS = (
    *((4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 2), (16, 4), (20, 4), (24, 4)),
    *((28, 2), (30, 2), (32, 2), (34, 2), (36, 2), (38, 4), (42, 4)),
)
END_FIELDS = ((4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2))


@dataclass(frozen=True)
class Member:
    """A member of an archive, unpacked. `method` is 0 (stored) or 8 (deflated)."""

    name: bytes
    data: bytes
    method: int
    extra: bytes = b""


def members(raw: bytes) -> list[Member]:
    """Return the members of a sound archive, by its directory."""
    found = []
    end = raw.rindex(_END)
    count, _, at = struct.unpack_from("<HII", raw, end + 10)
    for _ in range(count):
        method, size = struct.unpack_from("<H", raw, at + 10)[0], 0
        size = struct.unpack_from("<I", raw, at + 20)[0]
        name, extra, comment = struct.unpack_from("<HHH", raw, at + 28)
        start = struct.unpack_from("<I", raw, at + 42)[0]
        local_name, local_extra = struct.unpack_from("<HH", raw, start + 26)
        begin = start + 30 + local_name + local_extra
        if size == 2**32 - 1:
            size = struct.unpack_from("<Q", raw, begin - local_extra + 12)[0]
        packed = raw[begin : begin + size]
        data = zlib.decompress(packed, -15) if method == 8 else packed
        kept = raw[begin - local_extra : begin]
        found.append(Member(raw[at + 46 : at + 46 + name], data, method, kept))
        at += 46 + name + extra + comment
    return found


def archive(parts: list[Member]) -> bytes:
    """Return an archive of these members, every size and checksum right."""
    body, directory = b"", b""
    for part in parts:
        packed = part.data
        if part.method == 8:
            packer = zlib.compressobj(6, wbits=-15)
            packed = packer.compress(part.data) + packer.flush()
        told = struct.pack("<III", zlib.crc32(part.data), len(packed), len(part.data))
        start = len(body)
        extra = b"" if part.extra[:2] == b"\1\0" else part.extra
        common = struct.pack("<HHHHH", 20, 0, part.method, 0, 33) + told
        body += _LOCAL + common + struct.pack("<HH", len(part.name), len(extra))
        body += part.name + extra + packed
        directory += _ENTRY + struct.pack("<H", 20) + common
        directory += struct.pack("<HHHHHII", len(part.name), 0, 0, 0, 0, 0, start) + part.name
    end = struct.pack("<HHHHIIH", 0, 0, len(parts), len(parts), len(directory), len(body), 0)
    return body + directory + _END + end


def member_changer(inner: Callable[[bytes], tuple[Mutator, ...]]) -> Mutator:
    """Return a mutator that damages one member, and makes the archive right around it.

    Args:
        inner: gives the mutators for a member of this name; none for those of any bytes.
    """

    def change_a_member(raw: bytes, rng: np.random.Generator) -> bytes:
        parts = members(raw)
        at = int(rng.integers(len(parts)))
        known = inner(parts[at].name)
        kinds = known if known and rng.random() < 0.75 else ANY
        data = parts[at].data or b"\0"
        parts[at] = replace(parts[at], data=kinds[int(rng.integers(len(kinds)))](data, rng))
        return archive(parts)

    return change_a_member


def rearrange_members(raw: bytes, rng: np.random.Generator) -> bytes:
    """Lose, double, rename, swap or repack members; the archive is sound."""
    parts = members(raw)
    at, other = (int(rng.integers(len(parts))) for _ in range(2))
    kind, one = int(rng.integers(6)), parts[at]
    if kind == 0:
        del parts[at]
    elif kind == 1:
        parts.insert(other, one)
    elif kind == 2:
        parts[at] = replace(one, name=parts[other].name)
    elif kind == 3:
        place = int(rng.integers(len(one.name) + 1))
        put = (b"0", b"/", b"../", b".npy", b"\0", b"\xff")[int(rng.integers(6))]
        parts[at] = replace(one, name=one.name[:place] + put + one.name[place:])
    elif kind == 4:
        parts[at], parts[other] = (
            replace(one, data=parts[other].data),
            replace(parts[other], data=one.data),
        )
    else:
        parts[at] = replace(one, method=8 - one.method)
    return archive(parts)


def change_a_header_field(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one field of a local header, of the directory or of its end; nothing is repaired."""
    places = []
    for mark, fields in ((_LOCAL, LOCAL_FIELDS), (_ENTRY, ENTRY_FIELDS), (_END, END_FIELDS)):
        at = raw.find(mark)
        while at >= 0:
            places += [(at + offset, width) for offset, width in fields]
            at = raw.find(mark, at + 1)
    position, width = places[int(rng.integers(len(places)))]
    if rng.random() < 0.3:  # one bit
        changed = bytearray(raw)
        place = position + int(rng.integers(width))
        if place < len(changed):
            changed[place] ^= 1 << int(rng.integers(8))
        return bytes(changed)
    return with_integer(raw, position, width, rng)


def move_between_headers(raw: bytes, rng: np.random.Generator) -> bytes:
    """Insert or remove bytes between members, before the directory, or behind the end."""
    places = [0, len(raw), raw.rindex(_END)]
    at = raw.find(_LOCAL)
    while at >= 0:
        places.append(at)
        at = raw.find(_LOCAL, at + 1)
    places.append(raw.index(_ENTRY))
    position = places[int(rng.integers(len(places)))]
    if rng.random() < 0.3:
        return raw[:position] + raw[position + 1 :]
    size = extreme(0, 1, rng) % 70
    return raw[:position] + rng.bytes(size) + raw[position:]


FIELDS: tuple[Mutator, ...] = (change_a_header_field, change_a_header_field, move_between_headers)
