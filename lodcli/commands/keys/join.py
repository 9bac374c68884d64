"""`lod join`: items of two files with equal keys."""

from __future__ import annotations

from typing import Literal

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.two_sources
@click.option(
    "--on",
    type=options.NAMES,
    required=True,
    metavar="KEYS",
    shell_complete=options.complete_tensors,
    help="The tensor of the keys in both files, one number or text for each item; several: a,b. "
    "Where the names differ, that in A and that in B: user=id.",
)
@click.option(
    "--how",
    type=click.Choice(("inner", "left", "semi", "anti")),
    default="inner",
    show_default=True,
    help="inner: pairs of equal keys; left: also items of A without a match, with nulls for B; "
    "semi, anti: only items of A, with or without a match.",
)
@options.level
@options.target
def command(
    sources: list[Reference],
    on: tuple[str, ...],
    how: Literal["inner", "left", "semi", "anti"],
    level: int | str | None,
    target: Target,
) -> None:
    """Join the items of the files A and B that have equal keys.

    \b
    Examples:
      lod join clicks.csv users.csv --on user -o both.lod.h5
      lod join clicks.csv users.csv --on user --how left --to jsonl
      lod join clicks.csv users.csv --on user --how anti -o unknown.csv
      lod join clicks.csv people.csv --on user=id -o both.lod.h5

    The result has the tensors of A, and those of B except its keys, sorted by the keys (texts by
    their bytes; nan is one key; nulls are last, and equal no key). It has all pairs of items with
    equal keys.

    Files may be larger than memory: both are sorted in temporary files, in the folder TMPDIR.
    """
    from lodcli.commands.choose.choosing import items_or_stream
    from lodcli.formats.core.errors import naming_file
    from lodcli.formats.items.joining import joined, joined_schema, with_names
    from lodcli.formats.items.keys import check_keys

    pairs = {key.partition("=")[0]: key.rpartition("=")[2] for key in on}
    names, others = list(pairs), list(pairs.values())
    if len({*others}) < len(others):
        raise click.UsageError(f"--on {','.join(on)}: each key of B goes with one of A")
    one, two = sources
    with (
        items_or_stream(one, level, names) as (left, _, first),
        naming_file(two.label),
        items_or_stream(two, level, others) as (right, _, second),
    ):
        for source, shared, keys in ((one, left, names), (two, right, others)):
            with naming_file(source.label):
                check_keys(shared.schema, keys)
        renamed = with_names((right.schema, second), dict(zip(others, names, strict=True)))
        target.write(
            joined_schema(left.schema, renamed[0], names, how),
            joined((left.schema, first), renamed, names, how),
        )
