"""zarr and zarr-zip: a group for each tensor, with its rows and its offsets as arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from lodcli.formats.arrays.flat_arrays import FLAT_OPTIONS
from lodcli.formats.catalogue.packages import Package
from lodcli.formats.core.format import AnnotatedFormat, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.npz.npy_header import NPY_DTYPES
from lodcli.formats.storage.file_objects import Sink
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.zip_archive import first_name
from lodcli.formats.values.file_attributes import parsed
from lodcli.formats.zarr.attributes import refuse_long_names
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.options import option

PACKAGE = Package("zarr", "lodcli[zarr]")
_MODULES = ("lodcli.formats.zarr.arrays", "lodcli.formats.zarr.stores", "numpy.ma")
# A constant time, so that files of equal tensors are equal.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


class _Store(AnnotatedFormat):
    """Base of the formats for Zarr: a folder and a zip file."""

    checksums = "XXH64 of every chunk"
    dtypes = NPY_DTYPES
    level_names = True
    options = FLAT_OPTIONS
    # numcodecs decodes unchecked bytes in C.
    isolated = True
    needs = (PACKAGE,)


class Zarr(_Store):
    """A folder of Zarr: `NAME/data`, `NAME/lod.0`, `NAME/lod.1`, .. for each tensor.

    When reading, any other array is a tensor without levels, or --data, --offsets and --lengths
    name the arrays, as in npz; stores of version 2 can be read too. A missing chunk has the fill
    value; in a store that lod wrote it is an error, since lod writes all chunks.

    Writing: version 3, in shards of 8 MB, chunks of 512 KB, each compressed with zstd and with a
    checksum. Names of levels and marks are attributes of the root. Arrays are first written to an
    unnamed temporary file, because the size of an array must be known.
    """

    name = "zarr"
    layout = "folder"
    folder_files = r"zarr\.json|(?:[^/]+/)*(?:zarr\.json|c(?:/[0-9]+)*)"
    modules = _MODULES

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        refuse_long_names(schema)

    def open(self, source: Input, options: ReadOptions) -> Source:
        if not source.is_folder:
            raise UnsupportedError(
                f"zarr is a folder; read a zip of one with {option('from', 'zarr-zip')}"
            )
        from lodcli.formats.zarr.arrays import ZarrSource
        from lodcli.formats.zarr.stores import FolderStore

        return ZarrSource(FolderStore(source), options, source.bounds)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.zarr.writer import write_arrays

        def put(key: str, value: Any) -> None:
            with output.part(key) as part:
                part.write(value)

        write_arrays(output, schema, batches, put, parsed(options.attributes))


class ZarrZip(_Store):
    """The same in one zip file, whose members are not compressed again. See Zarr."""

    name = "zarr-zip"
    modules = (*_MODULES, "encodings.cp437")
    # For the event loop.
    descriptors = 16

    def sniff(self, head: bytes) -> bool:
        return first_name(head).rpartition(b"/")[2] in (b"zarr.json", b".zgroup", b".zarray")

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.zarr.arrays import ZarrSource
        from lodcli.formats.zarr.stores import ZipStore

        return ZarrSource(ZipStore(source), options, source.bounds)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.zarr.writer import write_arrays

        sink = Sink(output)
        with ExitStack() as stack:
            stack.enter_context(sink.raising())
            archive = stack.enter_context(zipfile.ZipFile(sink, "w"))

            def put(key: str, value: Any) -> None:
                with archive.open(zipfile.ZipInfo(key, _NO_TIME), "w", force_zip64=True) as member:
                    member.write(value)

            write_arrays(output, schema, batches, put, parsed(options.attributes))
