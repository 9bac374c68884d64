"""`lod verify`: read everything, check everything."""

from __future__ import annotations

from typing import Any

import click

from lodcli import failures, options, output
from lodcli.formats.schema import Schema
from lodcli.opened import share_of, size_of
from lodcli.printable import printable
from lodcli.references import Reference


@click.command(cls=options.Command)
@options.sources
@options.as_json
@options.quiet
@click.pass_context
def command(ctx: click.Context, sources: list[Reference], as_json: bool) -> None:
    """Read every byte of the files and check all that can be checked.

    Every file is tried. The exit code is 0 if all are whole, 1 if one is not; 3 if the
    only failures are files that cannot be read.

    \b
    Examples:
      lod verify articles.lod.h5 vowels.lod.h5
      lod verify --json articles.lod.h5
      lod slice articles.lod.h5 2 | lod verify -
    """
    results, codes = [], []
    for source in sources:
        try:
            result, code = _verified(source), 0
        except Exception as error:
            message, code = failures.explained(error)
            result = {"file": source.path, "ok": False, "error": message, "exit_code": code}
            failures.report(error, ctx.command_path)
        results.append(result)
        codes.append(code)
        if not as_json and not (result["ok"] and output.is_quiet()):
            output.text(_line(result))
    if as_json:
        output.as_json({"files": results, "failed": sum(code != 0 for code in codes)})
    # Damage outweighs what could not be looked at.
    ctx.exit(failures.INVALID if failures.INVALID in codes else max(codes))


def _verified(source: Reference) -> dict[str, Any]:
    """Read a whole file and return what it holds."""
    rows = size_bytes = 0
    with source.open() as opened:
        schema = opened.schema
        for batch in output.progressing(
            opened.batches(), size_of, share_of(schema, opened.read_share)
        ):
            more_rows, more_bytes = size_of(batch)
            rows, size_bytes = rows + more_rows, size_bytes + more_bytes
        return {
            "file": source.path,
            "ok": True,
            "format": opened.format_name,
            "tensors": len(schema),
            "rows": rows,
            "levels": _depth(schema),
            "bytes": size_bytes,
        }


def _depth(schema: Schema) -> int:
    return max((len(spec.levels) for spec in schema), default=0)


def _line(result: dict[str, Any]) -> str:
    name = printable(result["file"])
    if not result["ok"]:
        return f"{name}: FAILED"
    counts = [(result["tensors"], "tensor"), (result["rows"], "row"), (result["levels"], "level")]
    return f"{name}: ok ({', '.join(output.plural(n, what) for n, what in counts)})"
