"""`lod verify`: read and check whole files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lodcli.formats.remote.urls import is_url
from lodcli.shell import failures, options, output
from lodcli.shell.printable import printable
from lodcli.shell.references import Reference
from lodcli.shell.remedies import owner

NO_CHECKSUMS = "no checksums in this format: structure only"


@click.command(cls=options.Command)
@options.sources
@click.option("--write-sums", is_flag=True, help="Write FILE.sha256 beside each valid file.")
@click.option("--sums", is_flag=True, help="Check against FILE.sha256 as well.")
@click.option(
    "-f", "--force", is_flag=True, help="With --write-sums: replace FILE.sha256 if it exists."
)
@click.option(
    "--quick",
    is_flag=True,
    help="For datasets: check only the sizes and headers of the shards, and read no rows.",
)
@options.jobs("Read the shards of a dataset in N processes.")
@options.as_json
@options.quiet
@click.pass_context
def command(
    ctx: click.Context,
    sources: list[Reference],
    write_sums: bool,
    sums: bool,
    force: bool,
    quick: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Read every byte of the files, and check them as far as their formats allow.

    \b
    Examples:
      lod verify articles.lod.h5 vowels.lod.h5
      lod verify --json articles.lod.h5
      lod verify --write-sums vowels.ts
      lod verify --sums events.jsonl
      lod verify --jobs 2 shards
      lod slice articles.lod.h5 2 | lod verify -

    All files are checked. The exit code is 0 if all are valid, 1 if one is not, and 3 if the
    only failures are files that cannot be read.

    Many formats have no checksums, so a changed number goes unnoticed. --write-sums stores
    SHA-256 sums of a file, a pair or a folder beside it, in the format of sha256sum, and
    --sums compares: each altered, missing or new file gets one line. Each damaged shard of
    a dataset gets one line too.
    """
    if write_sums and sums:
        raise click.UsageError("--write-sums and --sums exclude each other")
    if (write_sums or sums) and any(source.path == "-" for source in sources):
        raise click.UsageError("standard input has no file with sums beside it; name a file")
    if (write_sums or sums) and any(is_url(source.path) for source in sources):
        raise click.UsageError("a URL has no file with sums beside it; name a file")
    if quick and (write_sums or sums):
        raise click.UsageError("--quick and the sums of whole files exclude each other")
    if force and not write_sums:
        raise click.UsageError("--force is for --write-sums")
    if jobs > 1:
        os.getcwd()  # processes start there; if it was deleted, no file is at fault
    results, codes = [], []
    for source in sources:
        result, faults = _tried(
            source, write=write_sums, compare=sums, force=force, quick=quick, jobs=jobs
        )
        told = [failures.explained(fault) for fault in faults]
        for fault in faults:
            more = owner(str(fault), ctx.find_root().command, [str(ctx.info_name)])
            failures.report(fault, ctx.command_path, as_json=as_json, more=more)
        codes += [code for _, code in told]
        if faults:
            messages = [message for message, _ in told]
            result |= {"error": messages[0], "errors": messages}
            result["exit_code"] = _worst([code for _, code in told])
        results.append(result)
        if not as_json and not (result["ok"] and output.is_quiet()):
            output.text(_line(result))
    if as_json:
        failed = sum(not result["ok"] for result in results)
        output.as_json({"files": results, "failed": failed})
    ctx.exit(_worst(codes))


def _tried(
    source: Reference, *, write: bool, compare: bool, force: bool, quick: bool, jobs: int
) -> tuple[dict[str, Any], list[Exception]]:
    """Return the result for a file, and all errors found in it, or in writing its sums."""
    path, faults = Path(source.path), list[Exception]()
    result: dict[str, Any] = {"file": source.file, "ok": True}
    with _collecting(faults):
        if compare:
            from lodcli.formats.storage import sums

            result["sums"] = os.fspath(sums.sidecar_of(path))
            faults += sums.differences(path)
    with _collecting(faults):
        result |= _verified(source, faults, quick=quick, jobs=jobs)
    if faults:
        result = {"file": source.file, "ok": False}
    elif write:
        from lodcli.formats.storage import sums

        with _collecting(faults):
            result["sums"] = os.fspath(sums.write_sums(path, overwrite=force))
    return result, faults


@contextlib.contextmanager
def _collecting(faults: list[Exception]) -> Iterator[None]:
    """Append an exception raised in the block to a list."""
    try:
        yield
    except Exception as error:
        faults.append(error)


def _worst(codes: list[int]) -> int:
    """Return the exit code for several files: damage outranks files that cannot be read."""
    return failures.INVALID if failures.INVALID in codes else max(codes, default=0)


def _verified(
    source: Reference, faults: list[Exception], *, quick: bool, jobs: int
) -> dict[str, Any]:
    """Read a whole file and return a summary of its content.

    Faults of the shards of a dataset are added to `faults`; the first of any other file is raised.
    """
    from lodcli.formats.core.limits import Limits
    from lodcli.kernels.errors import UnsupportedError
    from lodcli.shell.limits import limits
    from lodcli.shell.opened import opened
    from lodcli.shell.progress import progressing_counts

    # A sandbox reads all shards in one process; a tensor of a dataset is read like that of a file.
    if not (source.name or limits() != Limits()) and os.path.isdir(source.path):
        from lodcli.commands.verify.shards import verified_dataset
        from lodcli.formats.dataset.manifest import is_dataset

        if is_dataset(source.path):
            return verified_dataset(source.path, quick=quick, jobs=jobs, faults=faults)
    if quick:
        raise UnsupportedError(
            f"{source.label}: --quick is for folders of datasets, without --isolate and "
            "--max-bytes; leave it out"
        )
    rows = size_bytes = 0
    with opened(source) as file:
        schema = file.schema
        for passed in progressing_counts(file.checked(), schema, file.read_share):
            rows, size_bytes = rows + passed.rows, size_bytes + passed.size_bytes
        checksums = file.checksums()
        return {
            "format": file.format_name,
            "tensors": len(schema),
            "rows": rows,
            "levels": max((len(spec.levels) for spec in schema), default=0),
            "bytes": size_bytes,
            "checksums": checksums or None,
            "checked": checksums or NO_CHECKSUMS,
        }


def _line(result: dict[str, Any]) -> str:
    name = printable(result["file"])
    if not result["ok"]:
        return f"{name}: FAILED"
    counts = [(result["tensors"], "tensor"), (result["rows"], "row"), (result["levels"], "level")]
    held = ", ".join(output.plural(number, what) for number, what in counts)
    checked = result["checked"]
    if result["checksums"]:
        checked = f"checked {checked}"
    if "sums" in result:
        checked += f"; SHA-256 in {printable(result['sums'])}"
    if "error" in result:
        checked += "; no SHA-256 was written"
    return f"{name}: ok ({held}); {checked}"
