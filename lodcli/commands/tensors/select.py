"""`lod select`: some tensors of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.formats.core.schema import Schema, TensorSpec


@click.command(cls=options.Command)
@options.source
@options.tensor_names("tensors")
@options.target
def command(source: Reference, tensors: tuple[str, ...], target: Target) -> None:
    """Write only these TENSORs, or records of tensors, of SOURCE, in this order.

    \b
    Examples:
      lod select vowels.lod.h5 data label -o two.lod.h5
      lod select vowels.lod.h5 data | lod inspect -
    """
    from lodcli.commands.tensors.writing import write_tensors
    from lodcli.formats.structs.names import named

    def chosen(schema: Schema) -> dict[str, TensorSpec]:
        return {spec.name: spec for name in tensors for spec in named(schema, name)}

    write_tensors(source, target, chosen)
