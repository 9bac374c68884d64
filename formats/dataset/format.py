"""lod.dataset: a folder of containers and a manifest, as a format."""

from __future__ import annotations

from collections.abc import Iterable

from lodcli.formats.container.format import Container
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError


class Dataset(Container):
    """Shards, which are containers of some of the outermost items each: docs/datasets.md.

    Tensors with equally many outermost items are divided alike. A tensor with another number of
    them is whole, or divided elsewhere.
    """

    name = "lod.dataset"
    arrays = False
    options = frozenset()
    write_options = frozenset({"compression", "shards", "shard_bytes"})
    seekable_output = False
    layout = "folder"
    folder_files = r"data-[0-9]{5,}-of-[0-9]{5,}\.lod\.h5|manifest\.lod\.h5"
    sniff = Format.sniff  # detected by its manifest
    copy = Format.copy  # shards hold parts of the rows

    def stored_bytes(self, source: Input) -> int | None:
        # Not computed: no shard declares more than its bytes can hold, and there may be a million.
        return None

    def open(self, source: Input, options: ReadOptions) -> Source:
        if not source.is_folder:
            raise UnsupportedError("lod.dataset is a folder with a manifest; name the folder")
        from lodcli.formats.dataset.source import DatasetSource

        return DatasetSource(source)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.dataset.writer import write_dataset

        write_dataset(output, schema, batches, options)
