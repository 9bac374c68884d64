"""`lod merge`: tensors of several files in one."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.sources
@options.target
def command(sources: list[Reference], target: Target) -> None:
    """Put the tensors of all SOURCES into one file, over one index.

    The index of each must be that of the first: equal levels are stored once, and a tensor without
    levels has one row for each outermost item. Names of tensors must differ; `lod rename` changes
    them. `lod concat` puts items one after another instead.

    \b
    Examples:
      lod rename vowels.lod.h5::data data=frames | lod merge vowels.lod.h5 - -o both.lod.h5
    """
    if len(sources) < 2:
        raise click.UsageError("give two files or more")
    if sum(source.path == "-" for source in sources) > 1:
        raise click.UsageError("- is given twice, but there is one standard input")
    from contextlib import ExitStack

    from lodcli.formats.core.schema import find
    from lodcli.formats.items.indexed_copy import indexed
    from lodcli.formats.items.merged import MergedPart, MergedSource
    from lodcli.shell.opened import opened

    with ExitStack() as stack:
        parts = []
        for source in sources:
            file = stack.enter_context(opened(source))
            names = [spec.name for spec in file.schema]
            found = stack.enter_context(indexed(file.source, names))
            schema = tuple(find(found.schema, name) for name in names)
            parts.append(MergedPart(source.label, found, schema))
        merged = MergedSource(parts)
        target.write(merged.schema, merged.batches())
