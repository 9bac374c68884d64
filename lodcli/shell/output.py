"""Printing: results to standard output, notes and progress to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

import click

from lodcli.formats.core.errors import naming_os
from lodcli.shell.printable import aligned, columns, printable

SCHEMA_VERSION = 1
# Narrower than this, text is not wrapped in its column.
_NARROWEST = 20
# Keys in the context of a command for the options of `messages.quiet` and `messages.as_json`.
QUIET, VERBOSE, COLOR, JSON = (f"lodcli.{name}" for name in ("quiet", "verbose", "color", "json"))


def text(content: str) -> None:
    """Print text; in colour only where `colours` allows it, and no other escape sequence."""
    with naming_os("standard output"):
        click.echo(content, color=colours(sys.stdout))


def as_json(content: Mapping[str, Any], *, err: bool = False) -> None:
    """Print one JSON object that scripts may rely on; `err`: to standard error.

    What it holds is defined in lodcli/reports.
    """
    with naming_os("standard error" if err else "standard output"):
        import json  # only here: every start of `lod` loads this module

        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **content}), err=err)


def note(message: str) -> None:
    """Print a note on standard error, unless quiet."""
    if is_quiet():
        return
    with suppress(OSError):  # a full disk or a closed pipe there does not end a command
        if is_json():
            as_json({"note": message.removeprefix("note: ")}, err=True)
        else:
            # Of the command without its own subcommand, as in errors: `lod apply sum` is lod apply.
            label = " ".join(click.get_current_context().command_path.split()[:2])
            click.echo(printable(f"{label}: {message}"), err=True)


def tell_of_cost(seconds: float) -> None:
    """Print with -v the time and memory of the command."""
    if is_verbose():
        from lodcli.kernels.platform.processes import peak_memory_bytes

        peak = peak_memory_bytes()
        note(f"{seconds:.2f} s" + (f", {size_text(peak)} of memory at most" if peak else ""))


def tell_of_backends(context: click.Context) -> None:
    """Print with -v the backend of each kernel, once for each."""
    from lodcli.kernels.runtime.dispatch import when_dispatched

    known = set[tuple[str, str]]()

    def say(kernel: str, backend: str) -> None:
        if (kernel, backend) not in known:
            known.add((kernel, backend))
            # Any thread may compute, and has no separate context.
            with (click.get_current_context(silent=True) or context).scope(cleanup=False):
                note(f"{kernel} runs on {backend}")

    when_dispatched(say)
    context.call_on_close(lambda: when_dispatched(None))


def tell_of_compiling(label: str) -> None:
    """Print a note on a terminal if a kernel has to be compiled, which takes seconds."""
    if not is_terminal(sys.stderr):
        return
    from lodcli.kernels.runtime.compile_events import when_compiling

    def say(kept: bool) -> None:
        # The compiling thread may have no context.
        how = "once" if kept else "for this time only: LOD_CACHE names a folder to keep it in"
        click.echo(f"{label}: compiling, {how}", err=True)

    when_compiling(say)


def _said(option: str) -> Any:
    """Return the value of an option of messages.py in the context; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(option)


def is_json() -> bool:
    """Return whether --json was given."""
    return bool(_said(JSON))


def is_verbose() -> bool:
    """Return whether -v was given."""
    return bool(_said(VERBOSE))


def is_quiet() -> bool:
    """Return whether -q was given."""
    return bool(_said(QUIET))


def colours(stream: TextIO) -> bool:
    """Return whether to print in colour: --color, then no-color.org, force-color.org,
    bixense.com/clicolors, then the terminal.
    """
    if _said(COLOR) in ("always", "never"):
        return bool(_said(COLOR) == "always")
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return os.environ.get("CLICOLOR") != "0" and is_terminal(stream)


def width() -> int:
    """Return the width to print in: COLUMNS, else the terminal's, else 80."""
    return max(_columns(), 20)


