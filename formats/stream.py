"""The lod stream: what travels in pipes between commands. docs/stream.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from lodcli.formats.base import Format, Source
from lodcli.formats.frames import looks_like_stream
from lodcli.formats.inputs import Input
from lodcli.formats.options import ReadOptions, WriteOptions
from lodcli.formats.outputs import Output
from lodcli.formats.schema import Batch, Schema
from lodcli.formats.stream_reader import StreamSource
from lodcli.formats.stream_writer import write_stream


class LodStream(Format):
    """Checked frames, written and read front to back, complete only with its trailer.

    Written little-endian in C order; data of another byte order or layout arrives native
    and C-ordered.
    """

    name: ClassVar[str] = "lod.stream"
    suffixes: ClassVar[tuple[str, ...]] = (".lods",)
    checksums = "CRC32C of every frame"
    many: ClassVar[bool] = True
    arrays: ClassVar[bool] = True
    level_names: ClassVar[bool] = True

    def sniff(self, head: bytes) -> bool:
        """See Format."""
        return looks_like_stream(head)

    def open(self, source: Input, options: ReadOptions) -> Source:
        """See Format."""
        return StreamSource(source)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        """See Format."""
        write_stream(output, schema, batches)
