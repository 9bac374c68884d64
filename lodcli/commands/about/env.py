"""`lod env`: the environment variables that lod reads."""

from __future__ import annotations

import click

from lodcli.shell import options, output


@click.command()
@options.as_json
@options.quiet
def command(as_json: bool) -> None:
    """Print the environment variables that lod reads: values, defaults and meanings.

    \b
    Examples:
      lod env
      lod env --json
    """
    from lodcli.kernels.platform.environment import VARIABLES, settings

    found: list[dict[str, str | None]] = [
        {"name": name, "value": value, **variable._asdict()}
        for listed, variable in VARIABLES.items()
        for name, value in settings(listed).items()
    ]
    if as_json:
        output.as_json({"variables": found})
        return
    rows = [[one[key] or "" for key in ("name", "value", "default", "meaning")] for one in found]
    output.text(output.table(["variable", "value", "default", "meaning"], rows))
