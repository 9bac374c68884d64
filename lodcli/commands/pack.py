"""`lod pack`: convert time steps back to sequences."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@options.target
def command(source: Reference, target: Target) -> None:
    """Join the time steps that `lod unpack` made into the sequences they came from.

    \b
    Examples:
      lod pack steps.lod.h5 -o back.lod.h5
      lod unpack vowels.lod.h5 | lod pack - -o same.lod.h5
    """
    from lodcli.shell.opened import opened

    with opened(source) as file:
        name, stored = file.array()
        tensor = stored.array.pack(stored.index_map.level, stored.index_map)
    target.write_item(name, tensor)
