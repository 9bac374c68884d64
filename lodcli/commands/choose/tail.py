"""`lod tail`: the last items."""

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
    """Write the last items of SOURCE, from all tensors that share them.

    \b
    Examples:
      lod tail articles.lod.h5 -n 3 -o three.lod.h5
      lod tail articles.lod.h5 -n 1 --level sentence --to jsonl
      lod tail articles.lod.h5 -n -1 -o without_the_first.lod.h5

    Items are sequences of the outermost level, or of --level. -n -N writes all but the first N.
    """
    from lodcli.commands.choose.branches import write_range
    from lodcli.commands.choose.choosing import increasing_items_of

    with increasing_items_of(source, level) as items:
        start = min(-count, items.count) if count < 0 else max(0, items.count - count)
        write_range(target, source, items, start, items.count)
