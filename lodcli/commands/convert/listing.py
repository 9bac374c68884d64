"""`lod convert --formats`: the list of formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lodcli.shell import options, output

if TYPE_CHECKING:
    from lodcli.formats.catalogue.description import FormatInfo
    from lodcli.reports.converting import FormatEntry


@click.command()
@options.as_json
@options.quiet
def command(as_json: bool) -> None:
    """List all formats with their capabilities and required packages; takes no SOURCE."""
    from lodcli.formats.catalogue.description import all_formats

    found, broken = all_formats()
    for error in broken:
        output.note(str(error))
    if as_json:
        output.as_json({"formats": [entry(one) for one in found]})
        return
    rows = found.cells()
    output.text(output.table([*rows[0]], [[*row.values()] for row in rows]))


def entry(info: FormatInfo) -> FormatEntry:
    """Return a format as --json prints it."""
    fewest, most = info.levels
    return {
        "name": info.name,
        "extensions": [*info.endings],
        "layout": info.layout,
        "read": info.read,
        "write": info.written,
        "streams": info.streams,
        "min_levels": fewest,
        "max_levels": most,
        "dtypes": sorted(info.dtypes),
        "several": info.several,
        "level_names": info.level_names,
        "records": info.records,
        "marks": sorted(info.marks),
        "nulls": info.nulls,
        "needs": [
            {
                "package": one.module,
                "use": one.use or "everything",
                "install": one.install,
                "installed": one.installed,
            }
            for one in info.needs
        ],
        "package": info.package or None,
        "read_options": sorted(info.read_options),
        "write_options": sorted(info.write_options),
    }
