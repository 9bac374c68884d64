"""The command reference: a page for each command, made of what `--help` prints."""

from __future__ import annotations

import re

import click

from lodcli.commands import GROUPS, TABLE
from lodcli.manual.pages import EXITS, commands_below, examples_of
from lodcli.shell.command import grouped
from lodcli.shell.group import CONTEXT, group

_FOLDER = "docs/commands"


def command_pages() -> dict[str, str]:
    """Return the text of each page by its path, an overview first."""
    context = click.Context(group, info_name="lod")
    below = [(name, one) for name, one in commands_below("lod", group, context) if one is not group]
    return {
        f"{_FOLDER}/README.md": overview(),
        **{_path(name): page(name, command) for name, command in below},
    }


def overview() -> str:
    """Return the page that lists all commands."""
    lines = ["# Commands", "", "`lod COMMAND --help` prints the same on a terminal.", ""]
    for title, names in GROUPS.items():
        lines += [f"## {title}", "", "| command | |", "|---|---|"]
        lines += [f"| [`lod {name}`](lod-{name}.md) | {_plain(TABLE[name][1])} |" for name in names]
        lines.append("")
    lines += ["## Exit codes", "", "| code | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {code} | {meaning} |" for code, meaning in EXITS), ""])


def page(name: str, command: click.Command) -> str:
    """Return the page of a command."""
    context = click.Context(command, info_name=name, **CONTEXT)
    body, examples = examples_of(command)
    usage = f"{name} {' '.join(command.collect_usage_pieces(context))}"
    summary, _, details = body.strip().partition("\n\n")
    lines = [f"# {name}", "", *_prose(summary), "```", usage, "```", ""]
    if examples:
        lines += ["## Examples", "", "```sh", *examples, "```", ""]
    if details:
        lines += ["## Details", "", *_prose(details)]
    below = command.commands if isinstance(command, click.Group) else {}
    if below:
        lines += ["## Commands", "", "| command | |", "|---|---|"]
        title = name.replace(" ", "-")
        lines += [
            f"| [`{name} {one}`]({title}-{one}.md) | {_plain(what.get_short_help_str(200))} |"
            for one, what in below.items()
        ]
        lines.append("")
    for title, records in grouped(command, context).items():
        lines += [f"## {title}", "", "| option | |", "|---|---|"]
        lines += [
            f"| `{name.replace('|', chr(92) + '|')}` | {_plain(text)} |" for name, text in records
        ]
        lines.append("")
    return "\n".join(lines)


def _path(name: str) -> str:
    return f"{_FOLDER}/{name.replace(' ', '-')}.md"


def _prose(text: str) -> list[str]:
    """Return the paragraphs of a help text; a line of \\b before one keeps its lines."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        rows = paragraph.splitlines()
        if rows and rows[0].strip() == "\b":
            lines += ["```", *rows[1:], "```", ""]
        else:
            lines += [_plain(" ".join(row.strip() for row in rows)), ""]
    return lines


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is; words in backquotes remain code."""
    parts = re.split(r"(`[^`|]+`)", " ".join(text.split()))
    for place, part in enumerate(parts[::2]):
        shown = part.replace("<", "&lt;").replace(">", "&gt;")
        parts[2 * place] = re.sub(r"([\\`*_{}\[\]|])", r"\\\1", shown)
    return "".join(parts)
