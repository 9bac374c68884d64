"""`lod diff`: the differences between two files."""

from __future__ import annotations

import click

from lodcli.shell import options, output
from lodcli.shell.references import Reference


@click.command(cls=options.Command)
@options.two_sources
@click.option(
    "--rtol",
    type=options.Number(0),
    default=0.0,
    metavar="R",
    help="Relative tolerance R; see --atol [default: 0].",
)
@click.option(
    "--atol",
    type=options.Number(0),
    default=0.0,
    metavar="T",
    help="Treat values as equal that differ by at most T + R * the value of B [default: 0].",
)
@click.option(
    "--first",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Maximum number of differences to show for each tensor.",
)
@click.option("--stat", is_flag=True, help="Only count the differences of each tensor.")
@options.as_json
@options.quiet
def command(
    sources: list[Reference], rtol: float, atol: float, first: int, stat: bool, as_json: bool
) -> None:
    """Show what differs between the files A and B: the index first, then the values.

    \b
    Examples:
      lod diff vowels.ts vowels.lod.h5
      lod diff vowels.lod.h5 more.lod.h5 --stat
      lod diff vowels.lod.h5 more.lod.h5 --atol 1e-6 --json

    Values are compared if the index of a tensor is the same in both; nan equals nan. The exit
    code is 0 if nothing differs and 1 if something does. Level names are compared, formats are not.
    """
    from lodcli.commands.diff.comparing import compared
    from lodcli.commands.diff.showing import as_object, as_text
    from lodcli.shell.opened import all_indexed, all_opened

    with all_opened(sources) as files, all_indexed(files) as (one, two):
        result = compared(one, two, rtol=rtol, atol=atol, first=0 if stat else first)
    if as_json:
        output.as_json(as_object(result, [source.file for source in sources]))
    elif shown := as_text(result, stat=stat):
        output.text(shown)
    if not result.equal:
        click.get_current_context().exit(1)
