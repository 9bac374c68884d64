"""`lod inspect`: what a file holds."""

from __future__ import annotations

import sys

import click

from lodcli.shell import options, output
from lodcli.shell.references import Reference


@click.command(cls=options.Command)
@options.source
@options.level
@click.option(
    "--head", type=click.IntRange(min=0), metavar="N", help="Draw the first N items only."
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
@options.as_json
@options.quiet
def command(
    source: Reference, level: int | str | None, head: int | None, ascii_only: bool, as_json: bool
) -> None:
    """Show what SOURCE holds: dtypes, shapes, the lengths on every level, a drawing.

    A count stands above the first of its items, a | is a row. The bars are a histogram of
    the lengths, from the shortest to the longest. Of several tensors each gets a line, and
    the one called data is shown whole; FILE::NAME shows another. Of a lod.h5 file only
    header and index are read.

    \b
    Examples:
      lod inspect articles.lod.h5
      lod inspect events.lod.h5 --level hour --head 24
      lod inspect vowels.ts --json
      lod slice articles.lod.h5 2 | lod inspect -
    """
    from lodcli.commands.inspect import summary
    from lodcli.shell.opened import opened

    with opened(source) as file:
        found = summary.summaries(file)
        if as_json:
            output.as_json(summary.as_json(file, found, level))
            return
        unicode = not ascii_only and output.shows_unicode(sys.stdout)
        shown = summary.as_text(file, found, level=level, head=head, unicode=unicode)
    output.text(shown)
