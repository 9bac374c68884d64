"""`lod schema`: the JSON Schemas of the --json output."""

from __future__ import annotations

import json

import click

from lodcli.kernels.suggestions import did_you_mean
from lodcli.reports import table
from lodcli.shell import options, output


def _fitting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the commands that complete a word."""
    from lodcli.commands import TABLE

    return [name for name in [*TABLE, table.ERROR] if name.startswith(incomplete)]


@click.command()
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=_fitting)
@options.as_json
@options.quiet
def command(name: str | None, as_json: bool) -> None:
    """Print the JSON Schema of the --json output of COMMAND; without COMMAND, list all commands.

    \b
    Examples:
      lod schema
      lod schema inspect
      lod schema error > error.schema.json

    With --json, errors and notes are one JSON object per line on standard error; their schema is
    called error.
    """
    from lodcli.commands import TABLE
    from lodcli.reports.schema import json_schema

    names = [*TABLE, table.ERROR]
    if name is None:
        if as_json:
            output.as_json({"commands": names})
        else:
            output.text("\n".join(names))
        return
    if name not in names:
        hint = did_you_mean(name, names, 1) or "lod schema lists all"
        raise click.UsageError(f"no command {name!r}; {hint}")
    kinds = table.of_command(name)
    output.text(json.dumps(json_schema(kinds, f"lod {name} --json"), indent=2))
