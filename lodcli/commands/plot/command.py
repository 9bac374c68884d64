"""`lod plot`: pictures of lengths, padding, and values."""

from __future__ import annotations

import click

from lodcli.formats.storage.outputs import Output, refuse_existing
from lodcli.shell import options, output
from lodcli.shell.printable import printable
from lodcli.shell.references import Reference

KINDS = ("lengths", "padding", "values", "states")
ENDINGS = ("svg", "png", "html")


@click.command(cls=options.Command)
@options.source
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    type=options.SOURCE,
    metavar="OUT",
    help="Output file; its extension is .svg, .png or .html. - is an SVG to standard output.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="lengths",
    show_default=True,
    help="lengths by level; padding by the size of a batch; values of one sequence as lines, more "
    "than 12 columns as a heat map; states of an RNN, or other values of one sequence, as a heat "
    "map.",
)
@click.option(
    "--item",
    type=options.WholeNumber(0, 10**18),
    metavar="N",
    help="The sequence of --kind values and states [default: 0].",
)
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it exists.")
@options.level_of("all for lengths, else the outermost")
@options.as_json
@options.quiet
def command(
    source: Reference,
    out: str,
    kind: str,
    item: int | None,
    force: bool,
    level: int | str | None,
    as_json: bool,
) -> None:
    """Draw a tensor of SOURCE to a file; needs matplotlib (pip install 'lodcli[plot]').

    \b
    Examples:
      lod plot articles.lod.h5 -o lengths.svg
      lod plot vowels.lod.h5::data --kind padding -o padding.png
      lod plot vowels.lod.h5::data --kind values --item 3 -o series.html

    Only the rows of the drawn sequence are read.
    """
    ending = "svg" if out == "-" else out.rpartition(".")[2].lower()
    if ending not in ENDINGS:
        raise click.UsageError(f"{out}: expected a file that ends with .svg, .png or .html")
    one = kind in ("values", "states")
    if item is not None and not one:
        raise click.UsageError("--item is for --kind values and states")
    refuse_existing(out, overwrite=force)
    from lodcli.formats.catalogue.packages import Package

    Package("matplotlib", "lodcli[plot]").require("a picture")
    from lodcli.commands.plot import pictures_matplotlib as pictures
    from lodcli.commands.plot.drawing import lengths_of, rows_of
    from lodcli.kernels.index.selection import level_text
    from lodcli.shell.opened import opened

    with opened(source) as file:
        name = file.tensor().name
        if kind == "lengths":
            figure = pictures.lengths(*lengths_of(file, level))
        elif kind == "padding":
            lod, number = lengths_of(file, 0 if level is None else level)
            assert number is not None
            figure = pictures.padding(lod.lengths(number), level_text(lod, number))
        else:
            rows, title = rows_of(file, level, item or 0)
            figure = (pictures.values if kind == "values" else pictures.heat_map)(rows, title)
    content = pictures.encoded(figure, ending, printable(f"{source.label}::{name}"))
    with Output(out, overwrite=force) as written:
        written.write(content)
    if as_json:
        output.as_json(
            {"file": out, "format": ending, "bytes": len(content), "kind": kind, "tensor": name},
            err=out == "-",
        )
