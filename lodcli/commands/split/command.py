"""`lod split`: one file into several."""

from __future__ import annotations

import itertools
import re
from functools import partial
from pathlib import Path
from shlex import quote

import click

from lodcli.commands.split.cutting import KINDS, parse_how
from lodcli.kernels.suggestions import did_you_mean
from lodcli.shell import options, output
from lodcli.shell.printable import printable
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


class _Split(options.Command):
    """A command whose --by takes a word and, for some words, a value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined: list[str] = []
        for arg in args:
            if joined[-2:-1] == ["--by"] and joined[-1] in KINDS and not arg.startswith("-"):
                joined[-1] = f"{joined[-1]}:{arg}"
            else:
                joined.append(arg)
        return super().parse_args(ctx, joined)

    def misplaced(self, args: list[str]) -> str:
        from lodcli.formats.core.registry import of_name

        by = args[args.index("--by") + 1] if "--by" in args else ""
        kind, _, value = by.partition(":")
        if kind == "fractions":
            following = args[args.index("--by") + 2 :]
            shares = [*itertools.takewhile(re.compile(r"[0-9]*\.?[0-9]+").fullmatch, following)]
            if shares:
                return f"; shares are joined by commas: --by fractions {','.join([value, *shares])}"
        out = args[args.index("-o") + 1 :] if "-o" in args else []
        if len(out) > 1 and not Path(out[1]).exists() and of_name(out[0]) == of_name(out[1]):
            return "; quote the pattern of -o, as in -o '{train,test}.lod.h5'"
        if not by or kind in KINDS:
            return ""
        hint = did_you_mean(by, KINDS, 1) or f"a value goes only after {', '.join(KINDS)}"
        return f"; --by {by}: {hint}"


@click.command(cls=_Split)
@options.source
@click.option(
    "--by",
    required=True,
    metavar="HOW",
    help="count N: N items per file; size BYTES: maximum size of its rows, such as 64M; "
    "fractions 0.8,0.1,0.1: shares of the items; or a LEVEL: one file for each of its items.",
)
@options.seed("Shuffle the items first; the same seed gives the same parts.", None)
@options.level
@partial(
    options.target,
    files="Output files: 'part-{}.lod.h5' numbers them, '{train,test}.lod.h5' names them.",
)
def command(
    source: Reference, by: str, seed: int | None, level: int | str | None, target: Target
) -> None:
    """Split the items of SOURCE into several files, in all tensors that share them.

    \b
    Examples:
      lod split articles.lod.h5 --by count 2 -o 'articles-{}.lod.h5'
      lod split vowels.lod.h5 --by size 100K -o 'shard-{}.lod.h5' --json
      lod split vowels.lod.h5 --by fractions 0.8,0.1,0.1 --seed 7 -o 'vowels-{train,valid,test}.npz'
      lod split articles.lod.h5 --by article -o 'article-{}.jsonl'
      lod group clicks.csv --by user | lod split - --by user -o 'user-{}.jsonl'

    In OUT, {} is replaced by the number of each file, and {train,test} by these names. All files
    appear together, or none if something fails. A list of the files goes to standard output.
    """
    how = parse_how(by)
    if how.level is not None:
        if level is not None:
            raise click.UsageError("--by LEVEL names the level already; leave --level out")
        level = how.level
    from lodcli.commands.split.naming import Pattern
    from lodcli.commands.split.writing import split
    from lodcli.formats.core.errors import append_text
    from lodcli.kernels.errors import SelectionError

    pattern = Pattern(target.path)
    try:
        written = split(source, how, level, seed, pattern, target)
    except SelectionError as error:
        meant = re.fullmatch(rf"({'|'.join(KINDS)})[= ]+(.*)", str(how.level))
        if meant:
            append_text(error, f"write --by {meant[1]} {meant[2]}")
        elif isinstance(how.level, str):
            key = quote(how.level)
            first = f"lod group {quote(source.path)} --by {key} | lod split - --by {key}"
            append_text(error, f"for one file per value of a tensor: {first} ..")
        elif how.level is not None and how.level > 0:
            append_text(error, f"for {how.level} items per file: --by count {how.level}")
        raise
    if not output.is_json():
        for one in written:
            items, rows = output.plural(one["items"], "item"), output.plural(one["rows"], "row")
            output.text(f"{printable(one['file'])}: {items}, {rows}")
