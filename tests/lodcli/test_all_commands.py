"""Rules for all commands and their options."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lodcli.shell.group import group


def leaves(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that do something, with their names."""
    if not isinstance(command, click.Group):
        yield " ".join(names), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, *names, name)


def test_every_command_can_be_quiet() -> None:
    found = dict(leaves(group))
    assert len(found) > 60
    for name, command in found.items():
        named = {option for param in command.params for option in param.opts}
        assert {"-q", "--quiet"} <= named, name
