"""`lod select`: some tensors of a file."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@options.tensor_names
@options.target
def command(source: Reference, tensors: tuple[str, ...], target: Target) -> None:
    """Write only the given TENSORs (or records) of SOURCE, in this order.

    \b
    Examples:
      lod select vowels.lod.h5 data label -o two.lod.h5
      lod select vowels.lod.h5 data | lod inspect -
    """
    from lodcli.commands.tensors.writing import write_tensors
    from lodcli.formats.values.relabelled import chosen_by_name

    write_tensors(source, target, lambda schema: chosen_by_name(schema, tensors, {}))
