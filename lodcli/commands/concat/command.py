"""`lod concat`: concatenate batches."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.sources
@options.target
def command(sources: list[Reference], target: Target) -> None:
    """Concatenate the batches of all SOURCES along the outermost level.

    All must hold the same tensors: names, dtypes, row shapes and number of levels.

    \b
    Examples:
      lod concat vowels.lod.h5 more.lod.h5 -o both.lod.h5
      lod slice articles.lod.h5 :2 | lod concat - articles.lod.h5 -o longer.lod.h5
    """
    from lodcli.commands.concat.joining import joined

    with joined(sources) as (schema, batches):
        target.write(schema, batches)
