"""Runs `lod` over all files of folders, and compares what it reads with other libraries.

    python -m tests.corpora FOLDER..

Prints a table of outcomes by format, what was called damaged though another library reads it,
and every fault: a traceback, a signal, a hang, too much memory, other values. The exit code is 1
if there was one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from lodcli.formats.core import registry as table
from tests.corpora.files import Report, examined

OUTCOMES = ("read", "partly read", "refused", "unknown format")


def main(args: list[str]) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpora", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--all", action="store_true", help="files of any name, not only of formats")
    parser.add_argument("--report", type=Path, help="write what came of each file, as JSON lines")
    parser.add_argument("--messages", action="store_true", help="print each message, and how often")
    chosen = parser.parse_args(args)
    _load()
    paths = sorted({path for folder in chosen.folders for path in files(folder, every=chosen.all)})
    reports = []
    with ExitStack() as stack:
        kept = stack.enter_context(chosen.report.open("w")) if chosen.report else None
        for report in examined(paths, chosen.jobs):
            reports.append(report)
            if kept is not None:  # a run over thousands of files may be interrupted
                print(json.dumps(dataclasses.asdict(report)), file=kept, flush=True)
    reports.sort(key=lambda report: report.path)
    show(reports)
    if chosen.messages:
        counted = Counter(message for report in reports for message in report.messages)
        for message, count in counted.most_common():
            print(f"{count:5} {message}")
    return int(any(report.faults for report in reports))


def files(folder: Path, *, every: bool = False) -> Iterator[Path]:
    """Yield the files below a folder, or those with the extension of a format."""
    for path in [folder] if folder.is_file() else folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        known = table.of_name(path) is not None or path.suffix.lower() in OTHERS
        if path.is_file() and not hidden and path.stat().st_size and (every or known):
            yield path


# Extensions that other projects use for files of lod's formats.
OTHERS = frozenset(
    {".stream", ".arrow_file", ".he5", ".hdf", ".nc", ".nc4", ".json", ".npy", ".mat"}
)


def _load() -> None:
    """Import what commands import, once for all of them."""
    import h5py  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    import lodcli.commands.convert.command
    import lodcli.commands.inspect.command
    import lodcli.commands.slice
    import lodcli.commands.verify.command
    import lodcli.formats.arrow.sizes.ipc
    import lodcli.formats.arrow.sizes.parquet
    import lodcli.formats.arrow.source  # noqa: F401


def show(reports: list[Report]) -> None:
    """Print the table, the disputed files and the faults."""
    names = sorted({report.format_name for report in reports})
    print(f"{'format':14}" + "".join(f"{outcome:>16}" for outcome in (*OUTCOMES, "compared")))
    for name in (*names, "all"):
        of = [report for report in reports if name in (report.format_name, "all")]
        counts = Counter(report.outcome for report in of)
        compared = sum(report.compared for report in of)
        print(
            f"{name:14}"
            + "".join(f"{n:>16,}" for n in (*map(counts.get, OUTCOMES, [0] * 4), compared))
        )
    runs = sum(report.runs for report in reports)
    print(f"{len(reports):,} files, {runs:,} commands")
    for report in reports:
        if report.disputed:
            print(f"disputed: {report.path}: {report.disputed}")
    for report in reports:
        for fault in report.faults:
            print(f"FAULT: {report.path}: {fault}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
