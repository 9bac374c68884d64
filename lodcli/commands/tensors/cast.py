"""`lod cast`: values of other dtypes."""

from __future__ import annotations

from pathlib import Path

import click

from lodcli.shell import options
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@click.argument("dtypes", nargs=-1, required=True, metavar="DTYPE...")
@click.option(
    "--dtype-unsafe",
    "--unsafe",
    "rounded",
    is_flag=True,
    help="Round values to the nearest value of DTYPE.",
)
@click.option(
    "--vocab",
    "vocabulary",
    type=options.NamedPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Vocabulary file, one word per line: the words of TENSOR=category, in this order; other "
    "texts become its word <unk>, or are an error.",
)
@options.target
def command(
    source: Reference,
    dtypes: tuple[str, ...],
    rounded: bool,
    vocabulary: Path | None,
    target: Target,
) -> None:
    """Cast the values of SOURCE to DTYPE, such as float32; TENSOR=DTYPE casts one tensor.

    \b
    Examples:
      lod cast articles.lod.h5 int32 -o int32.lod.h5
      lod cast vowels.lod.h5 data=float32 label=uint8 --dtype-unsafe -o small.lod.h5
      lod cast events.csv 'time=timestamp[us, UTC]' day=date user=category -o events.parquet
      lod cast events.csv 'price=decimal(10, 2)' -o events.parquet
      lod cast events.csv user=category --vocab users.txt -o events.parquet

    A value that is not exact in DTYPE is an error that names its position. With --dtype-unsafe it
    is rounded; a value beyond the range of DTYPE remains an error.

    The types of times are timestamp[us, UTC], time[s] and duration[ms], each with the unit s, ms,
    us or ns, and date and date[ms]. Times are made of texts in ISO 8601 (an empty text becomes
    null), of whole numbers of the unit, and of times of other units. TENSOR='decimal(10, 2)' makes
    decimals of numbers and texts, TENSOR=category makes categories of texts, and TENSOR=text makes
    texts of categories, times, decimals and whole numbers.
    """
    from lodcli.commands.tensors.casting import write_cast

    write_cast(source, dtypes, target, rounded=rounded, vocabulary=vocabulary)
