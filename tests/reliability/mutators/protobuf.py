"""Damage to protobuf messages, such as ONNX models: one value, all lengths around it right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator, extreme

# Number of a field, its wire type, and an int, bytes, or the fields of a message inside.
Field = list[Any]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError


def _parsed(raw: bytes, depth: int = 0) -> list[Field]:
    """Return the fields of a message. Bytes that can be a message are taken for one."""
    fields: list[Field] = []
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise IndexError
        if wire == 0:
            value, at = _varint(raw, at)
            fields.append([number, wire, value])
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if at + size > len(raw):
                raise IndexError
            fields.append([number, wire, raw[at : at + size]])
            at += size
        elif wire == 2:
            size, at = _varint(raw, at)
            if at + size > len(raw):
                raise IndexError
            fields.append([number, wire, _inner(raw[at : at + size], depth)])
            at += size
        else:
            raise IndexError
    return fields


def _inner(raw: bytes, depth: int) -> Any:
    if depth < 6 and len(raw) > 1:
        try:
            return _parsed(raw, depth + 1)
        except IndexError:
            pass
    return raw


def _number(value: int) -> bytes:
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*raw, value])


def _joined(fields: list[Field]) -> bytes:
    raw = b""
    for number, wire, value in fields:
        raw += _number(number << 3 | wire)
        if wire == 0:
            raw += _number(value)
        else:
            content = _joined(value) if isinstance(value, list) else value
            raw += _number(len(content)) + content if wire == 2 else content
    return raw


def _messages(fields: list[Field]) -> Iterator[list[Field]]:
    yield fields
    for _, _, value in fields:
        if isinstance(value, list):
            yield from _messages(value)


def change_a_field(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of a message, or lose, double, swap or renumber fields."""
    root = _parsed(raw)
    messages = [one for one in _messages(root) if one]
    fields = messages[int(rng.integers(len(messages)))]
    at, other = (int(rng.integers(len(fields))) for _ in range(2))
    field = fields[at]
    kind = int(rng.integers(8))
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields.insert(other, list(field))
    elif kind == 2:
        fields[at], fields[other] = fields[other], field
    elif kind == 3:
        field[0] = max(1, field[0] + int(rng.choice([-1, 1, 2])))
    elif field[1] == 0:
        field[2] = extreme(field[2], int(rng.choice([1, 4, 8])), rng, len(raw))
    elif isinstance(field[2], list):
        field[2] = ANY[int(rng.integers(len(ANY)))](_joined(field[2]) or b"\0", rng)
    elif field[2]:
        size = len(field[2])
        field[2] = ANY[int(rng.integers(len(ANY)))](field[2], rng)
        if field[1] != 2:
            field[2] = field[2][:size].ljust(size, b"\0")
    return _joined(root)


PROTOBUF: tuple[Mutator, ...] = (change_a_field,)
