"""`lod inspect`: show the content of a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lodcli.formats.storage.outputs import Output, refuse_existing
from lodcli.shell import options, output
from lodcli.shell.references import Reference

if TYPE_CHECKING:
    from lodcli.kernels.index.forms import Form, Order


@click.command(cls=options.Command)
@options.source
@options.level
@click.option(
    "--head",
    type=click.IntRange(min=0),
    metavar="N",
    help="Draw the first N items only; with --values, print their values.",
)
@click.option("--values", is_flag=True, help="With --head or --top, print values.")
@click.option(
    "--stats",
    is_flag=True,
    help="Read all values: minimum, mean, maximum, standard deviation, zeros, nan.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="N",
    help="List the N longest sequences, or with --by -length the shortest.",
)
@click.option(
    "--by",
    type=click.Choice(("length", "-length")),
    help="Order of --top [default: length].",
)
@click.option("--duplicates", is_flag=True, help="Count sequences equal to an earlier one.")
@click.option(
    "--html",
    "out",
    type=options.SOURCE,
    metavar="OUT",
    help="Write an HTML page to OUT: all tensors, with histograms of lengths.",
)
@click.option("-f", "--force", is_flag=True, help="With --html, replace OUT if it exists.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
@click.option(
    "--form",
    type=options.Form(["lengths", "offsets", "absolute", "starts", "row-lengths"]),
    help="Print the index only: item counts; offsets; offsets counted in rows, with or without "
    "their totals (starts); or rows of every sequence. A / separates levels.",
)
@click.option("--fine-to-coarse", is_flag=True, help="With --form, the finest level first.")
@options.as_json
@options.quiet
def command(
    source: Reference,
    level: int | str | None,
    head: int | None,
    values: bool,
    stats: bool,
    top: int | None,
    by: str | None,
    duplicates: bool,
    out: str | None,
    force: bool,
    ascii_only: bool,
    form: Form | None,
    fine_to_coarse: bool,
    as_json: bool,
) -> None:
    """Show the content of SOURCE: dtypes, shapes, the lengths on every level, a drawing.

    \b
    Examples:
      lod inspect articles.lod.h5
      lod inspect events.lod.h5 --level hour --head 24
      lod inspect vowels.ts --json
      lod inspect vowels.lod.h5 --stats --duplicates
      lod inspect vowels.lod.h5::data --top 5 --by length --values
      lod inspect vowels.lod.h5 --stats --html vowels.html
      lod inspect articles.lod.h5 --form absolute
      lod slice articles.lod.h5 2 | lod inspect -

    In the drawing, numbers are lengths; each | is one row. The bars are a histogram of the
    lengths, from the shortest to the longest. If there are several tensors, each gets one line, and
    data is shown in full; FILE::NAME shows another one. For a lod.h5 file only header and
    index are read, except for --stats and --duplicates, which read everything once.

    --values, --top and --duplicates apply to the outermost sequences, or to those of --level.
    """
    if values and head is None and top is None:
        raise click.UsageError("--values is for --head N or --top N")
    if by is not None and top is None:
        raise click.UsageError("--by is for --top N")
    if force and out is None:
        raise click.UsageError("--force is for --html OUT")
    if out is not None:
        refuse_existing(out, overwrite=force)
    from lodcli.commands.inspect import summary
    from lodcli.commands.inspect.examined import Wanted
    from lodcli.kernels.index.forms import in_form
    from lodcli.shell.opened import opened

    order: Order = "fine-to-coarse" if fine_to_coarse else "coarse-to-fine"
    if form is None and fine_to_coarse:
        raise click.UsageError("--fine-to-coarse is for --form")
    if form is not None and level is not None:
        raise click.UsageError("--form prints all levels, without --level")
    wanted = Wanted(
        *(stats, values, head if values else None, top, by == "-length", duplicates, level)
    )
    if form is not None and (wanted or head is not None or out is not None):
        raise click.UsageError("--form prints the index only, and all of it")
    with opened(source) as file:
        found, more = summary.summaries(file, wanted, whole=form is not None)
        if form is not None:
            levels = {one.spec.name: in_form(one.head, form, order) for one in found}
            if as_json:
                output.as_json({"form": form, "order": order, "tensors": levels})
            else:
                output.text(summary.forms_text(levels))
            return
        if out is not None:
            from lodcli.commands.inspect.page import page

            text = page(source.label, file.format_name, summary.file_bytes(file), found, more)
            with Output(out, overwrite=force) as written:
                written.write(text.encode())
        if as_json:
            output.as_json(summary.as_json(file, found, level, more), err=out == "-")
            return
        if out is not None:
            return
        unicode = not ascii_only and output.shows_unicode(sys.stdout)
        shown = summary.as_text(file, found, level=level, head=head, unicode=unicode)
    output.text("\n".join([shown, *more.lines()]))
