"""tfrecord: TensorFlow's records, a feature a tensor."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lodcli.formats.arrow.formats import Columns
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.storage.compression import codec_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.tfrecord.description import DTYPES, MOST_LISTS
from lodcli.formats.tfrecord.frames import HEAD_BYTES, begins_record
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor.marks import ALL_MARKS

if TYPE_CHECKING:
    from lodcli.formats.arrow.files import Records


class TfRecord(Columns):
    """Records of `Example` and `SequenceExample`; a record is an outermost item.

    A feature is a tensor of int64, of float32, or of bytes (text if all of it is UTF-8): one level
    of its values, none if every record has one; a feature list has one level more. A feature that
    a record lacks is null there. Other messages than these two are refused.

    Writing: int64, float and bytes lists; lists of lists are feature lists of a SequenceExample.
    dtypes, names of levels, shapes of rows and marks are kept in a field of the first record that
    TensorFlow skips. A null outermost item is a missing feature; other nulls are refused.
    """

    name = "tfrecord"
    dtypes = DTYPES
    max_levels = MOST_LISTS + 1
    packed = True
    structs = attributes = file_attributes = False
    kept_marks = ALL_MARKS - {"category"}
    checksums = "CRC32C of every record"
    # NumPy imports its masked arrays only for numpy.unique.
    modules = (
        "lodcli.formats.arrow.source",
        "lodcli.formats.tfrecord.arrow_records",
        "numpy.ma",
        "pyarrow.compute",
    )
    descriptors = 0

    def sniff(self, head: bytes) -> bool:
        if codec_of(head) == "gzip" and not begins_record(head):
            try:
                head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
            except zlib.error:
                return False
        return begins_record(head)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            if spec.depth > MOST_LISTS:
                raise UnsupportedError(
                    f"tfrecord holds {MOST_LISTS} levels of numbers, {spec.name} has "
                    f"{len(spec.levels)}"
                )
            if spec.items == 0:
                raise _without_records()

    def _records(self, source: Input) -> tuple[Records, bool]:
        from lodcli.formats.tfrecord.arrow_records import ExampleRecords

        return ExampleRecords(source), False

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.tfrecord.writer import write_records

        items = dict[str, int]()
        count = write_records(output, schema, batches, items)
        self.require_equal(items)
        if not count:
            raise _without_records()


def _without_records() -> UnsupportedError:
    return UnsupportedError(
        "tfrecord holds at least one record, for records name the features; this has none: no items"
    )
