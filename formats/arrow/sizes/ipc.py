"""Arrow IPC: files (Feather version 2), streams in files, and streams through pipes."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lodcli.formats.arrow.files import (
    Ahead,
    File,
    Found,
    Records,
    Wanted,
    damage,
    opened,
    pieces,
    validate,
)
from lodcli.formats.arrow.hollow import Hollow
from lodcli.formats.arrow.sizes.expansion import is_expanded
from lodcli.formats.arrow.sizes.messages import (
    DICTIONARY,
    RECORDS,
    V4,
    Message,
    decompressed_sizes,
    dictionary_size,
    file_messages,
    next_message,
    require_end,
    stream_messages,
)
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import UnsupportedError

_READ_BYTES = 64 << 20
_FEW_BATCHES, _SMALL_BYTES = 64, 16 << 10
# Note on a stream without an end mark.
NO_END = (
    "the stream ends without an end mark: it is whole, or was cut between two record batches, "
    "which nothing tells"
)


class IpcFile(Records):
    """An Arrow IPC file (Feather version 2), or a stream in a file.

    Its counts and decompressed sizes are read from the headers of its messages.
    """

    count: int

    def __init__(self, source: Input, *, stream: bool) -> None:
        self.bounds = source.bounds
        self.notes = []
        self._stream = stream
        self._sizes: list[list[int]] = []
        self._headers: list[int] = []  # positions
        self._ends: list[int] = []  # of each record batch, counted in records
        with damage():
            self._file = File(source)
            stored = self._open(ensure_native_endian=False).schema
            # In native byte order, to which pyarrow converts numbers.
            self.schema = pa.schema(list(stored), stored.metadata)
            bodies: set[tuple[int, int]] = set()
            plain, regular = self._counted(bodies)
            self.count = self._ends[-1] if self._ends else 0
            self.plain = plain and not any(is_expanded(field.type) for field in self.schema)
            self._hollow: Hollow | None = None
            # Of many small record batches, parts would take more time than all of their bytes.
            total = sum(end - start for start, end in bodies)
            small = len(bodies) > _FEW_BATCHES and total < _SMALL_BYTES * len(bodies)
            if self.plain and regular and not small and stored.equals(self.schema):
                self._hollow = Hollow(self._file, bodies)

    def _counted(self, bodies: set[tuple[int, int]]) -> tuple[bool, bool]:
        """Store the positions and decompressed sizes of record batches.

        Returns:
            Whether all are stored uncompressed; whether all messages are regular, since irregular
            ones are left to pyarrow's readers, and newer than version 4, in which headers may
            hide compression.
        """
        rows, plain, regular, dictionaries = 0, True, True, 0
        messages = (stream_messages if self._stream else file_messages)(Ahead(self._file))
        for number, found in enumerate(messages):
            if found is None:
                self.notes.append(NO_END)
                break
            place, message = found
            # Even booleans take a bit each; more rows than that have no values.
            plain = plain and not message.compressed and message.rows <= 8 * message.body_bytes
            regular = regular and message.regular and message.version > V4
            if message.kind == DICTIONARY:
                dictionaries += dictionary_size(message, self._file, place)
                self.bounds.check_block(dictionaries, "its dictionaries decompress to")
            if message.kind == RECORDS:
                rows += message.rows
                bodies.add((place, place + message.body_bytes))
                self._headers.append(place - len(message.raw))
                self._ends.append(rows)
                self._sizes.append(decompressed_sizes(message, self.schema, self._file, place))
            elif number or not self._stream:  # a stream begins with its schema
                regular = False
        return plain, regular

    def _open(self, **options: Any) -> pa.ipc.RecordBatchReader:
        reading = pa.ipc.open_stream if self._stream else pa.ipc.open_file
        return reading(opened(Ahead(self._file)), options=pa.ipc.IpcReadOptions(**options))

    def _all(self, columns: Sequence[str], start: int) -> Iterator[Found]:
        """Yield record batches; those before the record `start` may be left out."""
        # pyarrow reads a stream in order: dictionaries precede the batches that need them.
        may_skip = self._hollow is not None or not self._stream
        skipped = bisect_left(self._ends, start) if may_skip else 0
        batches: Iterator[pa.RecordBatch]
        if self._hollow is not None:
            batches = self._hollow.batches(self._headers[skipped:], self.schema)
        else:
            chosen = [self.schema.get_field_index(name) for name in columns]
            for number, sizes in enumerate(self._sizes):
                size = sum(sizes[column] for column in chosen)
                self.bounds.check_block(size, f"record batch {number} decompresses to")
            reader = self._open(included_fields=chosen)
            if self._stream:
                batches = iter(reader)
            else:
                batches = map(reader.get_batch, range(skipped, reader.num_record_batches))
        first = self._ends[skipped - 1] if skipped else 0
        for batch in batches:
            yield first, batch
            first += batch.num_rows

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        with damage():
            for first, whole in self._all(wanted.names, wanted.start):
                batch = whole.select(wanted.names)
                low, high = max(0, wanted.start - first), batch.num_rows
                if wanted.stop is not None:
                    high = min(high, wanted.stop - first)
                if low < high:
                    for place, part in self._parts(batch, low, high, wanted):
                        yield first + place, part

    def _parts(
        self, batch: pa.RecordBatch, start: int, stop: int, wanted: Wanted
    ) -> Iterator[Found]:
        if self._hollow is not None:
            return self._hollow.parts(batch, start, stop, wanted.limit_bytes, values=wanted.values)
        validate(batch)
        return pieces(batch, batch.get_total_buffer_size(), wanted.limit_bytes)


class IpcPipe(Records):
    """An Arrow IPC stream from a pipe, which can be read only once."""

    def __init__(self, source: Input) -> None:
        self.bounds = source.bounds
        self.notes = []
        self._label = source.label
        self._begun = False
        with damage():
            self._checked = _Checked(source)
            self._reader = pa.ipc.open_stream(pa.PythonFile(self._checked, "r"))
            self.schema = self._checked.schema = self._reader.schema

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        if self._begun:
            raise UnsupportedError(f"{self._label}: a pipe can be read only once; use a file")
        self._begun = True
        first = 0
        with damage():
            for batch in self._reader:
                chosen = batch.select(wanted.names)
                validate(chosen)
                size = chosen.get_total_buffer_size()
                for place, part in pieces(chosen, size, wanted.limit_bytes):
                    yield first + place, part
                first += batch.num_rows
            if self._checked.cut:
                self.notes.append(NO_END)


class _Checked:
    """A stream from a pipe; pyarrow gets a message only after its sizes are checked.

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
        """Read and check a message; return whether there was one."""
        if self.cut:
            return False
        message = next_message(self._file.read)
        if isinstance(message, bytes):
            self.cut = not message
            if message:
                require_end(self._file.read)
            self._ready.append(message)
            return not self.cut
        body = self._body(message.body_bytes)
        self._check(message, memoryview(body))
        self._ready += [message.raw, body]
        return True

    def _body(self, size: int) -> bytes:
        """Read the body of a message in pieces: no more is allocated than was received."""
        parts = []
        while size and (part := self._file.read(min(size, _READ_BYTES))):
            parts.append(part)
            size -= len(part)
        if size:
            raise DamagedFileError(
                f"is truncated: {size} bytes of a message are missing{FETCH_AGAIN}"
            )
        return b"".join(parts)

    def _check(self, message: Message, body: memoryview) -> None:
        if message.kind == DICTIONARY:
            size = dictionary_size(message, body)
            self._bounds.check_block(size, "a dictionary decompresses to")
        elif message.kind == RECORDS and self.schema is not None:
            size = sum(decompressed_sizes(message, self.schema, body))
            self._bounds.check_block(size, f"record batch {self._number} decompresses to")
            self._number += 1
