"""`lod slice`: extract one sequence, or a range of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lodcli.shell import options, output
from lodcli.shell.references import Reference, parse_branch
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.kernels.index.selection import Key


@click.command(cls=options.Command)
@options.source
@click.argument("branch")
@options.level
@options.target
def command(source: Reference, branch: str, level: int | str | None, target: Target) -> None:
    """Extract BRANCH of SOURCE: an index drops its level, a range keeps it.

    BRANCH numbers items from 0, outermost level first: 2 is item 2, 2,0 its item 0, and
    2:3 a batch that holds only item 2. Negative numbers count from the end. With --level
    the first number counts the items of that level over the whole tensor.

    \b
    Examples:
      lod slice articles.lod.h5 2 -o article.lod.h5
      lod slice articles.lod.h5 2,0:1 -o sentences.npz
      lod slice articles.lod.h5 --level sentence 3:6 | lod inspect -
      lod slice articles.lod.h5 -1 --to jsonl
    """
    from lodcli.shell.opened import opened

    keys = parse_branch(branch)
    with opened(source) as file:
        name = file.tensor().name
        tensor = file.source.slice(name, keys, 0 if level is None else level)
    _note_what_is_missing(keys[-1], len(tensor))
    target.write_item(name, tensor)


def _note_what_is_missing(last: Key, found: int) -> None:
    """Print a note if a range exceeds the number of items."""
    if not isinstance(last, slice):
        return
    start, stop = last.start or 0, last.stop
    if start < 0 and stop is None:
        asked = -start
    elif stop is not None and (start < 0) == (stop < 0):
        asked = max(0, stop - start)
    else:
        return
    if found < asked:
        output.note(f"the range asks for {asked} items, but only {found} exist")
