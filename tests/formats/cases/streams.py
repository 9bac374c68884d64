"""Streams in memory, for tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Item, ReadItem, Schema, StoredArray, schema_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.stream.format import LodStream
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def written(schema: Schema, batches: Iterable[Batch]) -> bytes:
    """Return the stream of these batches."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.lods")
        with Output(path) as output:
            LodStream().write(output, schema, batches, WriteOptions())
        return path.read_bytes()


def stream_of(items: Mapping[str, Item]) -> bytes:
    """Return the stream of these tensors, given all at once."""
    return written(schema_of(items), [items])


def batches_of(raw: bytes, limit_bytes: int = BATCH_BYTES) -> list[Batch]:
    """Return all batches of a stream."""
    with _input(raw) as source, naming(source.label):
        return list(LodStream().open(source, ReadOptions()).batches(limit_bytes))


def read(raw: bytes) -> dict[str, ReadItem]:
    """Return the content of a stream."""
    with _input(raw) as source, naming(source.label):
        return LodStream().open(source, ReadOptions()).read()


def schema_in(raw: bytes) -> Schema:
    """Return the schema of a stream."""
    with _input(raw) as source:
        return LodStream().open(source, ReadOptions()).schema


def same(a: Item, b: Item) -> bool:
    """Return whether two items agree bit for bit, with their marks and nulls."""
    if isinstance(a, LoDTensor):
        return isinstance(b, LoDTensor) and a.identical(b)
    assert isinstance(b, StoredArray)
    return a.array.identical(b.array) and a.index_map == b.index_map


def _input(raw: bytes) -> Input:
    fd, name = tempfile.mkstemp()
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(raw)
        return Input(name)
    finally:
        os.unlink(name)
