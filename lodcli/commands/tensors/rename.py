"""`lod rename`: tensors under other names."""

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
@click.argument("pairs", nargs=-1, required=True, metavar="OLD=NEW...")
@options.target
def command(source: Reference, pairs: tuple[str, ...], target: Target) -> None:
    """Write SOURCE with its tensors OLD called NEW. OLD may be records: NEW is then their name.

    \b
    Examples:
      lod rename vowels.lod.h5 data=frames label=speaker -o renamed.lod.h5
      lod rename vowels.lod.h5 data=label label=data -o swapped.lod.h5
    """
    names = {}
    for pair in pairs:
        old, mark, new = pair.partition("=")
        if not (old and mark and new):
            raise click.UsageError(f"{pair!r} renames nothing; write OLD=NEW")
        if old in names:
            raise click.UsageError(f"{old} is renamed twice")
        names[old] = new
    from lodcli.commands.tensors.writing import write_tensors
    from lodcli.formats.structs.names import renamed
    from lodcli.kernels.errors import SelectionError

    def called(schema: Schema) -> dict[str, TensorSpec]:
        found = renamed(schema, names)
        for name in (new := [spec.name for spec in found]):
            if new.count(name) > 1:
                raise SelectionError(f"two tensors would be called {name}")
        return {spec.name: one for spec, one in zip(schema, found, strict=True)}

    write_tensors(source, target, called)
