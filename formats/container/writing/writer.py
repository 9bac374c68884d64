"""Writes a container: rows as they arrive, or copied from another container, then the header."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from h5py import h5t

from lodcli.formats.arrays.array_writer import ArraySpec, ArrayWriter
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.masks import MaskWriter
from lodcli.formats.container import header
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.header import Header
from lodcli.formats.container.marked_arrays import write_words
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.container.rows import Rows
from lodcli.formats.container.writing.hdf5_types import hdf5_type
from lodcli.formats.container.writing.sinks import ChunkedSink, ContiguousSink, Sink
from lodcli.formats.container.writing.written_file import WrittenFile
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, rekeyed
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError


def write_container(
    output: Output,
    schema: Schema,
    batches: Iterable[Batch],
    compression: str | None,
    attributes: str | None = None,
) -> None:
    """Write all batches and the header; the caller commits.

    Contiguous datasets of known size are placed at once and written in place. Others are buffered
    in an anonymous file beside the target until their size is known; a large one is written at its
    final position.

    Args:
        output: the target; must be seekable.
        schema: the tensors in the batches.
        batches: see Source.
        compression: None for contiguous datasets, else a codec.
        attributes: of the file, as text.
    """
    if compression is not None and compression not in CODECS:
        raise UnsupportedError(f"no codec {compression!r}; there are: {', '.join(CODECS)}")
    if compression in ("lz4", "zstd"):
        from lodcli.formats.container.hdf5plugin import register

        register(compression)
    kind: type[Sink] = ChunkedSink if compression else ContiguousSink
    file = WrittenFile(output, compression)
    try:
        with output.naming():
            file.open()
            writer = ArrayWriter(
                _placed(schema),
                header.data_path,
                lambda array: kind(file, array),
                order_name=lambda name: header.part_path(name, "order"),
                nulls=True,
            )
        masks = MaskWriter(schema, lambda array: kind(file, array), header.mask_path, packed=True)
        writer.write(masks.watched(batches))
        schema, arrays = writer.finish()
        with output.naming():
            words = write_words(schema, lambda array: kind(file, array))
            _finish(file, schema, arrays | masks.finish() | words, attributes or "")
    finally:
        file.close()


def copy_container(
    output: Output, source: ContainerSource, attributes: str | None = None
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
    file = WrittenFile(output, None)
    try:
        with output.naming():
            file.open()
            copied = {path: (rows, _place(file, path, rows)) for path, rows in _of(source, schema)}
        for spec in source.schema:
            for _ in source.index_parts(spec.name):
                yield 0, 0
        data = {header.data_path(spec.name) for spec in schema}
        for path, (rows, offset) in copied.items():
            with closing(rows.check_all(partial(_put, output, offset))) as checked:
                for count in checked:
                    yield (count, count * rows.row_bytes) if path in data else (0, 0)
        entries = {path: rows.entry for path, (rows, _) in copied.items()}
        with output.naming():
            _write_header(file, Header(schema, entries, attributes or ""))
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


def _place(file: WrittenFile, path: str, rows: Rows) -> int:
    """Create a dataset for these rows, and return its position in the file; 0 without bytes."""
    with shielded():
        dataset = file.create(path, hdf5_type(rows.entry.dtype), rows.entry.shape)
        return dataset.get_offset() or 0


def _put(output: Output, offset: int, part: Bytes, position: int) -> None:
    output.write_at(part.data, offset + position)


def _finish(
    file: WrittenFile, schema: Schema, arrays: dict[str, tuple[ArraySpec, Sink]], attributes: str
) -> None:
    """Complete all datasets, and write the header."""
    for array, sink in sorted(arrays.values(), key=lambda found: not found[1].begun):
        sink.complete(array.rows or 0)
    entries = {path: sink.entry() for path, (_, sink) in arrays.items()}
    _write_header(file, Header(schema, entries, attributes))


def _write_header(file: WrittenFile, content: Header) -> None:
    """Write the header, which comes last, and close the file."""
    text = header.encode(content)
    with shielded():
        kind = h5t.C_S1.copy()
        kind.set_size(len(text))
        kind.set_strpad(h5t.STR_NULLPAD)
        offset = file.create(header.PATH, kind, ()).get_offset()
    file.pwrite(memoryview(text), offset)
    file.close()
    file.raise_error()


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
