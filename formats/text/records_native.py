"""Writes columns as records, with the compiled writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lodcli.formats.text.record_fields import MOST_BYTES, Field
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load

# Values from which on compiling the writer, which takes seconds, is repaid; one that is shipped
# with the package only has to be loaded.
REPAID_VALUES = 2_000_000
REPAID_SHIPPED = 10_000
# Fields in a piece: its text stays in a cache.
_PIECE_FIELDS = 1 << 14
_put_records = load.kernel("formats.text.records_numba", "put_records")


def is_repaid(values: int) -> bool:
    """Return whether compiled code is worth loading, and compiling in a checkout, for values."""
    least = min(REPAID_VALUES, REPAID_SHIPPED) if load.is_shipped() else REPAID_VALUES
    return values >= least


def is_available() -> bool:
    """Return whether there is a compiled writer; compiles it if needed."""
    try:
        return bool(_put_records[""])
    except load.NativeUnavailableError:
        return False


class RecordWriter:
    """Writes records.

    Args:
        fixed: the bytes before each field, and those after the last one.
        null: the bytes of a null.
    """

    def __init__(self, fixed: Sequence[bytes], null: bytes) -> None:
        parts = [*fixed, null]
        self._longest = sum(map(len, fixed)) + len(null) * (len(fixed) - 1)
        self._bounds = np.cumsum([0, *map(len, parts)])
        self._fixed = np.frombuffer(b"".join(parts) or b"\0", np.uint8)
        self._out: Array = np.empty(0, np.uint8)

    def whole(self, fields: Sequence[Field], count: int) -> tuple[Array, Offsets]:
        """Return the text of `count` records, (N,) uint8, and its offsets, (count + 1,)."""
        ends = np.zeros(count + 1, np.int64)
        parts = [np.array(piece) for piece in self.pieces(fields, count, ends)]
        return np.concatenate([np.zeros(0, np.uint8), *parts]), ends

    def pieces(
        self, fields: Sequence[Field], count: int, ends: Offsets | None = None
    ) -> Iterator[memoryview]:
        """Yield the text of `count` records in pieces; each is valid until the next one.

        Args:
            fields: of `count` values each.
            count: the number of records.
            ends: (count + 1,) is set to the offsets of the records in the text.
        """
        data, texts, valid = (np.zeros(len(fields), np.int64) for _ in range(3))
        for column, field in enumerate(fields):
            data[column] = load.address(field.values)
            texts[column] = 0 if field.offsets is None else load.address(field.offsets)
            valid[column] = 0 if field.valid is None else load.address(field.valid)
        columns = (
            np.array([field.kind for field in fields], np.int64),
            *(data, texts, valid),
            np.array([field.large for field in fields], np.float64),
            np.array([field.detail for field in fields], np.int64),
            *(self._fixed, self._bounds, len(fields)),
        )
        put, step = _put_records[""].call, max(1, _PIECE_FIELDS // max(1, len(fields)))
        done, places = 0, np.empty(min(step, count), np.int64)
        for first in range(0, count, step):
            last = min(first + step, count)
            size = sum(field.most_bytes(first, last) for field in fields)
            size += (last - first) * self._longest + MOST_BYTES
            if self._out.size < size:
                # Fresh pages cost time when they are written.
                self._out = np.empty(size, np.uint8)
            size = put(0, 1, *columns, places, first, last, load.address(self._out))
            if ends is not None:
                ends[first + 1 : last + 1] = places[: last - first] + done
            done += size
            yield self._out.data[:size]
