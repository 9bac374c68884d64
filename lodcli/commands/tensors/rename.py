"""`lod rename`: tensors under other names."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@click.argument("pairs", nargs=-1, required=True, metavar="OLD=NEW...")
@options.target
def command(source: Reference, pairs: tuple[str, ...], target: Target) -> None:
    """Rename the tensors OLD of SOURCE to NEW. OLD may also be the name of records.

    \b
    Examples:
      lod rename vowels.lod.h5 data=frames label=speaker -o renamed.lod.h5
      lod rename vowels.lod.h5 data=label label=data -o swapped.lod.h5
    """
    names = options.new_names(pairs)
    from lodcli.commands.tensors.writing import write_tensors
    from lodcli.formats.values.relabelled import chosen_by_name

    write_tensors(source, target, lambda schema: chosen_by_name(schema, None, names))
