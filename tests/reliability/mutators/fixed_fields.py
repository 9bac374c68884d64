"""Damage to formats whose integers stand at fixed places, or behind each other: one field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tests.reliability.mutators.generic import Mutator, extreme, rearrange, with_integer
from tests.reliability.mutators.json_values import edited

Field = tuple[int, int]  # position and width


def field_changer(fields: object, name: str) -> Mutator:
    """Return a mutator that changes one of the fields that a function finds in a file."""

    def change_a_field(raw: bytes, rng: np.random.Generator) -> bytes:
        found = [one for one in fields(raw) if one[0] + one[1] <= len(raw)]  # type: ignore[operator]
        if not found:
            return raw
        position, width = found[int(rng.integers(len(found)))]
        return with_integer(raw, position, width, rng)

    change_a_field.__name__ = name
    return change_a_field


def _paddle(raw: bytes) -> Iterator[Field]:
    at = 0
    while at + 12 <= len(raw):
        yield from ((at, 4), (at + 4, 8))
        levels = struct.unpack_from("<Q", raw, at + 4)[0]
        at += 12
        for _ in range(levels):
            yield at, 8
            size = struct.unpack_from("<Q", raw, at)[0]
            yield from ((at + 8 + place, 8) for place in range(0, size, 8))
            at += 8 + size
        yield from ((at, 4), (at + 4, 4))
        size = struct.unpack_from("<i", raw, at + 4)[0]
        yield from ((at + 8 + place, 1) for place in range(size))
        code, dims = _descriptor(raw[at + 8 : at + 8 + size])
        width = {0: 1, 1: 2, 2: 4, 3: 8, 4: 2, 5: 4, 6: 8, 20: 1, 21: 1, 22: 2, 23: 8, 24: 16}
        at += 8 + size + width.get(code, 1) * int(np.prod(dims or [1], dtype=object))


def _descriptor(raw: bytes) -> tuple[int, list[int]]:
    """Return data type and extents of a descriptor that our writer, or Paddle, made."""
    numbers, value, shift = list[int](), 0, 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    code, dims, at = numbers[1], list[int](), 2
    while at + 1 < len(numbers):
        if numbers[at] == 0x10:
            dims.append(numbers[at + 1])
            at += 2
        else:  # all of them, packed
            dims += numbers[at + 2 :]
            break
    return code, dims


def _megatron(raw: bytes) -> Iterator[Field]:
    """Magic 9, version 8, code 1, sequences 8, documents 8, then the arrays."""
    yield from ((0, 8), (9, 8), (17, 1), (17, 1), (18, 8), (18, 8), (26, 8), (26, 8))
    sequences, documents = struct.unpack_from("<QQ", raw, 18)
    at = 34
    for count, width in ((sequences, 4), (sequences, 8), (documents, 8), (sequences, 1)):
        for _ in range(count):
            if at + width <= len(raw):
                yield at, width
            at += width


def _llmc(raw: bytes) -> Iterator[Field]:
    yield from ((at, 4) for at in (0, 4, 8, 8, 12, 1020))
    yield 8, 8


def _mds(raw: bytes) -> Iterator[Field]:
    """Count of samples, their bounds, and in each sample the sizes of its columns."""
    (count,) = struct.unpack_from("<I", raw, 0)
    yield 0, 4
    yield from ((4 + 4 * at, 4) for at in range(count + 1))
    for at in range(count):
        (start,) = struct.unpack_from("<I", raw, 4 + 4 * at)
        yield from ((start + 4 * place, 4) for place in range(6))


def change_the_header_of_safetensors(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of the JSON header; the length before it is right."""
    (size,) = struct.unpack_from("<Q", raw, 0)
    text = edited(raw[8 : 8 + size], rng, separators=(",", ":"))
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + raw[8 + size :]


def _safetensors(raw: bytes) -> Iterator[Field]:
    yield 0, 8


# -- tar -----------------------------------------------------------------------------

_TAR_FIELDS = ((0, 100), (100, 8), (124, 12), (124, 12), (136, 12), (156, 1), (257, 8), (345, 155))


def _tar_headers(raw: bytes) -> list[int]:
    found, at = [], 0
    while at + 512 <= len(raw) and raw[at]:
        found.append(at)
        size = int(raw[at + 124 : at + 135].strip(b" \0") or b"0", 8)
        at += 512 + size + -size % 512
    return found


def change_a_tar_header(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one field of a header, its checksum right."""
    headers = _tar_headers(raw)
    at = headers[int(rng.integers(len(headers)))]
    head = bytearray(raw[at : at + 512])
    start, width = _TAR_FIELDS[int(rng.integers(len(_TAR_FIELDS)))]
    if start == 124 and rng.random() < 0.7:
        size = int(head[124:135].strip(b" \0") or b"0", 8)
        put = extreme(size, 8, rng, len(raw))
        text = b"%011o\0" % put
        if len(text) > 12 or rng.random() < 0.2:
            text = b"\x80" + put.to_bytes(11, "big")
        head[124:136] = text
    elif start == 156:
        head[156:157] = (b"0", b"\0", b"1", b"2", b"5", b"x", b"g", b"L", b"K", b"S", b"7")[
            int(rng.integers(11))
        ]
    else:
        place = start + int(rng.integers(min(width, 24)))
        head[place] = int(rng.choice([0, 46, 47, 48, 255, int(rng.integers(256))]))
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return raw[:at] + bytes(head) + raw[at + 512 :]


def rearrange_tar_members(raw: bytes, rng: np.random.Generator) -> bytes:
    """Lose, double or swap members."""
    headers = [*_tar_headers(raw), len(raw)]
    parts = [raw[at:stop] for at, stop in pairwise(headers)]
    end = parts[-1][-1024:]
    parts[-1] = parts[-1][:-1024]
    rearrange(parts, rng)
    return b"".join(parts) + end


PADDLE: tuple[Mutator, ...] = (field_changer(_paddle, "change_a_paddle_field"),)
MEGATRON: tuple[Mutator, ...] = (field_changer(_megatron, "change_a_megatron_field"),)
LLMC: tuple[Mutator, ...] = (field_changer(_llmc, "change_an_llmc_field"),)
MDS: tuple[Mutator, ...] = (field_changer(_mds, "change_an_mds_field"),)
SAFETENSORS: tuple[Mutator, ...] = (
    *(change_the_header_of_safetensors, change_the_header_of_safetensors),
    field_changer(_safetensors, "change_the_length_of_the_header"),
)
TAR: tuple[Mutator, ...] = (change_a_tar_header, change_a_tar_header, rearrange_tar_members)
