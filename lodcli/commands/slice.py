"""`lod slice`: extract one sequence, or ranges of them."""

from __future__ import annotations

import click

from lodcli.shell import options
from lodcli.shell.references import Reference, parse_branch
from lodcli.shell.targets import Target


@click.command(cls=options.Command)
@options.source
@click.argument("branch")
@options.level
@options.target
def command(source: Reference, branch: str, level: int | str | None, target: Target) -> None:
    """Extract BRANCH of SOURCE: an index drops its level, a range keeps it.

    \b
    Examples:
      lod slice articles.lod.h5 2 -o article.lod.h5
      lod slice articles.lod.h5 2,0:1 -o sentences.npz
      lod slice articles.lod.h5 --level sentence 3:6 | lod inspect -
      lod slice vowels.lod.h5 0:10,20:30:2 -o fifteen.lod.h5
      lod slice articles.lod.h5 -1 --to jsonl

    BRANCH numbers items from 0, outermost level first: 2 is item 2, 2,0 is item 0 of item 2, and
    2:3 keeps the level, with item 2 alone. Negative numbers count from the end, 0:10:2 is every
    second of ten. A range may be followed by more ranges of the same level: 0:10,20:30. With
    --level the first number counts the items of that level across the whole tensor. A range beyond
    the end is cut off there, with a note; with --strict it is an error.

    All tensors that share the items are written; FILE::NAME writes only this tensor,
    or the tensors of these records.
    """
    keys = parse_branch(branch)
    from lodcli.commands.choose.branches import write_branch
    from lodcli.shell.opened import opened

    with opened(source) as file:
        write_branch(file, keys, 0 if level is None else level, target)
