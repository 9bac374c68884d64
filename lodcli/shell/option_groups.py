"""Groups of options in help, in man pages and on the site: a command's own options first."""

from __future__ import annotations

import click

OWN = "Options"
_TITLES = {
    flag: title
    for title, flags in {
        "Output": "--output --write --html --to --compress --force --strict",
        "Input": "--from --memory --max-bytes --isolate --skip-unsupported --nulls --separator "
        "--encoding --text-columns",
        "Messages": "--json --quiet --verbose --color --help",
    }.items()
    for flag in flags.split()
}


def grouped(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the options of a command with their help, by the title of their group.

    A command that reads no file has one group.
    """
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    several = any("--from" in option.opts for option in options)
    groups: dict[str, list[tuple[str, str]]] = {OWN: [], **{one: [] for one in _TITLES.values()}}
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            title = next((_TITLES[flag] for flag in option.opts if flag in _TITLES), OWN)
            groups[title if several else OWN].append(record)
    return {title: records for title, records in groups.items() if records}
