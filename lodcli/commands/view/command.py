"""`lod view`: page through the sequences of a file on the terminal."""

from __future__ import annotations

import sys

import click

from lodcli.shell import options, output
from lodcli.shell.references import Reference


@click.command(cls=options.Command)
@options.source
@click.option(
    "--at", metavar="ITEM", help="Start at this item, or at a branch such as 2,0 [default: 0]."
)
@options.level
@options.as_json
@options.quiet
def command(source: Reference, at: str | None, level: int | str | None, as_json: bool) -> None:
    """Page through the items of SOURCE on the terminal; --json prints the item at --at.

    \b
    Examples:
      lod view articles.lod.h5 --at 2,0 --json
      lod view vowels.lod.h5::data --level series --json

    Only the part on the screen is read, however large the file is. Enter opens an item and
    backspace closes it; g goes to a number or a branch, l to the longest sequence, / searches
    forward for a value or a text, n finds the next match, t shows the next tensor.
    """
    from lodcli.commands.view.browser import Browser
    from lodcli.formats.catalogue.packages import Package
    from lodcli.formats.core.schema import find_all
    from lodcli.formats.items.indexed_copy import indexed
    from lodcli.shell.opened import opened

    if not as_json:
        if source.path == "-":
            raise click.UsageError(
                "the data cannot come from standard input, from which view reads keys; name a file"
            )
        if not (sys.stdin.isatty() and output.is_terminal(sys.stdout)):
            what = "view needs a terminal" + " that can move the cursor" * sys.stdout.isatty()
            raise click.UsageError(f"{what}; use --json, or lod inspect --head N --values")
        Package("textual", "lodcli[view]").require("the browser")
    with opened(source) as file:
        names = [spec.name for spec in file.schema]
        with indexed(file.source, names) as items:
            schema = find_all(items.schema, names)
            browser = Browser(items, schema, names[0] if source.name else None)
            if level is not None:
                browser.go(browser.lod.level(level), 0)
            if at is not None:
                browser.jump(at)
            if not as_json:
                from lodcli.commands.view.app_textual import Viewer

                Viewer(browser, source.label).run()
                return
            shown = browser.line(browser.item) if browser.count else None
            output.as_json(
                {
                    "file": source.file,
                    "tensor": browser.spec.name,
                    "level": browser.level_name,
                    "count": browser.count,
                    "item": shown and shown.item,
                    "branch": shown and list(shown.branch),
                    "length": shown and shown.length,
                    "values": shown and shown.values,
                }
            )
