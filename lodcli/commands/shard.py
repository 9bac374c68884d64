"""`lod shard`: a file as a dataset, a folder of containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from lodcli.formats.core.options import WriteOptions
from lodcli.shell import options
from lodcli.shell.command import CODECS
from lodcli.shell.limits import SIZE
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lodcli.formats.core.schema import Batch, Schema


@click.command(cls=options.Command)
@options.source
@click.argument("folder", type=options.FOLDER)
@click.option(
    "--shards",
    type=click.IntRange(1, 10**6),
    metavar="N",
    help="Divide into N shards, about equal in bytes.",
)
@click.option(
    "--shard-size",
    type=SIZE,
    metavar="SIZE",
    help="Maximum size of the rows and offsets of a shard, such as 64M [default: 256M].",
)
@options.level
@click.option(
    "--compress",
    type=click.Choice(CODECS),
    metavar="[CODEC]",
    help=f"Compress the shards: {', '.join(CODECS)} [default codec: deflate].",
)
@click.option("-f", "--force", is_flag=True, help="Replace FOLDER if it is a dataset.")
@options.as_json
@options.quiet
def command(
    source: Reference,
    folder: str,
    shards: int | None,
    shard_size: int | None,
    level: int | str | None,
    compress: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Divide SOURCE into a dataset: FOLDER with shards, and a manifest that counts their items.

    \b
    Examples:
      lod shard vowels.lod.h5 shards --shards 4
      lod shard articles.lod.h5 by-size --shard-size 64M --level sentence
      lod slice shards 200 --to jsonl
      lod concat shards -o joined.lod.h5

    Every command reads a dataset like a file, and opens only the shards that it needs. A shard is
    a lod.h5 of some of the outermost items, in all tensors that have as many. With --level the
    items of that level become the outermost. FOLDER appears when everything is written.
    """
    if not folder:
        raise click.BadParameter("is empty; name a folder", param_hint="FOLDER")
    if shards is not None and shard_size is not None:
        raise click.UsageError("--shards and --shard-size exclude each other")
    if shard_size == 0:
        raise click.BadParameter("a shard must hold at least 1 byte", param_hint="--shard-size")
    chosen = WriteOptions(compression=compress, shards=shards, shard_bytes=shard_size)
    target = Target(folder, "lod.dataset", force, options=chosen)
    target.check()
    with _content(source, level) as (schema, batches):
        target.write(schema, batches)
    if as_json:
        target.report()


@contextmanager
def _content(
    source: Reference, level: int | str | None
) -> Iterator[tuple[Schema, Iterable[Batch]]]:
    """Yield the schema and the batches to divide; tensors that belong together share a batch."""
    from lodcli.commands.choose.choosing import items_of, named
    from lodcli.formats.dataset.writer import items_together
    from lodcli.formats.items.indexed_copy import in_place
    from lodcli.shell.opened import opened

    if level is not None:
        with items_of(source, level) as items:
            yield items.schema, named(source, items.range(0, items.count))
        return
    with opened(source) as file:
        names = [spec.name for spec in file.schema]
        found = in_place(file.source, names)
        if found is None or any(spec.array for spec in file.schema):
            yield file.schema, file.batches()
        else:
            yield file.schema, named(source, items_together(found, names))
