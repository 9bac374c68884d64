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
    """Write the tensors of all SOURCES to one file, with one index.

    \b
    Examples:
      lod rename vowels.lod.h5::data data=frames | lod merge vowels.lod.h5 - -o both.lod.h5

    Each index must equal that of the first: equal levels are stored once, and a tensor without
    levels has one row for each outermost item. A text is one value. Names of tensors must differ;
    `lod rename` changes them. A record with fields in several files is null where it is null in all
    of them. `lod concat` joins items one after another instead.
    """
    if len(sources) < 2:
        raise click.UsageError("give two files or more")
    from lodcli.formats.items.merged import MergedSource, merged_records
    from lodcli.shell.opened import all_indexed, all_opened

    with all_opened(sources) as files:
        if (records := merged_records(files)) is not None:
            target.write(*records)
            return
        with all_indexed(files) as indexed:
            merged = MergedSource(indexed)
            target.write(merged.schema, merged.batches())
