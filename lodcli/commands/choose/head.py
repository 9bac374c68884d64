"""`lod head`: the first items."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@options.items
@options.level
@options.target
def command(source: Reference, count: int, level: int | str | None, target: Target) -> None:
    """Write the first items of SOURCE, from all tensors that share them.

    \b
    Examples:
      lod head articles.lod.h5 -n 3 -o three.lod.h5
      lod head articles.lod.h5 -n 3 --level sentence | lod inspect -
      lod head articles.lod.h5 -n -1 -o without_the_last.lod.h5

    Items are sequences of the outermost level, or of --level. A pipe is read only as far as needed.
    """
    from lodcli.commands.choose.branches import write_range
    from lodcli.commands.choose.choosing import increasing_items_of, items_or_stream
    from lodcli.formats.items.streaming import first_items

    if count < 0:
        with increasing_items_of(source, level) as items:
            write_range(target, source, items, 0, max(0, items.count + count))
        return
    with items_or_stream(source, level) as (shared, found, batches):
        if found is None:
            target.write(shared.schema, first_items(batches, count))
        else:
            write_range(target, source, found, 0, min(count, found.count))
