"""Arrow IPC: files (Feather version 2), streams in files, and streams through pipes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lodcli.formats.arrow.files import Found, Map, Records, damage, pieces
from lodcli.formats.arrow.sizes.expansion import is_expanded
from lodcli.formats.arrow.sizes.messages import (
    DICTIONARY,
    RECORDS,
    Message,
    decompressed_sizes,
    dictionary_size,
    file_messages,
    next_message,
    stream_messages,
)
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import UnsupportedError

_READ_BYTES = 64 << 20
# A stream may end without the mark that it should end with.
NO_END = (
    "the stream ends without an end mark: it is whole, or was cut between two record batches, "
    "which nothing tells"
)


class IpcFile(Records):
    """An Arrow IPC file (Feather version 2), or a stream in a file.

    Its counts, and what it decompresses to, are known from the headers of its messages.
    """

    count: int

    def __init__(self, source: Input, *, stream: bool) -> None:
        self.bounds = source.bounds
        self.notes = []
        self._stream = stream
        self._sizes: list[list[int]] = []
        with damage():
            self._map = Map(source)
            self.schema = self._open(None).schema
            self.count, plain = self._counted()
            self.mapped = plain and not any(is_expanded(field.type) for field in self.schema)

    def _counted(self) -> tuple[int, bool]:
        """Return the number of records, and whether all are stored without expansion.

        Notes what they decompress to.
        """
        rows, plain, dictionaries = 0, True, 0
        for found in (stream_messages if self._stream else file_messages)(self._map.view):
            if found is None:
                self.notes.append(NO_END)
                break
            place, message = found
            body = self._map.view[place : place + message.body_bytes]
            # Even booleans take a bit each; rows without values do not.
            plain = plain and not message.compressed and message.rows <= 8 * message.body_bytes
            if message.kind == DICTIONARY:
                dictionaries += dictionary_size(message, body)
                self.bounds.check_block(dictionaries, "its dictionaries decompress to")
            elif message.kind == RECORDS:
                rows += message.rows
                self._sizes.append(decompressed_sizes(message, self.schema, body))
        return rows, plain

    def _open(self, columns: Sequence[str] | None) -> pa.ipc.RecordBatchReader:
        chosen = None
        # What is not compressed is mapped whole; with a choice of columns it would be copied.
        if columns is not None and not self.mapped:
            chosen = [self.schema.get_field_index(name) for name in columns]
            for number, sizes in enumerate(self._sizes):
                size = sum(sizes[column] for column in chosen)
                self.bounds.check_block(size, f"record batch {number} decompresses to")
        options = pa.ipc.IpcReadOptions(included_fields=chosen)
        reading = pa.ipc.open_stream if self._stream else pa.ipc.open_file
        return reading(pa.BufferReader(self._map.buffer), options=options)

    def _all(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        reader = self._open(columns)
        if self._stream:
            yield from reader
        else:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        first = 0
        with damage():
            for whole in self._all(columns):
                batch = whole.select(columns)
                if first + batch.num_rows > start:
                    if check:
                        batch.validate(full=True)
                    for place, part in pieces(batch, limit_bytes):
                        yield first + place, part
                        self._map.release()
                first += batch.num_rows


class IpcPipe(Records):
    """An Arrow IPC stream that comes through a pipe, once."""

    def __init__(self, source: Input) -> None:
        self.bounds = source.bounds
        self.notes = []
        self._label = source.label
        self._begun = False
        with damage():
            self._checked = _Checked(source)
            self._reader = pa.ipc.open_stream(pa.PythonFile(self._checked, "r"))
            self.schema = self._checked.schema = self._reader.schema

    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        if self._begun:
            raise UnsupportedError(f"{self._label}: a pipe can be read only once; use a file")
        self._begun = True
        first = 0
        with damage():
            for batch in self._reader:
                chosen = batch.select(columns)
                chosen.validate(full=True)
                for place, part in pieces(chosen, limit_bytes):
                    yield first + place, part
                first += batch.num_rows
            if self._checked.cut:
                self.notes.append(NO_END)


class _Checked:
    """A stream from a pipe; pyarrow gets a message only once its sizes are checked.

    Attributes:
        schema: of the columns, once it is known.
        cut: whether it ended without an end mark.
    """

    closed = False

    def __init__(self, source: Input) -> None:
        self._file = source.file
        self._bounds: Bounds = source.bounds
        self._ready: deque[bytes] = deque()
        self._number = 0
        self.schema: pa.Schema | None = None
        self.cut = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer at the end."""
        parts: list[bytes] = []
        while size > 0 and (self._ready or self._next()):
            part = self._ready.popleft()
            if len(part) > size:
                self._ready.appendleft(part[size:])
                part = part[:size]
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next(self) -> bool:
        """Take in a message; return whether there was one."""
        if self.cut:
            return False
        message = next_message(self._file.read)
        if isinstance(message, bytes):
            self.cut = not message
            self._ready.append(message)
            return not self.cut
        body = self._body(message.body_bytes)
        self._check(message, memoryview(body))
        self._ready += [message.raw, body]
        return True

    def _body(self, size: int) -> bytes:
        """Read the body of a message; no more is allocated than there is."""
        parts = []
        while size and (part := self._file.read(min(size, _READ_BYTES))):
            parts.append(part)
            size -= len(part)
        if size:
            raise DamagedFileError(f"is truncated: {size} bytes of a message are missing")
        return b"".join(parts)

    def _check(self, message: Message, body: memoryview) -> None:
        if message.kind == DICTIONARY:
            size = dictionary_size(message, body)
            self._bounds.check_block(size, "a dictionary decompresses to")
        elif message.kind == RECORDS and self.schema is not None:
            size = sum(decompressed_sizes(message, self.schema, body))
            self._bounds.check_block(size, f"record batch {self._number} decompresses to")
            self._number += 1
