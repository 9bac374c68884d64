"""`lod diff`: what differs between two files."""

from __future__ import annotations

import click

from lodcli.shell import options, output
from lodcli.shell.references import Reference


@click.command(cls=options.Command)
@options.sources
@click.option("--rtol", type=click.FloatRange(0), default=0.0, metavar="R", help="As for --atol.")
@click.option(
    "--atol",
    type=click.FloatRange(0),
    default=0.0,
    metavar="A",
    help="Values are equal that differ by at most A + R * the second one [default: 0].",
)
@click.option(
    "--first",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="How many differences to show of each tensor.",
)
@click.option("--stat", is_flag=True, help="Only count what differs in each tensor.")
@options.as_json
@options.quiet
def command(
    sources: list[Reference], rtol: float, atol: float, first: int, stat: bool, as_json: bool
) -> None:
    """Show what differs between two SOURCES: the index first, then the values.

    Values are compared where the index of a tensor is the same in both; nan equals nan. The exit
    code is 0 if nothing differs and 1 if something does. Level names count, the format does not.

    \b
    Examples:
      lod diff vowels.ts vowels.lod.h5
      lod diff vowels.lod.h5 more.lod.h5 --stat || test $? = 1
      lod diff vowels.lod.h5 more.lod.h5 --atol 1e-6 --json || test $? = 1
    """
    if len(sources) != 2:
        raise click.UsageError(f"give two files, not {len(sources)}")
    if sources[0].path == sources[1].path == "-":
        raise click.UsageError("- is given twice, but there is one standard input")
    from contextlib import ExitStack

    from lodcli.commands.diff.comparing import Side, compared
    from lodcli.commands.diff.showing import as_object, as_text
    from lodcli.formats.core.schema import find
    from lodcli.formats.items.indexed_copy import indexed
    from lodcli.shell.opened import opened

    with ExitStack() as stack:
        sides = []
        for source in sources:
            file = stack.enter_context(opened(source))
            names = [spec.name for spec in file.schema]
            found = stack.enter_context(indexed(file.source, names))
            schema = tuple(find(found.schema, name) for name in names)
            sides.append(Side(source.label, found, schema))
        result = compared(sides[0], sides[1], rtol=rtol, atol=atol, first=0 if stat else first)
    if as_json:
        output.as_json(as_object(result, [source.path for source in sources]))
    elif shown := as_text(result, stat=stat):
        output.text(shown)
    if not result.equal:
        click.get_current_context().exit(1)
