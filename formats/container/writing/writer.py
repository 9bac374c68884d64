"""Writes a container: rows as they arrive, or copied from another container, then the header."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

from lodcli.formats.arrays.array_writer import ArraySpec, ArrayWriter
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.masks import MaskWriter
from lodcli.formats.container import header
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.header import Header
from lodcli.formats.container.marked_arrays import write_words
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.container.rows import Rows
from lodcli.formats.container.writing.sinks import (
    ChunkedSink,
    ContiguousSink,
    Sink,
    contiguous,
)
from lodcli.formats.container.writing.written_file import WrittenFile
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, rekeyed
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.runtime.garbage import no_search_for_garbage


def write_container(
    output: Output,
    schema: Schema,
    batches: Iterable[Batch],
    compression: str | None,
    attributes: str | None,
) -> None:
    """Write all batches and the header; the caller commits.

    Contiguous datasets of known size are placed at once and written in place. Others are buffered
    in an anonymous file beside the target until their size is known; a large one is written at its
    final position.

    Args:
        output: the target; must be seekable.
        compression: None for contiguous datasets, else a codec.
        attributes: of the file, as text.
    """
    if compression is not None and compression not in CODECS:
        raise UnsupportedError(f"no codec {compression!r}; there are: {', '.join(CODECS)}")
    file = WrittenFile(output)

    def open_sink(array: ArraySpec) -> Sink:
        # HDF5 cannot store chunks of rows without bytes if another axis is long.
        if compression is None or 0 in array.row_shape:
            return ContiguousSink(file, array)
        return ChunkedSink(file, array, compression)

    try:
        with no_search_for_garbage():
            writer = ArrayWriter(
                _placed(schema),
                header.data_path,
                open_sink,
                order_name=lambda name: header.part_path(name, "order"),
                nulls=True,
            )
        masks = MaskWriter(schema, open_sink, header.mask_path, packed=True)
        writer.write(masks.watched(batches))
        with no_search_for_garbage():
            schema, arrays = writer.finish()
            arrays |= masks.finish()
            _complete(arrays)
            words = write_words(schema, open_sink)
            _complete(words)
            sinks = {path: sink for path, (_, sink) in (arrays | words).items()}
            entries = {path: sink.entry() for path, sink in sinks.items()}
            text = header.encode(Header(schema, entries, attributes or ""))
            file.finish({path: sink.placed() for path, sink in sinks.items()}, text)
    finally:
        file.close()


def copy_container(
    output: Output, source: ContainerSource, attributes: str | None
) -> Generator[tuple[int, int], None, None]:
    """Copy all tensors and yield the rows and bytes that were copied; the caller commits.

    The bytes equal those of `write_container` for the same tensors. Threads read pieces that fit
    the processor's cache, verify them and write them to their position.

    Args:
        output: the target; must be seekable.
        source: the container; its `copyable` is true.
        attributes: of the file, as text.

    Raises:
        DamagedFileError, InvalidDataError: as reading the tensors does.
    """
    schema = _placed(rekeyed(source.schema))
    file = WrittenFile(output)
    try:
        copied = {path: (rows, file.place(_size(rows))) for path, rows in _of(source, schema)}
        for spec in source.schema:
            for _ in source.index_parts(spec.name):
                yield 0, 0
        data = {header.data_path(spec.name) for spec in schema}
        for path, (rows, offset) in copied.items():
            with closing(rows.check_all(partial(_put, output, offset))) as checked:
                for count in checked:
                    yield (count, count * rows.row_bytes) if path in data else (0, 0)
        entries = {path: rows.entry for path, (rows, _) in copied.items()}
        placed = {
            path: contiguous(rows.entry.dtype, rows.entry.shape, offset, _size(rows))
            for path, (rows, offset) in copied.items()
        }
        file.finish(placed, header.encode(Header(schema, entries, attributes or "")))
    finally:
        file.close()


def _of(source: ContainerSource, schema: Schema) -> Iterator[tuple[str, Rows]]:
    """Yield the path of each dataset to write, in order, and its rows in the source."""
    seen = set[str]()
    for spec, old in zip(schema, source.schema, strict=True):
        path = header.data_path(spec.name)
        pairs = [
            (path, path),
            *((a.key, b.key) for a, b in zip(spec.levels, old.levels, strict=True)),
        ]
        for path, stored in pairs:
            if path not in seen:
                seen.add(path)
                yield path, source.rows_at(stored)


def _size(rows: Rows) -> int:
    """Return the bytes of all rows of a dataset."""
    return rows.entry.shape[0] * rows.row_bytes


def _put(output: Output, offset: int, part: Bytes, position: int) -> None:
    output.write_at(part.data, offset + position)


def _complete(arrays: Mapping[str, tuple[ArraySpec, Sink]]) -> None:
    """Complete datasets: first one whose rows have a reserved position."""
    for array, sink in sorted(arrays.values(), key=lambda found: not found[1].begun):
        sink.complete(array.rows or 0)


def _placed(schema: Schema) -> Schema:
    """Return the schema with the paths of their offsets as the keys of its levels."""
    known: dict[str, str] = {}

    def paths(levels: tuple[LevelSpec, ...], name: str, part: str) -> tuple[LevelSpec, ...]:
        placed = []
        for number, level in enumerate(levels):
            own = header.part_path(name, f"{part}/{number}")
            placed.append(replace(level, key=known.setdefault(level.key, own)))
        return tuple(placed)

    return tuple(
        replace(
            spec,
            levels=paths(spec.levels, spec.name, "index"),
            outer=paths(spec.outer, spec.name, "outer"),
        )
        for spec in schema
    )
