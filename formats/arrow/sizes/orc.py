"""ORC files, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from pyarrow import orc

from lodcli.formats.arrow.files import (
    File,
    Found,
    Records,
    Wanted,
    damage,
    opened,
    pieces,
    validate,
)
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.inputs import Input
from lodcli.formats.text.lines import shown
from lodcli.kernels.errors import UnsupportedError

# 1582-10-15, in days since 1970. Java stores earlier dates in the Julian calendar or not; pyarrow
# does not tell in which.
_FIRST_DAY = -141_427


class OrcRecords(Records):
    """An ORC file; a stripe is decoded as a whole.

    Only in a child process with limited memory: its decompressed sizes are not known before.
    """

    count: int

    def __init__(self, source: Input) -> None:
        self.bounds = source.bounds
        # The number of the record behind each stripe that was read.
        self._ends: list[int] = []
        with damage():
            self._file = orc.ORCFile(opened(File(source)))
            self.schema = self._file.schema
            self.count = self._file.nrows

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        first = 0
        with damage():
            for number in range(self._file.nstripes):
                if number < len(self._ends) and self._ends[number] <= wanted.start:
                    first = self._ends[number]
                    continue
                batch = self._stripe(number, wanted.names)
                for place, part in pieces(batch, batch.nbytes, wanted.limit_bytes):
                    yield first + place, part
                first += batch.num_rows
                if number == len(self._ends):
                    self._ends.append(first)
        if first != self.count:
            raise DamagedFileError(f"expected {self.count} records, the stripes have {first}")

    def _stripe(self, number: int, names: Sequence[str]) -> pa.RecordBatch:
        # To pyarrow, a name with a point is that of a field in a struct.
        pointed = any("." in name for name in self.schema.names)
        batch = self._file.read_stripe(number, None if pointed else list(names)).select(list(names))
        self.bounds.check_block(batch.nbytes, f"stripe {number} decompresses to")
        validate(batch)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for dates in _dates(column):
                first = pc.min(dates.cast(pa.int32())).as_py()
                if first is not None and first < _FIRST_DAY:
                    raise UnsupportedError(
                        f"column {shown(name)}: has dates before 1582-10-15, whose calendar is "
                        "unknown; write Parquet, or choose other columns with --field"
                    )
        return batch


def _dates(array: Any) -> Iterator[Any]:
    """Yield the dates in an array."""
    kind = array.type
    if types.is_date(kind):
        yield array
    elif types.is_map(kind):
        yield from _dates(array.keys)
        yield from _dates(array.items)
    elif types.is_struct(kind):
        for part in array.flatten():
            yield from _dates(part)
    elif types.is_list(kind):
        yield from _dates(array.flatten())
