"""arrow, arrow-stream, parquet, orc: columns of nested lists, a record an outermost item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from lodcli.formats.core.format import AnnotatedFormat, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor.marks import Times

if TYPE_CHECKING:
    from lodcli.formats.arrow.files import Records

FILE_MAGIC = b"ARROW1\0\0"
FEATHER_1_MAGIC = b"FEA1"
STREAM_MAGIC = b"\xff\xff\xff\xff"
PARQUET_MAGIC = b"PAR1"
# Magic of a Parquet file with an encrypted footer.
ENCRYPTED_MAGIC = b"PARE"
ORC_MAGIC = b"ORC"
MOST_SCHEMA_BYTES = 64 << 20
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r")


class Columns(AnnotatedFormat):
    """Base of the formats of Arrow and Parquet: columns of lists."""

    dtypes = ALL_DTYPES - {"bfloat16", "complex64", "complex128"}
    # A list is two levels of a Parquet schema, of which pyarrow reads 100.
    deepest = 32
    level_names = True
    record = "record"
    options = frozenset({"field", "nulls", "float_decimals"})
    modules: ClassVar[tuple[str, ...]] = (
        "lodcli.formats.arrow.source",
        "lodcli.formats.arrow.sizes.ipc",
        "lodcli.formats.arrow.sizes.parquet",
        "pyarrow.compute",
    )

    def keeps_marks(self, spec: TensorSpec) -> bool:
        # Without rows no dictionary is written, only that there may be one.
        words = spec.marks.categories.words if spec.marks.categories is not None else ()
        return super().keeps_marks(spec) and not (words and spec.rows == 0)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            if 0 in spec.row_shape:
                raise UnsupportedError(
                    f"{self.name} holds no rows without values, those of {spec.name} have "
                    f"shape {spec.row_shape}"
                )

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.arrow.source import RecordSource, SeekableRecordSource

        records, seekable = self._records(source)
        kind = SeekableRecordSource if seekable else RecordSource
        return kind(records, options)

    def _records(self, source: Input) -> tuple[Records, bool]:
        raise NotImplementedError


class _Ipc(Columns):
    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.arrow.writer import arrow_schema, record_batches, write_ipc

        columns, items = arrow_schema(schema, options), dict[str, int]()
        records = record_batches(schema, batches, items)
        write_ipc(output, columns, records, stream=self.name == "arrow-stream")
        self.require_equal(items)


class ArrowFile(_Ipc):
    """An Arrow IPC file, which is also Feather version 2.

    A column is a tensor; a list, large list, list view, map or list of a fixed size is a
    level, and so is text or binary, of its bytes. Lists of a fixed size, fixed shape tensors
    and binary of a fixed size that hold only numbers are the shape of a row. Fields
    of structs are separate tensors, COLUMN.FIELD, over the same levels. Run ends and
    dictionaries are undone, but dictionaries of text are categories. Columns with the same
    lists share their levels. Of a null struct, every field is null; a column of the null type
    is read as booleans.

    Writing: large lists, and lists of a fixed size for the shape of a row. Level names are
    kept in the field's metadata as `lod.levels`. Several tensors need equally many outermost
    items; where they share no level, those that come first wait in memory.
    """

    name = "arrow"

    def sniff(self, head: bytes) -> bool:
        return head.startswith((FILE_MAGIC, FEATHER_1_MAGIC))

    def _records(self, source: Input) -> tuple[Records, bool]:
        if source.head().startswith(FEATHER_1_MAGIC):
            raise UnsupportedError(
                "is Feather version 1, which holds no lists; write it again with "
                "pyarrow.feather.write_feather"
            )
        from lodcli.formats.arrow.sizes.ipc import IpcFile

        return IpcFile(source, stream=False), True


class ArrowStream(_Ipc):
    """An Arrow IPC stream, from files and pipes. See ArrowFile."""

    name = "arrow-stream"

    def sniff(self, head: bytes) -> bool:
        size = int.from_bytes(head[4:8], "little")
        return head.startswith(STREAM_MAGIC) and 0 < size < MOST_SCHEMA_BYTES and size % 8 == 0

    def _records(self, source: Input) -> tuple[Records, bool]:
        from lodcli.formats.arrow.sizes.ipc import IpcFile, IpcPipe

        if source.seekable:
            return IpcFile(source, stream=True), True
        return IpcPipe(source), False


class Parquet(Columns):
    """A Parquet file. See ArrowFile; `--compress` takes Parquet's own codecs."""

    name = "parquet"
    write_options = frozenset({"compression"})

    def keeps_marks(self, spec: TensorSpec) -> bool:
        # Parquet has no seconds, and counts dates in days.
        unit = spec.marks.unit
        coarse = isinstance(unit, Times) and (
            (unit.unit == "s" and unit.kind != "duration")
            or (unit.kind, unit.unit) == ("date", "ms")
        )
        return super().keeps_marks(spec) and not coarse

    def sniff(self, head: bytes) -> bool:
        return head.startswith((PARQUET_MAGIC, ENCRYPTED_MAGIC))

    def _records(self, source: Input) -> tuple[Records, bool]:
        from lodcli.formats.arrow.sizes.parquet import ENCRYPTED, ParquetRecords

        if source.head().startswith(ENCRYPTED_MAGIC):
            raise UnsupportedError(ENCRYPTED)

        return ParquetRecords(source), True

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.arrow.writer import arrow_schema, record_batches, write_parquet

        codec = {None: "snappy", "deflate": "gzip"}.get(options.compression, options.compression)
        columns, items = arrow_schema(schema, options), dict[str, int]()
        write_parquet(output, columns, record_batches(schema, batches, items), codec)
        self.require_equal(items)


class Orc(Columns):
    """An ORC file, of Hive and Spark; reading only. See ArrowFile.

    Every value may be null. A file is read in a child process, a stripe at a time. Timestamps are
    read in nanoseconds; one outside of the years 1677 to 2262 is an error.
    """

    name = "orc"
    dtypes = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"})
    row_ranks = 0
    level_names = attributes = file_attributes = False
    kept_marks = frozenset({"bytes", "date", "decimal", "text", "timestamp"})
    read_only = "write parquet, which holds the same columns"
    modules = (*Columns.modules, "lodcli.formats.arrow.sizes.orc")
    # For the time zone of the program that wrote timestamps.
    descriptors = 1
    isolated = True

    def sniff(self, head: bytes) -> bool:
        # The magic number alone may be the beginning of a text.
        return head.startswith(ORC_MAGIC) and not _CONTROLS.isdisjoint(head[:64])

    def _records(self, source: Input) -> tuple[Records, bool]:
        from lodcli.formats.arrow.sizes.orc import OrcRecords

        return OrcRecords(source), True
