"""The click group `lod`, which imports each command when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from lodcli.commands import GROUPS, TABLE
from lodcli.shell import messages, output
from lodcli.shell.command import check_command

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """A group whose commands are the entries of a table."""

    def make_context(self, *given: Any, **extra: Any) -> click.Context:
        """Return the context of a run; contexts of commands inherit its width."""
        _restore_help(self)
        return super().make_context(*given, **{"terminal_width": output.help_width(), **extra})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TABLE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in TABLE:
            return None
        module, help_line = TABLE[cmd_name]
        command: click.Command = importlib.import_module(module).command
        _restore_help(command)
        command.name = cmd_name
        command.short_help = help_line
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from lodcli.shell.complete import names

        return names.commands(self, ctx, incomplete, lambda name: TABLE[name][1])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        while args[:1] == ["help"]:  # as in git: help, help COMMAND
            args = [*args[1:], "--help"]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if TABLE.keys().isdisjoint(args):
                raise
            what = f"no option {error.option_name!r} of lod itself"
            said = f"{what}; options of a command go after its name"
            raise click.NoSuchOption(error.option_name, said, ctx=ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_command(ctx, args, TABLE, _hint_on)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run like the installed `lod`: with its messages and exit codes."""
        from lodcli.shell.failures import run

        sys.exit(run(self, sys.argv[1:] if args is None else args))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The same width in all groups.
        longest = max(map(len, TABLE))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), TABLE[name][1]) for name in names])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from lodcli.kernels.platform.environment import VARIABLES

        with formatter.section("Environment (lod env shows values)"):
            formatter.write_dl([(name, one.meaning) for name, one in VARIABLES.items()])


def _hint_on(name: str) -> str:
    """Return a hint on a name that is no command, or ""."""
    from lodcli.kernels.ops.registry import OPS
    from lodcli.shell.remedies import ELSEWHERE

    if name in OPS:
        return f"did you mean lod apply {name}?"
    hint = "did you mean --version?" if name == "version" else ELSEWHERE.get(name, "")
    if not hint and os.path.isfile(name):
        return f"a command goes before the file, as in lod inspect {quote(name)}"
    return hint


def _restore_help(command: click.Command) -> None:
    """Set the help of a command, and of those of a group, where python -OO removed docstrings."""
    if sys.flags.optimize < 2:
        return
    from lodcli.kernels.platform.docstrings import docstring

    for one in getattr(command, "commands", {}).values():
        _restore_help(one)
    if command.callback is not None and not command.help:
        command.help = docstring(command.callback)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from lodcli.commands.about.versions import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@messages.quiet
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions of lod, Python and HDF5, and the GPU.",
)
def group() -> None:
    """Inspect, check, slice, convert and compute on ragged tensors (nested sequences).

    \b
    Examples:
      lod convert articles.txt articles.lod.h5
      lod inspect articles.lod.h5
      lod slice articles.lod.h5 2,0 | lod inspect -

    FILE::NAME selects one tensor of a file; without it, commands on one tensor take the only one,
    or the one called data. A file to read may be a URL; - is standard input or output. Data goes
    to standard output, everything else to standard error. lod help COMMAND shows the options of a
    command, as lod COMMAND --help does.

    \b
    Completion: eval "$(lod completion bash)"
    Exit codes: 0 done, 1 data invalid, 2 usage, 3 input or output failed,
      4 not supported, 128 + N ended by signal N, 141 closed pipe.
    """
