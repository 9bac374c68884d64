"""lod.stream: the format of pipes between commands. docs/stream.md."""

from __future__ import annotations

from collections.abc import Iterable

from lodcli.formats.core.format import AnnotatedFormat, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.stream.frames import looks_like_stream
from lodcli.formats.stream.reader import StreamSource
from lodcli.formats.stream.writer import write_stream


class LodStream(AnnotatedFormat):
    """Checked frames, written and read front to back, complete only with its trailer.

    Written little-endian and in C order; data of another byte order or layout is converted.
    """

    name = "lod.stream"
    checksums = "CRC32C of every frame"
    arrays = True
    level_names = True

    def sniff(self, head: bytes) -> bool:
        return looks_like_stream(head)

    def open(self, source: Input, options: ReadOptions) -> Source:
        return StreamSource(source)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        write_stream(
            output, schema, batches, attributes=options.attributes or "", shares_memory=True
        )
