"""`lod sort`: items by their lengths, or by a value."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


class _Sort(options.Command):
    """A command whose --by may be an expression."""

    takes_expression = True

    def misplaced(self, args: list[str]) -> str:
        if not {"asc", "desc"}.isdisjoint(map(str.lower, args)):
            return "; lod sort --by x puts the least first, --by -x the greatest"
        if "--by" not in args and args[1:] and args[1].isidentifier():
            return f"; a key goes after --by: --by {args[1]}"
        return ""


@click.command(cls=_Sort)
@options.source
@click.option(
    "--by",
    metavar="KEYS",
    shell_complete=options.complete_tensors,
    default="length",
    show_default=True,
    help="length, length:LEVEL (total length of the sequences of a level below), a tensor of "
    "texts, or an expression as in `lod filter`; with - before it, the greatest first. Several "
    "keys: a,-b.",
)
@click.option("--reverse", is_flag=True, help="Sort the greatest first.")
@options.level
@options.target
def command(
    source: Reference, by: str, reverse: bool, level: int | str | None, target: Target
) -> None:
    """Sort the items of SOURCE, in all tensors that share them.

    \b
    Examples:
      lod sort articles.lod.h5 --by -length -o longest_first.lod.h5
      lod sort articles.lod.h5 --by length:sentence -o by_words.lod.h5
      lod sort clicks.csv --by user,-day --to jsonl
      lod sort articles.lod.h5 --by 'max(length(sentence))' --reverse -o sorted.lod.h5

    Items with equal keys stay in their order; items whose key is nan or null come last. Texts are
    sorted by their bytes, and must fit into memory. Data of more than 64 MB may go through a
    temporary file, in the folder TMPDIR.
    """
    from lodcli.commands.choose.choosing import items_of, named
    from lodcli.commands.choose.evaluating import item_values
    from lodcli.commands.choose.sort_keys import parse_keys, sorted_order
    from lodcli.expressions.showing import showing_where
    from lodcli.formats.items.reordering import reordered

    with showing_where("--by"):
        keys = parse_keys(by)
        used = [name for key, _ in keys for name in key.tensors]
        with items_of(source, level, used) as items:
            # The values need not stay in memory while items are reordered.
            order = sorted_order(
                (item_values(key, items, source), down != reverse) for key, down in keys
            )
            target.write(items.schema, named(source, reordered(items, order)))
