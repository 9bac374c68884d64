"""Thrift's compact protocol: reads selected fields of a structure, skips all others.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

I32, I64, BINARY = 5, 6, 8
_TRUE, _FALSE, _BYTE, _I16, _DOUBLE, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 4, 7, 9, 10, 11, 12
# Parsers that this must agree with refuse deeper ones.
_MOST_DEPTH = 64

BOOL = _TRUE
# By the number of a field: its type, a structure, or in a list the structure of its items.
Fields = Mapping[int, Any]


class ThriftError(ValueError):
    """Bytes that are no such structure."""


class Reader:
    """A place in bytes.

    Args:
        data: where the structures are.
        at: where the next one begins.

    Attributes:
        at: behind what was read.
    """

    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self._data = data
        self.at = at

    def struct(self, fields: Fields, depth: int = 0) -> dict[int, Any]:
        """Read a structure and return the chosen fields that it has.

        A field of another type than expected is skipped, as the parsers that Thrift makes do.

        Raises:
            ThriftError: the bytes end, or are no structure.
        """
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            wanted = fields.get(number)
            if wanted is BOOL and kind in (_TRUE, _FALSE):
                found[number] = kind == _TRUE
            elif isinstance(wanted, int) and kind == wanted:
                found[number] = self._binary() if kind == BINARY else self._zigzag()
            elif isinstance(wanted, list) and kind == _LIST:
                found[number] = self._structs(wanted[0], depth)
            elif isinstance(wanted, dict) and kind == _STRUCT:
                found[number] = self.struct(wanted, _deeper(depth))
            elif kind not in (_TRUE, _FALSE):
                self._skip(kind, depth)
        return found

    def _structs(self, fields: Fields, depth: int) -> list[dict[int, Any]]:
        kind, count = self._list()
        if kind != _STRUCT:
            raise ThriftError("a list of another type")
        return [self.struct(fields, _deeper(depth)) for _ in range(count)]

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        return head & 15, head >> 4 if head >> 4 < 15 else self._varint()

    def _skip(self, kind: int, depth: int) -> None:
        if kind in (_BYTE, _TRUE, _FALSE):
            self.at += 1
        elif kind in (_I16, I32, I64):
            self._varint()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == BINARY:
            self._binary()
        elif kind in (_LIST, _SET):
            inner, count = self._list()
            for _ in range(count):
                self._skip(inner, _deeper(depth))
        elif kind == _MAP:
            count = self._varint()
            inner = self._byte() if count else 0
            for _ in range(count):
                self._skip(inner >> 4, _deeper(depth))
                self._skip(inner & 15, _deeper(depth))
        elif kind == _STRUCT:
            self.struct({}, _deeper(depth))
        else:
            raise ThriftError(f"type {kind}")
        if self.at > len(self._data):
            raise ThriftError("ends early")

    def _binary(self) -> bytes:
        size = self._varint()
        if size > len(self._data) - self.at:
            raise ThriftError("ends early")
        self.at += size
        return bytes(self._data[self.at - size : self.at])

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ThriftError("a number of too many bytes")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ThriftError("ends early")
        self.at += 1
        return self._data[self.at - 1]


def _deeper(depth: int) -> int:
    if depth >= _MOST_DEPTH:
        raise ThriftError("nested too deeply")
    return depth + 1
