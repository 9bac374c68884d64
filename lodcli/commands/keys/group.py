"""`lod group`: items with one key as one sequence."""

from __future__ import annotations

from typing import Literal

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@click.option(
    "--by",
    type=options.NAMES,
    required=True,
    metavar="KEYS",
    shell_complete=options.complete_tensors,
    help="The tensor of the keys, one number or text for each item; several: a,b.",
)
@click.option(
    "--order",
    type=click.Choice(("key", "first")),
    default="key",
    show_default=True,
    help="key: sort groups by their keys; first: by the positions of their first items in SOURCE; "
    "with --gap, of the items with the least TENSOR; with --keep, of the items kept.",
)
@click.option(
    "--gap",
    metavar="TENSOR=MOST",
    shell_complete=options.complete_tensors,
    help="Sort each group by TENSOR, and begin a new group where it increases by more than MOST: "
    "time=PT30M, place=5.",
)
@click.option(
    "--keep",
    type=click.Choice(("first", "last")),
    help="Write only the first or last item of each group, instead of a sequence.",
)
@options.level
@options.target
def command(
    source: Reference,
    by: tuple[str, ...],
    order: str,
    gap: str | None,
    keep: Literal["first", "last"] | None,
    level: int | str | None,
    target: Target,
) -> None:
    """Group the items of SOURCE by a key: one sequence for each key.

    \b
    Examples:
      lod group clicks.csv --by user -o users.lod.h5
      lod group clicks.csv --by user,day --order first --to jsonl
      lod sort clicks.csv --by day | lod group - --by user -o users.parquet
      lod group clicks.parquet --by user --gap time=PT30M -o sessions.parquet
      lod group users.csv --by user --keep last -o latest.csv

    Items need not be sorted, and keep their order within a group. All tensors that share them
    get an outer level named after the key; the key tensors have one value for each group. Texts
    are sorted by their bytes; nan is one key, and null another, the last.

    Files may be larger than memory: they are sorted in temporary files, in the folder TMPDIR.
    Each group must fit into memory.
    """
    from lodcli.commands.choose.choosing import items_or_stream
    from lodcli.formats.core.errors import naming_file
    from lodcli.formats.items.grouping import Gap, grouped, grouped_schema
    from lodcli.formats.items.keys import check_keys

    names = list(dict.fromkeys(by))
    column, equals, most = (gap or "").rpartition("=")
    if gap is not None and not (column and equals):
        raise click.BadParameter(f"expected TENSOR=MOST, such as time=PT30M; found {gap!r}")
    used = [*names, column] if column else names
    with items_or_stream(source, level, used) as (shared, _, batches):
        schema, apart = shared.schema, None
        with naming_file(source.label):
            check_keys(schema, names)
            if column:
                apart = Gap.of(schema, column, most)
        groups = grouped(schema, batches, names, by_key=order == "key", gap=apart, keep=keep)
        target.write(grouped_schema(schema, names, keep), groups)
