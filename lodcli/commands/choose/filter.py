"""`lod filter`: the items for which an expression holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.remedies import standard_input_hint
from lodcli.shell.standard_streams import new_file_redirected_to
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.formats.core.schema import Schema


class _Filter(options.Command):
    """A command whose expression may begin with a minus, as in `lod filter x.npy '-x > 2'`."""

    # Not -oNAME, whose name may hold any character.
    negative = re.compile(r"-[0-9]+|-\(.*|-(?![qvf]*o)[\w.].*[\s<>(=].*", re.DOTALL)
    takes_expression = True


@click.command(cls=_Filter)
@options.source
@click.argument("expression", required=False)
@click.option("--invert", is_flag=True, help="Keep all other items.")
@click.option(
    "--indices",
    type=options.FILE,
    metavar="FILE",
    help="Keep only items whose numbers, counted from 0, are in this text file, one per line.",
)
@options.level
@options.target
def command(
    source: Reference,
    expression: str | None,
    invert: bool,
    indices: str | None,
    level: int | str | None,
    target: Target,
) -> None:
    """Keep the items of SOURCE for which EXPRESSION is true, in all tensors that share them.

    \b
    Examples:
      lod filter articles.lod.h5 'length() >= 3' -o long.lod.h5
      lod filter articles.lod.h5 'max(length(sentence)) < 80' -o short.lod.h5
      lod filter vowels.lod.h5 'label in ("2", "4") and mean(data[0]) > 0.5' -o two.lod.h5
      lod filter articles.lod.h5 --level sentence '10 <= length() <= 100' -o some.lod.h5
      lod filter articles.lod.h5 --indices numbers.txt --invert -o others.lod.h5

    Items are sequences of the outermost level, or of --level. An expression consists of numbers,
    tensors with one value per item, and functions:

    \b
      length()          the length of an item; length(LEVEL): the lengths of its
                        sequences on a level below
      sum mean max min  over all values of a tensor in an item, as mean(data);
      any all           without values sum is 0, any false, all true, others null
      median quantile   the middle value, as median(data), quantile(data, 0.9)
      first last        the first and last row, as first(data)
      data[2]           column 2 of every row, as max(data[2])
      turns.ids         a tensor in records; length(turns): the number of records
      abs(x), isnan(x), round(x, 2), log(x), maximum(x, y), .., tensor('NAME')
      coalesce(x, 0)    0 where x is null; x if y > 1 else 0: x where y > 1
      floor(t, "PT1H")  a time, rounded down to hours; date(t), hour(t), ..
      contains(s, "ab"), matches(s, "a.*b"), lower(s) == "ab", ..    texts
      index()           the number of the item, from 0
      + - * / // % **, == != < <= > >=, in (1, 3), and or not
      lang == "en", label in ("no", "yes")    text, and words of categories
      day >= "2024-05-01", "a" in tags, age is None, age is not None

    A comparison with a null is null, and does not keep the item.
    """
    if expression is None and indices is None:
        hint = standard_input_hint(click.get_current_context())
        raise click.UsageError(
            f"give an expression, such as 'length() > 5', or --indices FILE{hint}"
        )
    from lodcli.commands.choose.choosing import items_or_batches, named
    from lodcli.commands.choose.expression import Expression
    from lodcli.commands.choose.filtering import Filter, read_numbers
    from lodcli.expressions.showing import showing_where
    from lodcli.formats.items.streaming import chosen_batches, numbered
    from lodcli.shell.opened import opened

    with showing_where():
        parsed = None if expression is None else Expression(expression)
        numbers = None if indices is None else read_numbers(indices)
        used = () if parsed is None else parsed.tensors
        with (
            opened(source) as file,
            items_or_batches(file, level, used) as (shared, items, batches),
        ):
            chosen = Filter(shared, parsed, numbers, invert=invert, lead=source.name)
            if expression in used:
                _refuse_comparison_of_shell(expression, shared.schema, target)
            if items is not None and not used:
                # The index decides, and only the kept items are read.
                kept = chosen.of_index(items)
                target.write(items.counted(kept), named(source, items.picked(kept)))
            else:
                found = (
                    chosen_batches(file.source, shared, chosen)
                    if items is None
                    else numbered(batches)
                )
                target.write(shared.schema, named(source, chosen.of(found)))


def _refuse_comparison_of_shell(name: str, schema: Schema, target: Target) -> None:
    """Raise click.UsageError if the shell took > 3 of an expression without quotes for a file.

    Args:
        name: the expression, of one tensor.
    """
    from lodcli.formats.core.schema import find

    file = new_file_redirected_to() if target.path == "-" and target.format_name is None else ""
    number = re.fullmatch(r"=?-?[0-9]*\.?[0-9]+(e[0-9]+)?", file)
    if find(schema, name).dtype != bool and (number or file in {spec.name for spec in schema}):
        blank = "" if file.startswith("=") else " "  # `n >=3` is a redirection to the file =3
        raise click.UsageError(
            f"standard output is the file {file}: put an expression with > in quotes, as in "
            f"'{name} >{blank}{file}'; '{name} != 0' keeps the items where {name} is not 0"
        )
