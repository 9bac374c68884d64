"""`lod explode`: an item for each value of a list."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@click.argument("tensors", nargs=-1, metavar="[TENSOR]...", shell_complete=options.complete_tensors)
@options.target
def command(source: Reference, tensors: tuple[str, ...], target: Target) -> None:
    """Write an item for each value of the lists of SOURCE, the inverse of `lod group`.

    \b
    Examples:
      lod explode chat.jsonl ids -o ids.parquet
      lod explode articles.lod.h5 -o sentences.lod.h5
      lod group clicks.csv --by user | lod explode - -o clicks_by_user.csv

    The lists of each item have equal lengths; all other tensors are repeated for each value. With
    TENSOR (or records), or with SOURCE::TENSOR, only its lists are exploded, and other lists are
    repeated as a whole. Items whose lists are empty or null are left out. The values of nested
    lists are the inner lists, those of lists of records the records.
    """
    from lodcli.commands.choose.choosing import items_or_batches, require_shared
    from lodcli.commands.keys.exploding import exploded, exploded_schema, lists_of, tensors_of
    from lodcli.formats.core.errors import naming_file
    from lodcli.shell.opened import opened

    with opened(source) as file, naming_file(source.label):
        chosen = tensors if source.name is None else (source.name, *tensors)
        names = tensors_of(file.source.schema, chosen)
        with items_or_batches(file, None, names) as (shared, _, batches):
            require_shared(shared, names)
            lists = lists_of(shared.schema, names)
            target.write(exploded_schema(shared.schema, lists), exploded(batches, lists))
