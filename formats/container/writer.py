"""Writes a container: rows as they arrive, then the header."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from h5py import h5t

from lodcli.formats.arrays.array_writer import ArraySpec, ArrayWriter
from lodcli.formats.arrays.masks import MaskWriter
from lodcli.formats.container import header
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.header import Header
from lodcli.formats.container.marked_arrays import write_words
from lodcli.formats.container.sinks import ChunkedSink, ContiguousSink, Sink
from lodcli.formats.container.written_file import WrittenFile
from lodcli.formats.core.schema import Batch, LevelSpec, Schema
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

    Datasets of known size get their place at once and are written in place. Others wait in a
    nameless file beside the target until their size is known; one that is large is written
    where it is going to be.

    Args:
        output: where to; must be seekable.
        schema: what the batches hold together.
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


def _finish(
    file: WrittenFile,
    schema: Schema,
    arrays: dict[str, tuple[ArraySpec, Sink]],
    attributes: str,
) -> None:
    """Write what remains and the header, and close the file."""
    for array, sink in sorted(arrays.values(), key=lambda found: not found[1].placed):
        sink.complete(array.rows or 0)
    entries = {path: sink.entry() for path, (_, sink) in arrays.items()}
    text = header.encode(Header(schema, entries, attributes))
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
