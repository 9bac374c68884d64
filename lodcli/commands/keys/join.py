"""`lod join`: items of two files with equal keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.formats.core.errors import Incoming
    from lodcli.shell.opened import Opened


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
    type=click.Choice(("inner", "left", "right", "outer", "full", "semi", "anti")),
    default="inner",
    show_default=True,
    help="inner: pairs of equal keys; left: also items of A without a match, with nulls for B; "
    "right: also items of B; outer, full: those of both; semi, anti: only items of A, with or "
    "without a match.",
)
@options.level
@options.target
def command(
    sources: list[Reference],
    on: tuple[str, ...],
    how: Literal["inner", "left", "right", "outer", "full", "semi", "anti"],
    level: int | str | None,
    target: Target,
) -> None:
    """Join the items of the files A and B that have equal keys.

    \b
    Examples:
      lod join clicks.csv users.csv --on user -o both.lod.h5
      lod join clicks.csv users.csv --on user --how left --to jsonl
      lod join clicks.csv users.csv --on user --how outer -o all.parquet
      lod join clicks.csv users.csv --on user --how anti -o unknown.csv
      lod join clicks.csv people.csv --on user=id -o both.lod.h5

    The result has all pairs of items with equal keys: the tensors of A, and those of B except its
    keys. It is sorted by the keys: texts by their bytes, nan as one key. Nulls are last, and match
    no key.

    Files may be larger than memory: both are sorted in temporary files, in the folder TMPDIR. All
    matches of one item must fit into memory.
    """
    from lodcli.commands.choose.choosing import items_or_batches
    from lodcli.formats.core.errors import Incoming, naming_file
    from lodcli.formats.items.joining import joined, joined_schema, sides
    from lodcli.formats.items.keys import check_keys
    from lodcli.shell.opened import opened

    one, two = sources
    with opened(one) as first, naming_file(two.label), opened(two) as second:
        keys = [_pair(key, first, second) for key in on]
        names, others = [name for name, _ in keys], [other for _, other in keys]
        if len({*others}) < len(others) or len({*names}) < len(names):
            raise click.UsageError(f"--on {','.join(on)}: each key of A goes with one of B")
        with (
            naming_file(one.label),
            items_or_batches(first, level, names) as (left, _, ours),
            naming_file(two.label),
            items_or_batches(second, level, others) as (right, _, theirs),
        ):
            for source, shared, given in ((one, left, names), (two, right, others)):
                with naming_file(source.label):
                    check_keys(shared.schema, given)
            kind = "outer" if how == "full" else how
            label = f"{one.label} and {two.label}"
            with naming_file(label):
                both = sides((left.schema, ours), (right.schema, theirs), keys, kind)
                schema = joined_schema(both[0][0], both[1][0], keys, kind)
            result = Incoming(_named(label, joined(*both, names, kind)))
            with _advising(kind, result), naming_file(target.label):
                target.write(schema, result)


def _named(label: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches; errors that name no file get this label."""
    from lodcli.formats.core.errors import naming_file

    with naming_file(label):
        yield from batches


@contextmanager
def _advising(kind: str, result: Incoming[Any]) -> Iterator[None]:
    """Add to the error about a null of the result what replaces those of items without a match.

    Args:
        result: its batches; an error of theirs is about a file that is read.
    """
    from lodcli.formats.core.errors import append_text
    from lodcli.kernels.errors import NullError

    try:
        yield
    except NullError as error:
        if kind in ("left", "right", "outer") and error is not result.error:
            append_text(
                error, "for items without a match, write lod.h5 and give --nulls to lod convert"
            )
        raise


def _pair(key: str, first: Opened, second: Opened) -> tuple[str, str]:
    """Return the names of a key in both files: A=B, or one that both have, also with a = in it.

    Raises:
        UsageError: more than one = in it.
    """
    schemas = first.source.schema, second.source.schema
    if all(key in (spec.name for spec in schema) for schema in schemas):
        return key, key
    name, equals, other = key.partition("=")
    if "=" in other or (equals and not (name and other)):
        raise click.UsageError(f"--on {key}: expected a name, or A=B for other names in both files")
    return name, other if equals else name
