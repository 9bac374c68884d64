"""`lod sample`: some items, drawn at random."""

from __future__ import annotations

import re

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def _share(text: str) -> tuple[int | None, float]:
    """Return a number of items, or None and a share from 0 to 1."""
    found = re.fullmatch(r"([0-9]{1,18})|([0-9]{1,3}(?:\.[0-9]{1,9})?)%", text.strip())
    if found is None or (found[2] and float(found[2]) > 100):
        raise click.BadParameter(
            "expected a number of items such as 100, or a share of up to 100% such as 10%, found "
            f"{text!r}",
            click.get_current_context(),
            param_hint="AMOUNT",
        )
    return (int(found[1]), 0.0) if found[1] else (None, float(found[2]) / 100)


@click.command(cls=options.Command)
@options.source
@click.argument("amount")
@options.seed()
@options.level
@options.target
def command(
    source: Reference, amount: str, seed: int, level: int | str | None, target: Target
) -> None:
    """Draw AMOUNT items of SOURCE at random, from all tensors that share them.

    \b
    Examples:
      lod sample articles.lod.h5 5 -o five.lod.h5
      lod sample articles.lod.h5 10% --seed 7 -o tenth.lod.h5
      lod sample articles.lod.h5 2 --level sentence --to jsonl

    AMOUNT is a number, or a share such as 10%. No item is drawn twice, and items stay in the order
    of the file; `lod shuffle` changes the order. The same seed draws the same items.
    """
    number, share = _share(amount)
    from lodcli.commands.choose.choosing import increasing_items_of, named
    from lodcli.formats.items.random_order import sampled

    with increasing_items_of(source, level) as items:
        count = round(share * items.count) if number is None else number
        if count > items.count:
            raise click.UsageError(f"there are only {items.count} items to draw {count} from")
        chosen = sampled(items.count, count, seed)
        target.write(items.counted(chosen), named(source, items.picked(chosen)))
