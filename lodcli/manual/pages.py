"""Man pages of all commands: `python -m lodcli.manual.pages FOLDER VERSION`.

Needs only click, like `--help`. The page of `lod apply` contains the ops.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from lodcli.commands import GROUPS, TABLE
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.platform.environment import VARIABLES
from lodcli.manual.roff import definitions, escaped, literal, prose, section
from lodcli.shell.command import OWN, grouped
from lodcli.shell.group import CONTEXT, group

_EXAMPLES = re.compile(r"\n\s*\x08\n\s*Examples:\n((?:.+\n?)+)")
EXITS = (
    ("0", "Done."),
    ("1", "Data invalid; files differ (lod diff); lod became slower (lod bench --compare)."),
    ("2", "Wrong usage."),
    ("3", "Input or output failed."),
    ("4", "Not supported, or a package is missing."),
    ("128 + N", "Ended by signal N: Ctrl-C is 130, kill 143, a hangup 129, too much CPU time 152."),
    ("141", "The reader of a pipe closed it."),
)


def pages(version: str) -> dict[str, str]:
    """Return the text of each man page by its file name."""
    context = click.Context(group, info_name="lod")
    return {
        f"{name.replace(' ', '-')}.1": page(name, command, version)
        for name, command in commands_below("lod", group, context)
    }


def commands_below(
    name: str, command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all its subcommands, with their words, such as "lod slice"."""
    yield name, command
    if command is group:
        for one in TABLE:
            below = group.get_command(context, one)
            assert below is not None
            yield from commands_below(f"{name} {one}", below, context)
    elif isinstance(command, click.Group):
        for one, below in command.commands.items():
            yield f"{name} {one}", below


def examples_of(command: click.Command) -> tuple[str, list[str]]:
    """Return the help text of a command without its examples, and the examples."""
    text = (command.help or "").replace("\r", "") + "\n"
    found = _EXAMPLES.search(text)
    lines = found[1].split("\n") if found else []
    examples = [line.strip() for line in lines if line.strip()]
    return _EXAMPLES.sub("\n", text), examples


def page(name: str, command: click.Command, version: str) -> str:
    """Return a man page.

    Args:
        name: the words of the command, such as "lod slice".
    """
    # Click caches the help option made here: it must be the same as on the command line.
    context = click.Context(command, info_name=name, **CONTEXT)
    title = name.replace(" ", "-")
    body, examples = examples_of(command)
    summary = TABLE[name.split()[1]][1] if name.count(" ") == 1 else _first_line(command)
    lines = [
        f'.TH {escaped(title.upper())} 1 "" "lod {escaped(version)}" "lod"',
        *section("Name", [f"{escaped(title)} \\- {escaped(summary.strip().removesuffix('.'))}"]),
        *section("Synopsis", [_synopsis(name, command, context)]),
        *section("Description", prose(body)),
        *section("Examples", literal(examples) if examples else []),
        *section("Options", _options(command, context)),
    ]
    if command is group:
        lines += section("Commands", _listed())
        lines += section("Environment", definitions((k, v.meaning) for k, v in VARIABLES.items()))
        lines += section("Exit status", definitions(EXITS))
    elif name == "lod apply":
        lines += section("Ops", definitions((op, one.summary) for op, one in OPS.items()))
    if command is not group:
        below = command.commands if isinstance(command, click.Group) else {}
        told = ((f"{title}-{one}(1)", _first_line(below[one])) for one in below)
        lines += section("Commands", definitions(told))
        lines += section("See also", [_references(["lod", *(f"{title}-{one}" for one in below)])])
    return "\n".join(lines) + "\n"


def _first_line(command: click.Command) -> str:
    return (command.help or "").strip().partition("\n")[0]


def _synopsis(name: str, command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"\\fB{escaped(name)}\\fR {escaped(pieces)}"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for title, records in grouped(command, context).items():
        if title != OWN:
            yield f".SS {title}"
        yield from definitions(records)


def _listed() -> Iterator[str]:
    for title, names in GROUPS.items():
        yield f".SS {escaped(title)}"
        yield from definitions((f"lod-{name}(1)", TABLE[name][1]) for name in names)


def _references(titles: list[str]) -> str:
    return ", ".join(f"\\fB{escaped(title)}\\fR(1)" for title in titles)


def main(folder: str, version: str) -> None:
    """Write all pages into a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in pages(version).items():
        Path(folder, name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
