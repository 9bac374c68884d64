"""Damage to Parquet: one field of the footer or of a page header, its length and CRC-32 right.

Both are Thrift structs in the compact protocol, which includes the types of all fields, so they are
parsed and serialized without a schema.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.reliability.mutators.generic import Mutator, extreme, rearrange

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_INTEGERS = (I16, I32, I64)


class Node:
    """A value: its type, and an int, bytes, (type, nodes) of a list, or fields of a struct."""

    def __init__(self, kind: int, value: Any) -> None:
        self.kind = kind
        self.value = value


class _Reader:
    def __init__(self, raw: bytes, at: int = 0) -> None:
        self.raw, self.at = raw, at

    def byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind: int) -> Node:
        if kind in (TRUE, FALSE):
            return Node(TRUE, kind == TRUE)
        if kind == BYTE:
            return Node(kind, self.byte())
        if kind in _INTEGERS:
            return Node(kind, self.zigzag())
        if kind == DOUBLE:
            self.at += 8
            return Node(kind, self.raw[self.at - 8 : self.at])
        if kind == BINARY:
            size = self.varint()
            self.at += size
            return Node(kind, self.raw[self.at - size : self.at])
        if kind in (LIST, SET):
            head = self.byte()
            count, inner = head >> 4, head & 15
            count = self.varint() if count == 15 else count
            if inner in (TRUE, FALSE):
                return Node(kind, (inner, [Node(BYTE, self.byte()) for _ in range(count)]))
            return Node(kind, (inner, [self.value(inner) for _ in range(count)]))
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"type {kind}")

    def struct(self) -> Node:
        fields: list[tuple[int, Node]] = []
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields.append((number, self.value(head & 15)))
        return Node(STRUCT, fields)


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*raw, value])


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (-1 if value < 0 else 0))


def _put(node: Node) -> bytes:
    if node.kind == BYTE:
        return bytes([node.value & 255])
    if node.kind in _INTEGERS:
        return _zigzag(node.value)
    if node.kind == DOUBLE:
        return bytes(node.value)
    if node.kind == BINARY:
        return _varint(len(node.value)) + bytes(node.value)
    if node.kind in (LIST, SET):
        inner, nodes = node.value
        head = bytes([min(len(nodes), 15) << 4 | inner])
        count = _varint(len(nodes)) if len(nodes) >= 15 else b""
        return head + count + b"".join(map(_put, nodes))
    raw, before = b"", 0
    for number, one in node.value:
        kind = (TRUE if one.value else FALSE) if one.kind == TRUE else one.kind
        step = number - before
        raw += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _zigzag(number)
        raw += b"" if one.kind == TRUE else _put(one)
        before = number
    return raw + b"\0"


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if node.kind == STRUCT:
        for _, one in node.value:
            yield from _nodes(one)
    elif node.kind in (LIST, SET):
        for one in node.value[1]:
            yield from _nodes(one)


def _change(root: Node, rng: np.random.Generator, size: int) -> None:
    """Change one value of a struct, or lose, double or renumber one of its fields."""
    nodes = list(_nodes(root))
    node = nodes[int(rng.integers(len(nodes)))]
    if node.kind == TRUE:
        node.value = not node.value
    elif node.kind == BYTE:
        node.value = extreme(node.value, 1, rng)
    elif node.kind in _INTEGERS:
        width = {I16: 2, I32: 4, I64: 8}[node.kind]
        put = extreme(node.value & (1 << 8 * width) - 1, width, rng, size)
        node.value = put - (1 << 8 * width) if put >> (8 * width - 1) else put
    elif node.kind in (BINARY, DOUBLE):
        at = int(rng.integers(len(node.value) + 1))
        byte = rng.bytes(1) if node.kind == DOUBLE or rng.random() < 0.5 else b""
        node.value = node.value[:at] + byte + node.value[at + 1 :]
        if node.kind == DOUBLE:
            node.value = node.value[:8].ljust(8, b"\0")
    elif node.value and node.kind in (LIST, SET):
        rearrange(node.value[1], rng)
    elif node.value:
        at = int(rng.integers(len(node.value)))
        number, one = node.value[at]
        if rng.random() < 0.5:
            rearrange(node.value, rng)
        else:
            node.value[at] = (number + int(rng.choice([-1, 1, 2, 13])), one)


def _footer(raw: bytes) -> tuple[int, Node]:
    (size,) = struct.unpack_from("<I", raw, len(raw) - 8)
    start = len(raw) - 8 - size
    return start, _Reader(raw, start).struct()


def change_the_footer(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of the footer; its length is right."""
    start, root = _footer(raw)
    _change(root, rng, len(raw))
    text = _put(root)
    return raw[:start] + text + struct.pack("<I", len(text)) + raw[-4:]


def _field(node: Node, number: int) -> Any:
    return next((one.value for found, one in node.value if found == number), None)


def _pages(raw: bytes) -> list[int]:
    """Return where the headers of pages begin: each behind the one before it in its column."""
    found = []
    _, root = _footer(raw)
    for group in _field(root, 4)[1]:
        for chunk in _field(group, 1)[1]:
            (meta,) = (one for number, one in chunk.value if number == 3)
            at = min(filter(None, (_field(meta, 9), _field(meta, 11))))
            end = at + _field(meta, 7)
            while at < end:
                found.append(at)
                reader = _Reader(raw, at)
                at = reader.at + _field(reader.struct(), 3)
                at += reader.at - found[-1]
    return found


def change_a_page(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of a page's header, or a byte of its content, the CRC-32 right.

    What follows is not moved: only a header that stays as long as it was is put in its place.
    """
    pages = _pages(raw)
    at = pages[int(rng.integers(len(pages)))]
    for _ in range(8):
        reader = _Reader(raw, at)
        root = reader.struct()
        size = _field(root, 3)
        content = bytearray(raw[reader.at : reader.at + size])
        if content and rng.random() < 0.5:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        else:
            _change(root, rng, len(raw))
        for number, one in root.value:
            if number == 4 and one.kind == I32:
                one.value = zlib.crc32(content)
                one.value -= 2**32 if one.value >> 31 else 0
        text = _put(root)
        if len(text) == reader.at - at:
            return raw[:at] + text + bytes(content) + raw[reader.at + size :]
    return raw


PARQUET: tuple[Mutator, ...] = (change_the_footer, change_the_footer, change_a_page)
