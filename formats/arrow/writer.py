"""Converts tensors to Arrow records: a large list per level, a fixed-size list per row axis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lodcli.formats.arrow.files import brief
from lodcli.formats.arrow.huggingface import (
    as_type,
    featured,
    with_attributes,
    with_file_attributes,
)
from lodcli.formats.arrow.labels import with_labels
from lodcli.formats.arrow.layout import has_dictionary
from lodcli.formats.arrow.sizes.parquet_repeats import repeating_leaves
from lodcli.formats.arrow.structs import array_of, column_of, field_of
from lodcli.formats.core.errors import naming
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.storage.file_objects import Sink
from lodcli.formats.storage.outputs import Output
from lodcli.formats.structs.tree import tree
from lodcli.formats.values.file_attributes import parsed
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.runtime.memory_budget import at_most
from lodcli.kernels.tensor.exchange.arrow import arrow_array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import MOST_WORD_BYTES

# Readers read one row group at a time, and few of them parts of one.
ROW_GROUP_BYTES = 16 << 20
NO_OPTIONS = WriteOptions()


def arrow_schema(
    schema: Schema, options: WriteOptions = NO_OPTIONS, *, labels: bool = False
) -> pa.Schema:
    """Return the columns that hold these tensors; nullable as their specs are.

    Args:
        options: its attributes of the file are stored in the metadata of the schema.
        labels: whether categories become class labels of Hugging Face instead of dictionaries.
    """
    schema = with_labels(schema, always=labels)
    nodes, attributes, columns = tree(schema), _attributes(schema), _leaves(schema)
    # The tensor that marks null records has no attributes.
    said = {
        node.name: [attributes[spec.name] for spec in node.specs if not spec.marks.tells_records]
        for node in nodes
    }
    found = featured(pa.schema([field_of(node, columns) for node in nodes]), said)
    return with_file_attributes(found, parsed(options.attributes))


def _attributes(schema: Schema) -> dict[str, dict[str, Any]]:
    return {spec.name: json.loads(spec.marks.attributes or "{}") for spec in schema}


def _leaves(schema: Schema) -> pa.Schema:
    """Return the tensors as columns, each with all its levels."""
    attributes = _attributes(schema)
    return pa.schema(with_attributes(column_of(spec), attributes[spec.name]) for spec in schema)


def record_batches(
    schema: Schema, batches: Iterable[Batch], items: dict[str, int], *, labels: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the tensors; a record is buffered until every tensor has its part.

    Args:
        items: is filled with the number of outermost items of each tensor.
        labels: see `arrow_schema`.
    """
    schema = with_labels(schema, always=labels)
    specs = {spec.name: spec for spec in schema}
    nodes, columns, made = tree(schema), _leaves(schema), arrow_schema(schema)
    own = [field_of(node, columns) for node in nodes]
    waiting: dict[str, list[pa.Array]] = {name: [] for name in columns.names}
    for batch in batches:
        for name, item in batch.items():
            assert isinstance(item, LoDTensor)
            items[name] = items.get(name, 0) + len(item)
            if len(item):
                waiting[name].append(_array(item, specs[name], columns))
        while all(waiting.values()):
            count = min(len(arrays[0]) for arrays in waiting.values())
            parts = {name: _taken(arrays, count) for name, arrays in waiting.items()}
            found = [
                as_type(array_of(node, field, parts), wanted.type)
                for node, field, wanted in zip(nodes, own, made, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(found, schema=made)


def _array(tensor: LoDTensor, spec: TensorSpec, columns: pa.Schema) -> pa.Array:
    rows = tensor.values
    if tensor.marks.categories is not None:
        rows = rows.astype(spec.dtype, copy=False)  # int64 for class labels
    kind = columns.field(spec.name).type
    with naming(spec.name):
        return arrow_array(rows, tensor.lod, kind, tensor.nulls, spec.marks)


def _taken(arrays: list[pa.Array], count: int) -> pa.Array:
    array = arrays.pop(0)
    if len(array) > count:
        arrays.insert(0, array.slice(count))
    return array.slice(0, count)


def write_ipc(
    output: Output, columns: pa.Schema, records: Iterable[pa.RecordBatch], *, stream: bool
) -> None:
    """Write record batches as an Arrow IPC file or stream."""
    making = pa.ipc.new_stream if stream else pa.ipc.new_file
    # Otherwise a batch holds fewer than 2^31 rows, even within its lists; an item may have more.
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    with _sink(output) as sink, making(sink, columns, options=options) as writer:
        for batch in records:
            writer.write_batch(batch)


def or_empty(records: Iterable[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield record batches; an empty one if there are none."""
    batch = None
    for batch in records:
        yield batch
    if batch is None:
        arrays = [pa.nulls(0, field.type) for field in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def write_parquet(
    output: Output, columns: pa.Schema, records: Iterable[pa.RecordBatch], codec: str | None
) -> None:
    """Write record batches as Parquet, in row groups of about ROW_GROUP_BYTES.

    They are smaller if the memory budget is small.
    """
    with _sink(output) as sink:
        groups = _groups(records)
        first = next(groups, [])
        with _refusals():
            writer = pq.ParquetWriter(
                sink,
                columns,
                compression=codec,
                write_page_checksum=True,
                use_dictionary=repeating_leaves(columns, first),
                # Larger than any dictionary of categories, which would otherwise fall back to
                # plain encoding.
                dictionary_pagesize_limit=4 * MOST_WORD_BYTES if _has_words(columns) else None,
            )
        with writer:
            for group in chain([first] if first else [], groups):
                _write_group(writer, group)
                group.clear()  # while the next one is gathered


def _groups(records: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the record batches of each row group."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in records:
        gathered.append(batch)
        size += batch.nbytes
        if size >= at_most(ROW_GROUP_BYTES, 8):
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _write_group(writer: pq.ParquetWriter, batches: list[pa.RecordBatch]) -> None:
    with _refusals():
        writer.write_table(pa.Table.from_batches(batches))


@contextmanager
def _refusals() -> Iterator[None]:
    """Convert pyarrow's errors for values that Parquet does not hold to UnsupportedError."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedError(_NOT_HELD.format(brief(error))) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise UnsupportedError(_NOT_HELD.format(brief(error))) from None


_NOT_HELD = "Parquet cannot hold these values ({}); write them as arrow, or leave out the column"


def _has_words(columns: pa.Schema) -> bool:
    return any(has_dictionary(field.type) for field in columns)


@contextmanager
def _sink(output: Output) -> Iterator[pa.PythonFile]:
    """Yield the output as a file for pyarrow; errors of the output are re-raised unchanged."""
    sink = Sink(output)
    with sink.raising(), pa.PythonFile(sink, "w") as file:
        yield file
