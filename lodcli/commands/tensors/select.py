"""`lod select`: some tensors of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.formats.core.schema import Schema
    from lodcli.formats.values.relabelled import Chosen


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

    def choose(schema: Schema) -> Chosen:
        return chosen_by_name(schema, tensors, {})

    write_tensors(source, target, choose)
