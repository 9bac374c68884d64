"""`lod concat`: concatenate batches."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.sources
@click.option(
    "--new-level",
    metavar="NAME",
    help="Make each file one item of a new outermost level of this name.",
)
@options.target
def command(sources: list[Reference], new_level: str | None, target: Target) -> None:
    """Concatenate the items of all SOURCES along the outermost level.

    \b
    Examples:
      lod concat vowels.lod.h5 more.lod.h5 -o both.lod.h5
      lod slice articles.lod.h5 :2 | lod concat - articles.lod.h5 -o longer.lod.h5
      lod concat vowels.lod.h5 more.lod.h5 --new-level day -o days.lod.h5

    All SOURCES must hold the same tensors, with equal dtypes, row shapes and numbers of levels; the
    order of the tensors may differ. With --nulls keep, a tensor that a file lacks is null for the
    items of this file. With --new-level, each file becomes one sequence: one recording per .npy
    file, for example.
    """
    from lodcli.commands.concat.joining import joined

    with joined(sources, new_level) as (schema, batches):
        target.write(schema, batches)
