"""`lod shuffle`: all items in a random order."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@options.seed()
@options.level
@options.target
def command(source: Reference, seed: int, level: int | str | None, target: Target) -> None:
    """Put the items of SOURCE in a random order, in all tensors that share them.

    \b
    Examples:
      lod shuffle articles.lod.h5 --seed 7 -o shuffled.lod.h5
      lod sample articles.lod.h5 5 | lod shuffle - --seed 7 -o five.lod.h5

    Files may be larger than memory: data of more than 64 MB may go through a temporary file, in
    the folder TMPDIR. The same seed gives the same order.
    """
    from lodcli.commands.choose.choosing import items_of, named
    from lodcli.formats.items.random_order import shuffled
    from lodcli.formats.items.reordering import reordered

    with items_of(source, level) as items:
        order = shuffled(items.count, seed)
        target.write(items.schema, named(source, reordered(items, order)))
