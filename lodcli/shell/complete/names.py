"""Names of tensors and levels for completion, from the file on the command line."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from lodcli.kernels.errors import LodError, SelectionError
from lodcli.shell.references import parse_reference

if TYPE_CHECKING:
    from lodcli.formats.core.schema import Schema, TensorSpec

# Maximum size of files of other formats than lod.h5 that are opened: some must be read as a whole
# to know their tensors.
MOST_BYTES = 16 << 20
# A shell interprets other characters, and the file may be untrusted.
_SAFE = re.compile(r"[\w./+@%:,-]+")
# Names of the commands' arguments that are files.
_ARGUMENTS = ("source", "sources", "inputs", "file")


def references(incomplete: str) -> list[CompletionItem[str]] | None:
    """Return FILE::NAME for each tensor that fits; None if the word has no "::"."""
    path, mark, _ = incomplete.rpartition("::")
    if not mark:
        return None
    return list(_fitting((spec.name for spec in _schema(path)), incomplete, f"{path}::"))


def commands(
    group: click.Group, ctx: click.Context, incomplete: str, help_of: Callable[[str], str | None]
) -> list[CompletionItem[str]]:
    """Return the commands of a group that fit, and its options.

    Unlike click, it does not import a command for its help line.

    Args:
        help_of: returns the help of a command in one line; None to leave it out.
    """
    texts = {one: help_of(one) for one in group.list_commands(ctx) if one.startswith(incomplete)}
    found = [CompletionItem(one, help=text) for one, text in texts.items() if text is not None]
    return [*found, *click.Command.shell_complete(group, ctx, incomplete)]


def tensors(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names of the tensors of the file on the line; after a comma, for the last name."""
    before, comma, _ = incomplete.rpartition(",")
    chosen = before.split(",")
    others = (spec.name for _, spec in _on_line(ctx) if spec.name not in chosen)
    return list(_fitting(others, incomplete, before + comma))


def levels(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names of the levels of the file on the line, and the numbers of those without."""
    found = dict.fromkeys(
        level.name or str(number)
        for name, spec in _on_line(ctx)
        for number, level in enumerate(spec.levels)
        if name in (None, spec.name)
    )
    return list(_fitting(found, incomplete))


def _fitting(
    names: Iterable[str], incomplete: str, before: str = ""
) -> Iterator[CompletionItem[str]]:
    """Yield the names that complete a word, with the text typed before them."""
    for name in names:
        if f"{before}{name}".startswith(incomplete) and _SAFE.fullmatch(name):
            yield CompletionItem(f"{before}{name}")


def _on_line(ctx: click.Context) -> Iterator[tuple[str | None, TensorSpec]]:
    """Yield each tensor of the first file on the line, with the NAME of its FILE::NAME, or None."""
    words: list[str] = []
    for argument in _ARGUMENTS:
        given = ctx.params.get(argument)
        words += [given] if isinstance(given, str) else given or ()
    # Where an option lacks its value, click leaves all words unparsed.
    for text in [*words, *ctx.args]:
        with contextlib.suppress(SelectionError):
            reference = parse_reference(text)
            if os.path.exists(os.path.expanduser(reference.path)):
                for spec in _schema(reference.path):
                    yield reference.name, spec
                return


def _schema(path: str) -> Schema:
    """Return the schema of a file; () if it cannot be read, or not quickly."""
    path = os.path.expanduser(path)
    if not os.path.isfile(path):  # opening a pipe would wait, or consume its data
        return ()
    # A shell shows no errors here, and calls again at the next key.
    with contextlib.suppress(OSError, LodError, ImportError, ValueError):
        with open(path, "rb") as file:
            if file.read(8) == b"\x89HDF\r\n\x1a\n":
                return _schema_of_container(file.fileno())
        if os.path.getsize(path) <= MOST_BYTES:
            from lodcli.formats.core.io import open_file

            with open_file(path) as opened:
                return opened.source.schema
    return ()


def _schema_of_container(fd: int) -> Schema:
    """Return the schema in the header of a lod.h5; neither index nor rows are read."""
    from lodcli.formats.container import header
    from lodcli.formats.container.stored import ContainerFile

    return header.decode(ContainerFile(fd, os.fstat(fd).st_size).header()).schema
