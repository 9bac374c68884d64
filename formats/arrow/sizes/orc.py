"""ORC files, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
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
from lodcli.formats.core.names import shown
from lodcli.formats.core.options import choose_others
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError, UnsupportedError

# 1582-10-15, in days since 1970. Java stores earlier dates in the Julian calendar or not; pyarrow
# does not tell in which.
_FIRST_DAY = -141_427
# In nanoseconds: 14 hours, the most that time zones differ from UTC, and a second. Java rounds a
# time without a zone towards 1970 in UTC, and pyarrow reads it as rounded in local time, if it has
# a millisecond or more besides whole seconds: on different sides of 1970 that is another second.
_NEAR = (14 * 3600 + 1) * 10**9


class OrcRecords(Records):
    """An ORC file; a stripe is decoded as a whole.

    Only in a child process with limited memory: its decompressed sizes are not known before.
    """

    count: int

    def __init__(self, source: Input) -> None:
        self.bounds = source.bounds
        self.refused: dict[str, LodError] = {}
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
        """Return columns of a stripe; those that cannot be read are in `refused` instead."""
        names = [name for name in names if name not in self.refused] or list(names)
        try:
            with damage():
                batch = self._decoded(number, names)
        except UnsupportedError:
            batch = None
        found = {}
        for name in names:
            try:
                with damage():
                    one = self._decoded(number, [name]) if batch is None else batch
                    _require_certain(one.column(name))
                    found[name] = one.column(name)
            except UnsupportedError as error:
                remedy = f"write Parquet, or {choose_others('other columns')}"
                said = f"stripe {number}, column {shown(name)}: {error}; {remedy}"
                self.refused[name] = UnsupportedError(said)
        if not found:
            raise self.refused[names[0]]
        return pa.RecordBatch.from_arrays(list(found.values()), list(found))

    def _decoded(self, number: int, names: list[str]) -> pa.RecordBatch:
        batch = self._file.read_stripe(number, names)
        if not set(names).issubset(batch.schema.names):
            # To pyarrow, a name with a point is first that of a field in a struct.
            batch = self._file.read_stripe(number)
        batch = batch.select(names)
        self.bounds.check_block(batch.nbytes, f"stripe {number} decompresses to")
        validate(batch)
        return batch


def _require_certain(column: Any) -> None:
    """Raise UnsupportedError if dates or times in a column may be others than were written."""
    for array in _flat(column):
        if types.is_date(array.type):
            import pyarrow.compute as pc  # slow to import

            first = pc.min(array.cast(pa.int32())).as_py()
            if first is not None and first < _FIRST_DAY:
                raise UnsupportedError("has dates before 1582-10-15, whose calendar is unknown")
        elif types.is_timestamp(array.type) and array.type.tz is None:
            times = array.drop_null().cast(pa.int64()).to_numpy()
            near = times[(times > -_NEAR) & (times < _NEAR)]
            if (near % 10**9 >= 10**6).any():
                raise UnsupportedError(
                    "has times with a fraction of a second within 14 hours of 1970-01-01, which "
                    "may be wrong by a second"
                )


def _flat(array: Any) -> Iterator[Any]:
    """Yield the arrays of values in an array."""
    kind = array.type
    if types.is_map(kind):
        yield from _flat(array.keys)
        yield from _flat(array.items)
    elif types.is_struct(kind):
        for part in array.flatten():
            yield from _flat(part)
    elif types.is_list(kind):
        yield from _flat(array.flatten())
    else:
        yield array
