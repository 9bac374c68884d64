"""Divides a source into parts that are computed separately."""

from __future__ import annotations

import os
from typing import NamedTuple

import click

from lodcli.formats.container.format import Container
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core.errors import from_item
from lodcli.formats.core.limits import declared_bytes
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.source import DatasetSource
from lodcli.formats.remote.urls import is_url
from lodcli.formats.storage.inputs import Input
from lodcli.shell.jobs.fingerprint import file_digest
from lodcli.shell.references import Reference

# The number of parts depends only on the content of a file: _PARTS, or more if parts would be
# larger than _PART_BYTES.
_PARTS = 16
_PART_BYTES = 64 << 20


class Division(NamedTuple):
    """The parts of a source.

    Attributes:
        sources: a reference to each part.
        labels: the name of each in errors that count its items.
        rows: the approximate number of rows of each.
        digest: of the content of all parts.
    """

    sources: list[Reference]
    labels: list[str]
    rows: list[int]
    digest: str


def divided(source: Reference, option: str) -> Division:
    """Return the shards of a dataset, or the parts of a lod.h5 file.

    Args:
        option: the option that needs the parts, for the message.

    Raises:
        click.UsageError: the source is neither.
        DamagedFileError: a shard does not match the manifest, or the header of the file is damaged.
    """
    path = source.path
    if os.path.isfile(manifest := os.path.join(path, manifests.NAME)):
        return _of_dataset(source, manifest)
    if path != "-" and not is_url(path):
        with Input(path) as file:
            if not file.is_folder and Container().sniff(file.head()):
                return _of_file(source, file)
    raise click.UsageError(
        f"{option} computes the shards of a dataset, or parts of a lod.h5 file, and "
        f"{source.label} is neither; `lod convert` makes one"
    )


def _of_dataset(source: Reference, manifest: str) -> Division:
    with Input(source.path) as folder:
        dataset = DatasetSource(folder)
        try:
            dataset.check()
        finally:
            dataset.close()
    names = dataset.shard_names
    shards = [Reference(os.path.join(source.path, name), source.name) for name in names]
    return Division(
        shards,
        [shard.label for shard in shards],
        [dataset.shard_rows(number) for number in range(len(names))],
        file_digest(manifest),
    )


def _of_file(source: Reference, file: Input) -> Division:
    found = ContainerSource(file.make_seekable().fileno(), file.label)
    size_bytes = sum(map(declared_bytes, found.schema))
    items = max((spec.items or 0 for spec in found.schema), default=0)
    count = max(1, min(items, max(_PARTS, -(-size_bytes // _PART_BYTES))))
    rows = sum(spec.rows or 0 for spec in found.schema)
    return Division(
        [Reference(source.path, source.name, "lod.h5", (n, count)) for n in range(count)],
        [from_item(source.label, items * n // count) for n in range(count)],
        [rows // count] * count,
        f"{found.header_crc32c:08x}",
    )
