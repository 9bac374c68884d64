"""`lod unpack`: convert sequences to time steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.formats.core.schema import StoredArray, TensorSpec


@click.command(cls=options.Command)
@options.source
@options.finest_level
@click.option(
    "--sort-by-length/--no-sort",
    default=True,
    help="Longest sequence first, so each step is a prefix of the previous one [default].",
)
@options.target
def command(
    source: Reference, level: int | str | None, sort_by_length: bool, target: Target
) -> None:
    """Split the sequences of a level into time steps: step t holds item t of every sequence.

    \b
    Examples:
      lod unpack vowels.lod.h5 -o steps.lod.h5
      lod unpack articles.lod.h5 --level article -o sentences.lod.h5
      lod unpack vowels.lod.h5 --no-sort | lod inspect -

    `lod pack` is the exact inverse.
    """
    from lodcli.formats.arrays.budget import WHOLE_COPIES, fits
    from lodcli.formats.core.limits import declared_bytes
    from lodcli.formats.items.indexed_copy import indexed
    from lodcli.formats.steps.unpacking import unpacked, unpacked_in_memory
    from lodcli.shell.opened import opened

    level = -1 if level is None else level
    with opened(source) as file:
        spec = file.tensor()
        fit = spec.rows is not None and fits(declared_bytes(spec), WHOLE_COPIES)
        if fit or spec.nullable:
            tensor = file.read_tensor()[1]
            steps = unpacked_in_memory(spec, tensor, level, in_order=not sort_by_length)
            _write(target, spec, steps)
        else:
            with indexed(file.source, [spec.name]) as found:
                steps = unpacked(found, spec.name, level, source.label, in_order=not sort_by_length)
                _write(target, spec, steps)


def _write(target: Target, spec: TensorSpec, steps: StoredArray) -> None:
    """Write time steps under the marks of the tensor, whose loss the writer reports."""
    from lodcli.formats.core.schema import schema_of

    item = {spec.name: steps}
    target.write((replace(schema_of(item)[0], marks=spec.marks),), [item])
