"""lod.h5: the container as a format."""

from __future__ import annotations

from collections.abc import Iterable

from lodcli.formats.base import Format, Source
from lodcli.formats.container.types import NAMES
from lodcli.formats.inputs import Input
from lodcli.formats.options import ReadOptions, WriteOptions
from lodcli.formats.outputs import Output
from lodcli.formats.schema import Batch, Schema

SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Container(Format):
    """HDF5 with checked header, index and rows: docs/format.md."""

    name = "lod.h5"
    suffixes = (".lod.h5",)
    checksums = "CRC32C of header, index and rows"
    dtypes = NAMES
    row_ranks = 31
    many = True
    arrays = True
    level_names = True
    options = frozenset({"mmap"})
    write_options = frozenset({"compression"})
    seekable_output = True
    modules = (
        "lodcli.formats.container.reader",
        "lodcli.formats.on_pyarrow.codecs",
        "pyarrow",
    )

    def sniff(self, head: bytes) -> bool:
        return head.startswith(SIGNATURE)

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.container.reader import ContainerSource

        fd = source.make_seekable().fileno()
        return ContainerSource(fd, source.label, mmap=bool(options.mmap))

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.container.reader import ContainerSource
        from lodcli.formats.container.writer import write_container

        write_container(output, schema, batches, options.compression)
        # What we would refuse to read must not get its name.
        ContainerSource(output.fd, output.label).close()
