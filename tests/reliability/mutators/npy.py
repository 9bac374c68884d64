"""Damage to .npy arrays: one entry of the header, or one number."""

from __future__ import annotations

import re
import struct

import numpy as np

from tests.reliability.mutators.generic import Mutator, extreme, with_integer

DESCRIPTIONS: tuple[str, ...] = (
    "|b1",
    "|u1",
    "|i1",
    "<i4",
    "<i8",
    ">i8",
    "<f2",
    "<f4",
    ">f4",
    "<c8",
    "<c16",
    "|O",
)
DESCRIPTIONS += ("<U4", "|S3", "<M8[s]", "|V2", "<f16", "[('a', '<i4')]")


def _parts(raw: bytes) -> tuple[bytes, bytes]:
    """Return the text of the header and the array behind it."""
    size = struct.unpack_from("<H", raw, 8)[0]
    return raw[10 : 10 + size], raw[10 + size :]


def _joined(text: bytes, array: bytes) -> bytes:
    text = text.rstrip(b" \n")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text) & 0xFFFF) + text + array


def change_the_header(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change dtype, order or an extent; or the text itself."""
    text, array = _parts(raw)
    kind = int(rng.integers(5))
    if kind == 0:
        put = DESCRIPTIONS[int(rng.integers(len(DESCRIPTIONS)))]
        quoted = put if put.startswith("[") else f"'{put}'"
        text = re.sub(rb"'descr': '[^']*'", f"'descr': {quoted}".encode(), text)
    elif kind == 1:
        text = text.replace(b"False", b"\0").replace(b"True", b"False").replace(b"\0", b"True")
    elif kind == 2:
        numbers = list(re.finditer(rb"[0-9]+(?=[,)])", text))
        if numbers:
            one = numbers[int(rng.integers(len(numbers)))]
            value = extreme(int(one[0]), 8, rng, len(array))
            text = text[: one.start()] + str(value).encode() + text[one.end() :]
    elif kind == 3:
        puts = (b"(2, ", b"(0, ", b"(1, 1, ", b"(-1, ", b"(", b"(1.5, ")
        text = text.replace(b"(", puts[int(rng.integers(len(puts)))], 1)
    else:
        at = int(rng.integers(len(text)))
        text = text[:at] + rng.bytes(1) + text[at + 1 :]
    return _joined(text, array)


def change_a_number(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one number of the array."""
    text, array = _parts(raw)
    width = int((re.search(rb"[0-9]+(?=')", text) or [b"8"])[0])
    if len(array) < width or not width:
        return raw
    at = int(rng.integers(len(array) // width)) * width
    return raw[: len(raw) - len(array)] + with_integer(array, at, min(width, 8), rng)


def change_the_length(raw: bytes, rng: np.random.Generator) -> bytes:
    """Add or remove rows without changing the header; or change the version."""
    if rng.random() < 0.3:
        return raw[:6] + bytes(rng.integers(0, 5, 2).tolist()) + raw[8:]
    if rng.random() < 0.5:
        return raw + rng.bytes(1 + int(rng.integers(16)))
    return raw[: -1 - int(rng.integers(16))]


NPY: tuple[Mutator, ...] = (change_the_header, change_a_number, change_the_length)
