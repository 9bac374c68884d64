"""lod.h5: the container as a format."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from lodcli.formats.container.parser import LONGEST_NAME
from lodcli.formats.container.types import NAMES
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import AnnotatedFormat, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.core.table import HDF5_MAGIC
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.runtime.garbage import no_search_for_garbage

if TYPE_CHECKING:
    from lodcli.formats.container.reader import ContainerSource


class Container(AnnotatedFormat):
    """HDF5 with checked header, index and rows: docs/format.md."""

    name = "lod.h5"
    checksums = "CRC32C of header, index and rows"
    dtypes = NAMES
    row_ranks = 31
    arrays = True
    level_names = True
    options = frozenset({"mmap", "part"})
    write_options = frozenset({"compression"})
    seekable_output = True
    modules = (
        "lodcli.formats.arrays.part",
        "lodcli.formats.container.alike",
        "lodcli.formats.container.reader",
        "lodcli.formats.container.small_indexes",
        "lodcli.formats.arrow.sizes.codecs",
        "pyarrow",
    )

    def sniff(self, head: bytes) -> bool:
        return head.startswith(HDF5_MAGIC)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            size = len(spec.name.encode())
            if size > LONGEST_NAME:
                raise UnsupportedError(
                    f"{spec.name}: this name has {size} bytes in UTF-8, {self.name} holds names of "
                    f"at most {LONGEST_NAME}; `lod rename` it first"
                )

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.arrays.part import Part
        from lodcli.formats.container.reader import ContainerSource

        fd = source.make_seekable().fileno()
        with no_search_for_garbage():
            found = ContainerSource(fd, source.label, mmap=bool(options.mmap))
        return found if options.part is None else Part(found, *options.part)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.container.writing.writer import write_container

        write_container(output, schema, batches, options.compression, options.attributes)
        _check(output)

    def copy(
        self, output: Output, source: Source, options: WriteOptions
    ) -> Generator[tuple[int, int], None, None] | None:
        from lodcli.formats.container.reader import ContainerSource

        if options.compression or not isinstance(source, ContainerSource) or not source.copyable:
            return None
        return _copied(output, source, options.attributes)


def _copied(
    output: Output, source: ContainerSource, attributes: str | None
) -> Generator[tuple[int, int], None, None]:
    from lodcli.formats.container.writing.writer import copy_container

    yield from copy_container(output, source, attributes)
    _check(output)


def _check(output: Output) -> None:
    """Raise an error if the written file cannot be read, before it is renamed to its target."""
    from lodcli.formats.container.structure import structure_of

    with output.naming(), naming(output.label), no_search_for_garbage():
        structure_of(output.fd)
