"""Damage to text: one token replaced by a difficult one, or lines moved."""

from __future__ import annotations

import re

import numpy as np

from tests.reliability.mutators.generic import Mutator
from tests.reliability.mutators.json_values import change_a_line

_TOKEN = re.compile(rb"[+-]?[0-9.eE+-]+|[A-Za-z_]+|[^\sA-Za-z0-9]|\s")
TOKENS = (
    *(b"0", b"-0", b"1", b"00", b"-1", b"+1", b"1.", b".5", b"1e5", b"1e400", b"-1e-400", b"1_0"),
    *(b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"9" * 400),
    *(b"0x10", b"nan", b"NaN", b"inf", b"-Infinity", b"null", b"true", b"1.5.2", b"1e", b"--1"),
    *(b'"', b'""', b"'", b",", b",,", b"[", b"]", b"{", b"}", b":", b";", b"\\", b"\\u0000", b"#"),
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\t",
        b" ",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xc3",
        b"@data",
    ),
    *("größe".encode(), "\u2028".encode(), "\u0661".encode(), b"\x1b[2J", b"[" * 3000, b'"a\nb"'),
)


def change_a_token(raw: bytes, rng: np.random.Generator) -> bytes:
    """Replace a number, a word, a mark or a blank; or put something before it."""
    found = list(_TOKEN.finditer(raw))
    if not found:
        return raw
    one = found[int(rng.integers(len(found)))]
    put = TOKENS[int(rng.integers(len(TOKENS)))]
    if rng.random() < 0.2:
        other = found[int(rng.integers(len(found)))]
        put = other[0]
    stop = one.start() if rng.random() < 0.3 else one.end()
    return raw[: one.start()] + put + raw[stop:]


def change_a_digit(raw: bytes, rng: np.random.Generator) -> bytes:
    """Replace one digit by another, which no reader without checksums can detect."""
    places = [at for at, byte in enumerate(raw) if 48 <= byte <= 57]
    if not places:
        return raw
    at = places[int(rng.integers(len(places)))]
    return raw[:at] + bytes([48 + int(rng.integers(10))]) + raw[at + 1 :]


def rearrange_lines(raw: bytes, rng: np.random.Generator) -> bytes:
    """Lose, double, swap or join lines, or cut one short."""
    lines = raw.split(b"\n")
    at, other = (int(rng.integers(len(lines))) for _ in range(2))
    kind = int(rng.integers(5))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    else:
        lines[at] = lines[at][: int(rng.integers(len(lines[at]) + 1))]
    return b"\n".join(lines)


TEXT: tuple[Mutator, ...] = (change_a_token, change_a_token, change_a_digit, rearrange_lines)
JSON_LINES: tuple[Mutator, ...] = (*TEXT, change_a_line, change_a_line)
