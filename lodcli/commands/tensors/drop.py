"""`lod drop`: all tensors of a file but some."""

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
@options.tensor_names
@options.target
def command(source: Reference, tensors: tuple[str, ...], target: Target) -> None:
    """Write all tensors of SOURCE except the given TENSORs (or records).

    \b
    Examples:
      lod drop vowels.lod.h5 label_names -o without.lod.h5
    """
    from lodcli.commands.tensors.writing import write_tensors
    from lodcli.formats.structs.names import named
    from lodcli.kernels.errors import SelectionError

    def chosen(schema: Schema) -> dict[str, TensorSpec]:
        dropped = {spec.name for name in tensors for spec in named(schema, name)}
        kept = {spec.name: spec for spec in schema if spec.name not in dropped}
        if not kept:
            raise SelectionError("no tensor would be left")
        return kept

    write_tensors(source, target, chosen)
