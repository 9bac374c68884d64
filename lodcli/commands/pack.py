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
    """Restore the sequences from the time steps that `lod unpack` wrote.

    \b
    Examples:
      lod pack steps.lod.h5 -o back.lod.h5
      lod unpack vowels.lod.h5 | lod pack - -o same.lod.h5
    """
    from lodcli.commands.choose.choosing import named
    from lodcli.formats.arrays.budget import WHOLE_COPIES, fits
    from lodcli.formats.container.reader import ContainerSource
    from lodcli.formats.core.limits import declared_bytes
    from lodcli.formats.core.schema import find
    from lodcli.formats.items.indexed_copy import in_place
    from lodcli.formats.steps.packing import packed, packed_in_memory
    from lodcli.shell.opened import opened

    with opened(source) as file:
        spec = find(file.source.schema, source.name)
        if spec.array and not fits(declared_bytes(spec), WHOLE_COPIES):
            found = in_place(file.source, [spec.name])
            if isinstance(found, ContainerSource):
                result, batches = packed(found, spec.name)
                target.write((result,), named(source, batches))
                return
        name, stored = file.array()
    result, batches = packed_in_memory(stored, name)
    target.write((result,), batches)