def help_width() -> int:
    """Return the width of help by click's own rule, without importing what click imports."""
    return max(min(_columns(), 80) - 2, 50)


def _columns() -> int:
    # Like shutil.get_terminal_size; importing shutil loads every compression library.
    with suppress(ValueError):
        if (chosen := int(os.environ.get("COLUMNS", ""))) > 0:
            return chosen
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def limit() -> int | None:
    """Return the maximum width of tables; None if the output is not a terminal."""
    return width() if os.environ.get("COLUMNS") or is_terminal(sys.stdout) else None


def wrapped(content: str) -> list[str]:
    """Return text in lines of at most `limit` characters."""
    if (most := limit()) is None or len(content) <= most:
        return [content]
    import textwrap

    return textwrap.wrap(content, most)


def headed(head: str, rest: str) -> list[str]:
    """Return text that begins with a bold word, in lines as `wrapped` makes them."""
    first, *more = wrapped(f"{head} {rest}")
    if first.startswith(head):
        first = click.style(head, bold=True) + first.removeprefix(head)
    return [first, *more]


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in plain text, numbers right-aligned; headers are bold in colour.

    If it is wider than `limit`, text in the last column is wrapped. If that is not enough, each
    row becomes a block of lines, one per column.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    by_column = [[header, *cells] for header, *cells in zip(headers, *shown, strict=True)]
    right = [all(_is_number(cell) for cell in cells[1:]) for cells in by_column]
    widths = [max(map(columns, cells)) for cells in by_column]
    most = limit()
    if most is not None and shown and sum(widths) + 2 * (len(widths) - 1) > most:
        room = most - sum(widths[:-1]) - 2 * (len(widths) - 1)
        if right[-1] or room < max(_NARROWEST, len(headers[-1])):
            return _blocks(headers, shown, most)
        widths[-1] = room
        shown = [line for row in shown for line in _wrapped_row(row, room)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            aligned(cell, size, right=to_right)
            for cell, size, to_right in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([click.style(line(headers), bold=True), *(line(row) for row in shown)])


def _wrapped_row(row: Sequence[str], room: int) -> list[list[str]]:
    """Return a row with its last cell in several lines."""
    import textwrap

    *rest, last = row
    first, *more = textwrap.wrap(last, room) or [""]
    return [[*rest, first], *([*[""] * len(rest), line] for line in more)]


def _blocks(headers: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> str:
    """Return a table for a narrow screen: for each row its columns, one below the other."""
    import textwrap

    margin = min(max(map(len, headers)), most // 2)
    blocks = []
    for row in rows:
        lines = []
        for header, cell in zip(headers, row, strict=True):
            first, *more = textwrap.wrap(cell, max(most - margin - 2, 8)) or [""]
            lines.append(
                f"{click.style(header[:margin].ljust(margin), bold=True)}  {first}".rstrip()
            )
            lines += [" " * (margin + 2) + line for line in more]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def figure(value: float | None, form: str) -> str:
    """Return a number for a table: "-" for None, a whole one with commas, another in a format."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else format(value, form)


def plural(count: int, what: str) -> str:
    """Return a count and its noun, such as "1 row" or "1,200 rows"."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def size_text(size_bytes: int) -> str:
    """Return a size as people read it, such as "120 bytes" or "5.2 MB"."""
    if size_bytes < 1000:
        return plural(size_bytes, "byte")
    size, unit = size_bytes / 1e3, "KB"
    for larger in ("MB", "GB", "TB", "PB", "EB"):
        # Not 1000: a size that rounds up to 1000.0 is shown in the next unit.
        if size < 999.95:
            break
        size, unit = size / 1e3, larger
    return f"{size:.1f} {unit}"


def shows_unicode(stream: TextIO) -> bool:
    """Return whether block characters can be printed."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").lstrip("-").isdigit() or cell in ("", "-")


def is_terminal_output(path: str) -> bool:
    """Return whether writing to `path` writes to a terminal."""
    return path == "-" and sys.stdout.isatty()


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can redraw lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
