"""Reads record batches in two steps: pyarrow reads the header, then lod reads some records.

A record batch may be larger than memory, and a few of its records are read quickly. pyarrow
reads zeros in place of the body, without using memory, and validates the header as usual. The
position of an array's buffer in the zeros is the position of its bytes in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.files import File, Found, opened, step_of, validate
from lodcli.formats.arrow.sizes.buffers import is_text
from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform.machine import unread_zeros

_BITS = 1 << 26  # validity bits counted at a time


class Hollow:
    """A file with zeros in place of the bodies of its record batches.

    Args:
        file: its record batches are stored uncompressed, in native byte order.
        bodies: start and end of the body of each.
    """

    def __init__(self, file: File, bodies: Collection[tuple[int, int]]) -> None:
        self._file = file
        self._bodies = bodies
        self._zeros = unread_zeros(len(file))
        self._address = pa.py_buffer(self._zeros).address

    def __len__(self) -> int:
        return len(self._file)

    def __getitem__(self, key: slice) -> memoryview:
        if (key.start, key.stop) in self._bodies:
            return self._zeros[key]
        return self._file[key]

    def batches(self, headers: Iterable[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the record batches whose headers begin at these positions, for `parts`."""
        file = opened(self)
        for place in headers:
            file.seek(place)
            yield pa.ipc.read_record_batch(pa.ipc.read_message(file), schema)

    def parts(
        self, batch: pa.RecordBatch, start: int, stop: int, limit_bytes: int, *, values: bool
    ) -> Iterator[Found]:
        """Yield records of a batch from `batches`, with the number of the first.

        Args:
            batch: with any of its columns.
            start: the first record.
            stop: one past the last record.
            limit_bytes: approximate size of a part; a single record may exceed it.
            values: whether to read numbers; else they are 0.

        Raises:
            DamagedFileError, pa.ArrowException: the file is damaged or was truncated.
        """
        batch.validate()
        if not values:
            for column in batch.columns:
                self._check_nulls(column)
        step = step_of(batch.num_rows, batch.get_total_buffer_size(), limit_bytes)
        for begin in range(start, stop, step):
            count = min(step, stop - begin)
            arrays = [self._read(column, begin, count, values) for column in batch.columns]
            part = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
            validate(part)
            yield begin, part

    def _read(self, array: Any, start: int, count: int, values: bool) -> Any:
        """Return items of an array."""
        kind = array.type
        if isinstance(array, pa.ExtensionArray):
            return kind.wrap_array(self._read(array.storage, start, count, values))
        if types.is_null(kind) or types.is_union(kind):  # no tensor can hold unions
            return pa.nulls(count, kind)
        valid, *buffers = array.buffers()
        held, inner = [self._bits(valid, start, count)], []
        if types.is_struct(kind):
            inner = [self._read(one, start, count, values) for one in _inner(array)]
        elif types.is_fixed_size_list(kind):
            size = kind.list_size
            inner = [self._read(array.values, start * size, count * size, values)]
        elif types.is_nested(kind):
            offsets, low, many = self._offsets(array, start, count, len(array.values))
            held.append(offsets)
            inner = [self._read(array.values, low, many, values)]
        elif is_text(kind):
            offsets, low, many = self._offsets(array, start, count, buffers[1].size)
            held += [offsets, pa.py_buffer(self._bytes(buffers[1], low, many))]
        elif types.is_boolean(kind):
            held.append(self._bits(buffers[0], start, count))
        else:
            width = kind.bit_width // 8
            # Values other than numbers may be invalid, which should be detected early.
            if values or not (types.is_integer(kind) or types.is_floating(kind)):
                held.append(pa.py_buffer(self._bytes(buffers[0], start * width, count * width)))
            else:
                held.append(buffers[0].slice(start * width, count * width))
        return pa.Array.from_buffers(kind, count, held, children=inner)

    def _offsets(self, array: Any, start: int, count: int, most: int) -> tuple[pa.Buffer, int, int]:
        """Return offsets from 0, the first item, and the number of items, at most `most`."""
        kind = array.type
        wide = types.is_large_list(kind) or types.is_large_string(kind)
        dtype = np.dtype(np.int64 if wide or types.is_large_binary(kind) else np.int32)
        if not count:  # then the buffer may have no bytes
            return pa.py_buffer(bytes(dtype.itemsize)), 0, 0
        size = dtype.itemsize
        found = self._bytes(array.buffers()[1], start * size, (count + 1) * size).view(dtype)
        low, high = int(found[0]), int(found[-1])
        if not 0 <= low <= high <= most:
            raise DamagedFileError(f"is damaged (offsets from {low} to {high} of {most} items)")
        return pa.py_buffer(found - low if low else found), low, high - low

    def _bits(self, buffer: pa.Buffer | None, start: int, count: int) -> pa.Buffer | None:
        """Return bits, shifted so that the first is bit 0; None for None."""
        if buffer is None or not count:
            return None
        first, skip = divmod(start, 8)
        packed = self._bytes(buffer, first, (skip + count + 7) // 8)
        if skip:
            bits = np.unpackbits(packed, bitorder="little")[skip : skip + count]
            packed = np.packbits(bits, bitorder="little")
        return pa.py_buffer(packed)

    def _bytes(self, buffer: pa.Buffer, start: int, size: int) -> Array:
        """Return bytes of a buffer; reads the file if the buffer is in the zeros."""
        if not size:
            return np.zeros(0, np.uint8)
        position = buffer.address - self._address
        if 0 <= position < len(self._file):
            return self._file.read(position + start, size)
        return np.frombuffer(buffer, np.uint8, size, start)

    def _check_nulls(self, array: Any) -> None:
        """Raise DamagedFileError if the number of nulls differs from the header."""
        while isinstance(array, pa.ExtensionArray):
            array = array.storage
        valid, found = array.buffers()[0], 0
        for start in range(0, 0 if valid is None else len(array), _BITS):
            count = min(_BITS, len(array) - start)
            bits = self._bits(valid, start, count)
            found += pa.Array.from_buffers(pa.bool_(), count, [bits, bits]).null_count
        if valid is not None and found != array.null_count:
            raise DamagedFileError(f"is damaged (expected {array.null_count} nulls, found {found})")
        for one in _inner(array):
            self._check_nulls(one)


def _inner(array: Any) -> list[Any]:
    """Return the arrays of fields or items."""
    kind = array.type
    if types.is_struct(kind):
        return [array.field(number) for number in range(kind.num_fields)]
    return [array.values] if types.is_nested(kind) and not types.is_union(kind) else []
