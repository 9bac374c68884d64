"""Headers of Arrow IPC messages: counts and decompressed sizes, read before pyarrow decodes them.

https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.files import Bytes, Cursor
from lodcli.formats.arrow.sizes.buffers import inner_types, is_list_view, is_text, is_view
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError

DICTIONARY, RECORDS = 2, 3
_CONTINUATION = b"\xff\xff\xff\xff"
_MOST_METADATA_BYTES = 1 << 30
_FILE_TAIL_BYTES = 10  # size of the footer, then the magic
_FOOTER_DICTIONARIES, _FOOTER_RECORDS = 2, 3
_BLOCK = struct.Struct("<qi4xq")
_PAIR = struct.Struct("<qq")
V4 = 3


@dataclass(frozen=True)
class Message:
    """The header of a message.

    Attributes:
        raw: its bytes, length included.
        kind: DICTIONARY, RECORDS or another.
        body_bytes: bytes of the body that follows.
        rows: number of records, or of values of a dictionary.
        buffers: position in the body and stored length of each buffer.
        compressed: whether buffers are compressed, each after its decompressed size.
        views: number of data buffers of each column of views.
        version: of the metadata.
        regular: whether all null counts are known, and the footer of a file, if there is one,
            states the same sizes, and an aligned position.
    """

    raw: bytes
    kind: int
    body_bytes: int
    rows: int = 0
    buffers: tuple[tuple[int, int], ...] = ()
    compressed: bool = False
    views: tuple[int, ...] = ()
    version: int = 4
    regular: bool = True


def next_message(read: Callable[[int], bytes | memoryview]) -> Message | bytes:
    """Read the header of a message, up to its body.

    Args:
        read: returns the next bytes, fewer at the end.

    Returns:
        The message; at the end of the stream the end mark, b"" if there is none.

    Raises:
        DamagedFileError: it is truncated or invalid.
    """
    prefix = bytes(read(4))
    if prefix == _CONTINUATION:  # else as before Arrow 0.15
        prefix += read(4)
    if not prefix:
        return b""
    size = int.from_bytes(prefix[-4:], "little", signed=True)
    if len(prefix) % 4 or prefix == _CONTINUATION:
        raise DamagedFileError(f"is truncated where a message begins{FETCH_AGAIN}")
    if not 0 <= size <= _MOST_METADATA_BYTES:
        raise DamagedFileError("is damaged (where a message should begin)")
    if not size:
        return prefix
    metadata = bytes(read(size))
    if len(metadata) < size:
        raise DamagedFileError(f"is truncated within the header of a message{FETCH_AGAIN}")
    try:
        return _parsed(prefix, metadata)
    except (struct.error, IndexError):
        raise DamagedFileError("is damaged (in the header of a message)") from None


def require_end(read: Callable[[int], bytes | memoryview]) -> None:
    """Raise DamagedFileError if data follows the end mark of a stream.

    Args:
        read: returns the next bytes, fewer at the end.
    """
    more = bytes(read(8))
    if more.startswith(_CONTINUATION):
        raise DamagedFileError(
            "a second stream follows the first; `cat` cannot join streams, `lod concat` can"
        )
    if more:
        raise DamagedFileError(f"data follows its end mark ({more.hex(' ')} ..)")


def stream_messages(data: Bytes) -> Iterator[tuple[int, Message] | None]:
    """Yield the position of each body in a stream, and its message; None if it has no end mark."""
    at = 0
    while isinstance(message := next_message(Cursor(data, at).read), Message):
        at += len(message.raw)
        if message.body_bytes > len(data) - at:
            raise DamagedFileError(
                f"is truncated: a message has {message.body_bytes} bytes more{FETCH_AGAIN}"
            )
        yield at, message
        at += message.body_bytes
    if not message:
        yield None
        return
    require_end(Cursor(data, at + len(message)).read)


def file_messages(data: Bytes) -> Iterator[tuple[int, Message]]:
    """Yield the body position and message of each dictionary and record batch of an IPC file."""
    size = int.from_bytes(data[-_FILE_TAIL_BYTES:][:4], "little")
    footer = bytes(data[-_FILE_TAIL_BYTES - size :][:size])
    try:
        table = _Table(footer, _u32(footer, 0))
        blocks = [*_blocks(table, _FOOTER_DICTIONARIES), *_blocks(table, _FOOTER_RECORDS)]
    except (struct.error, IndexError):
        raise DamagedFileError("is damaged (in its footer)") from None
    total = 0
    for place, header_bytes, body_bytes in blocks:
        message = next_message(Cursor(data, place).read)
        if isinstance(message, bytes):
            raise DamagedFileError("is damaged (no message at the position in its footer)")
        sizes = len(message.raw), message.body_bytes
        total += sum(sizes)
        if total > len(data):  # a small file could repeat a large message any number of times
            raise DamagedFileError("is damaged (its footer refers to the same bytes repeatedly)")
        if place % 8 or sizes != (header_bytes, body_bytes):
            message = replace(message, regular=False)
        yield place + len(message.raw), message


def _blocks(table: _Table, field: int) -> list[tuple[int, int, int]]:
    """Return the position of each message, and the sizes of its header and body."""
    start, count = table.vector(field)
    return list(_BLOCK.iter_unpack(table.data[start : start + 24 * count]))


def decompressed_sizes(
    message: Message, schema: pa.Schema, data: Bytes, body: int = 0
) -> list[int]:
    """Return the decompressed bytes of each column of a record batch; 0 if it is uncompressed.

    Args:
        message: its header.
        schema: of all its columns.
        data: the bytes that contain it.
        body: position of its body in them.
    """
    if not message.compressed:
        return [0] * len(schema)
    buffers, views = iter(message.buffers), iter(message.views)
    found = []
    for field in schema:
        count = min(_buffer_count(field.type, views, message.version), len(message.buffers))
        # A column of views claims any number of buffers.
        found.append(sum(_size(*buffer, data, body) for buffer in islice(buffers, count)))
    return found


def dictionary_size(message: Message, data: Bytes, body: int = 0) -> int:
    """Return the decompressed bytes of a dictionary; 0 if it is uncompressed."""
    if not message.compressed:
        return 0
    return sum(_size(*buffer, data, body) for buffer in message.buffers)


def _size(place: int, stored: int, data: Bytes, body: int) -> int:
    if stored < 8:
        return 0
    begin = body + place
    size = int.from_bytes(data[begin : begin + 8], "little", signed=True)
    return stored if size < 0 else size  # -1: this one is stored uncompressed


def _buffer_count(kind: Any, views: Iterator[int], version: int) -> int:
    """Return how many buffers a column of this type has."""
    if isinstance(kind, pa.BaseExtensionType):
        return _buffer_count(kind.storage_type, views, version)
    if types.is_dictionary(kind):
        return 2
    if types.is_null(kind):
        return 0
    if is_view(kind):
        return 2 + next(views, 0)
    if types.is_union(kind):
        own = 1 + int(kind.mode == "dense") + int(version <= V4)
    elif types.is_run_end_encoded(kind):
        own = 0
    elif types.is_struct(kind) or types.is_fixed_size_list(kind):
        own = 1
    elif is_list_view(kind):
        own = 3
    elif types.is_nested(kind):
        own = 2
    else:
        return 3 if is_text(kind) else 2
    return own + sum(_buffer_count(inner, views, version) for inner in inner_types(kind))


# -- flatbuffers ---------------------------------------------------------------------


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


class _Table:
    """A table of a flatbuffer; fields that are absent are 0."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self._at = at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        if self._vtable < 0:
            raise IndexError
        self._size = struct.unpack_from("<H", data, self._vtable)[0]

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return 0
        offset: int = struct.unpack_from("<H", self.data, self._vtable + slot)[0]
        return self._at + offset if offset else 0

    def number(self, field: int, kind: str) -> int:
        """Return a number field; `kind` is a format of `struct`, such as "<q"."""
        place = self._place(field)
        return int(struct.unpack_from(kind, self.data, place)[0]) if place else 0

    def table(self, field: int) -> _Table | None:
        """Return a table field."""
        place = self._place(field)
        return _Table(self.data, place + _u32(self.data, place)) if place else None

    def vector(self, field: int) -> tuple[int, int]:
        """Return the position of the items of a vector field, and their number."""
        place = self._place(field)
        if not place:
            return 0, 0
        place += _u32(self.data, place)
        return place + 4, _u32(self.data, place)


def _parsed(prefix: bytes, metadata: bytes) -> Message:
    table = _Table(metadata, _u32(metadata, 0))
    version, kind = table.number(0, "<h"), table.number(1, "<B")
    body_bytes = table.number(3, "<q")
    if body_bytes < 0:
        raise DamagedFileError(f"is damaged (a message of {body_bytes} bytes)")
    header = table.table(2)
    if kind == DICTIONARY and header is not None:
        header = header.table(1)
    if header is None or kind not in (DICTIONARY, RECORDS):
        return Message(prefix + metadata, kind, body_bytes)
    rows = header.number(0, "<q")
    start, count = header.vector(2)
    pairs = _PAIR.iter_unpack(metadata[start : start + 16 * count])
    node, nodes = header.vector(1)
    nulls = [many for _, many in _PAIR.iter_unpack(metadata[node : node + 16 * nodes])]
    compressed = header.table(3) is not None
    place, many = header.vector(4)
    views = struct.unpack_from(f"<{many}q", metadata, place) if many else ()
    return Message(
        *(prefix + metadata, kind, body_bytes, rows, tuple(pairs), compressed, views, version),
        regular=min(nulls, default=0) >= 0,
    )
