"""Write docs/benchmarks.md from the reports in docs/benchmarks/.

    python -m tests.benchmarks.page            # writes the page
    python -m tests.benchmarks.page --check    # ends with 1 if the page is not what it should be

The reports are made by the commands that the page names, and hold every figure it shows.
Why a target is missed is said in docs/benchmarks/why.json, by "bench op case".
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lodcli.bench.report import rate_text, time_text
from tests.benchmarks.targets import Target, targets

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
STARTUP = "docs/benchmarks/startup.json"
THREADS = 2

Row = Mapping[str, Any]
Reports = Mapping[str, Mapping[str, Any]]

INTRODUCTION = """# Benchmarks

A figure here is a ratio between candidates that ran in turn on the same machine, so that a
drifting machine disturbs all alike. Absolute times differ from machine to machine; repeat what
matters to you on yours: [benchmarking.md](benchmarking.md) says how `lod bench` measures. This
page is written from the reports in [benchmarks/](benchmarks) by `python -m tests.benchmarks.page`.
"""


def read_reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the reports of a folder by name."""
    paths = sorted(path for path in folder.glob("*.json") if path.name != "why.json")
    return {path.stem: json.loads(path.read_bytes()) for path in paths}


def page(reports: Reports, why: Mapping[str, str]) -> str:
    """Return the whole page."""
    measured = {n: r for n, r in reports.items() if "results" in r}
    rows = [row for report in measured.values() for row in report["results"]]
    lines = [INTRODUCTION, "## The machine", *_machine(measured), *_targets(rows, why)]
    for bench, title in (
        ("kernels", "Sequence ops"),
        ("rnn", "RNNs"),
        ("convert", "Conversions"),
        ("io", "Files"),
        ("slice", "Single sequences out of files"),
        ("padding", "Padding or not"),
        ("offsets", "Offsets or lengths"),
        ("sorting", "Sorted by length or not"),
        ("levels", "Upper levels: nested offsets, absolute ones, sums"),
    ):
        chosen = [row for row in rows if row["bench"] == bench]
        if chosen:
            lines += [f"## {title}", "", *_table(chosen), ""]
    if "startup" in reports:
        lines += _startup(reports["startup"])
    return "\n".join([*lines, *_commands(measured)]).rstrip() + "\n"


def _machine(reports: Reports) -> Iterator[str]:
    yield ""
    machines = {json.dumps(report["machine"], sort_keys=True) for report in reports.values()}
    for text in sorted(machines):
        one = json.loads(text)
        memory = one["memory_bytes"] / 2**30
        yield f"{one['cpu']}, {one['usable_cores']} cores, {memory:.0f} GiB, {one['system']}."
    versions: dict[str, str] = {}
    for report in reports.values():
        versions.update(report["versions"])
    yield ", ".join(f"{name} {number}" for name, number in versions.items()) + "."
    yield ""
    for name in ("read", "write", "copy", "fma", "gemm numpy", "gemm torch"):
        rates = [
            r["limits"][str(THREADS)][name]
            for r in reports.values()
            if name in r["limits"].get(str(THREADS), {})
        ]
        if rates:
            unit = "FLOP" if name[0] in "fg" else "B"
            lowest, highest = rate_text(min(rates), unit), rate_text(max(rates), unit)
            yield f"- {name}: {lowest} to {highest} with {THREADS} threads, of {len(rates)} runs"
    yield ""
    missing = {name: why for report in reports.values() for name, why in report["missing"].items()}
    for name, reason in missing.items():
        if name not in versions:
            yield f"Not measured: {name} ({reason})."
    yield ""


def _targets(rows: Sequence[Row], why: Mapping[str, str]) -> Iterator[str]:
    results = [(target, *verdict(target, rows)) for target in targets()]
    reached = sum(ok is True for _, ok, _, _ in results)
    there = sum(ok is not None for _, ok, _, _ in results)
    yield "## Targets"
    yield ""
    yield (
        f"With {THREADS} threads, results preallocated where `out=` allows it. {reached} of "
        f"{there} measured targets are reached, {len(results) - there} are not measured. *By* is "
        "what was found over what is asked. The machine was shared: where fewer than three samples "
        "of ours were undisturbed a figure is marked noisy, and proves little either way."
    )
    yield ""
    yield "| work | case | asked | found | reached | by | against | |"
    yield "|---|---|---|---|---|---|---|---|"
    for target, ok, found, share in results:
        key = f"{target.bench} {target.op} {target.case}"
        word = {True: "yes", False: "**no**", None: "not measured"}[ok]
        by = "" if share is None else f"{share:.2f}"
        row = ours_of(target, rows)
        peer = target.peer or ("" if row is None else row["best_peer"] or "")
        peer = "padded input" if target.padded else peer if target.ratio else row and row["limit"]
        reason = "" if ok else why.get(key, "")
        found += " (noisy)" if row is not None and row["noisy"] else ""
        yield (
            f"| {target.bench} {target.op} | {target.case} | {asked(target)} | {found} | {word} "
            f"| {by} | {peer or ''} | {reason} |"
        )
    yield ""


def asked(target: Target) -> str:
    """Return a target in words."""
    parts = []
    if target.ratio is not None:
        parts.append(f"{target.ratio:.3g}x")
    if target.fraction is not None:
        parts.append(f"{target.fraction:.0%} of limit")
    if target.padded is not None:
        parts.append(f"{target.padded:g} x padding ratio")
    return ", ".join(parts)


def ours_of(target: Target, rows: Sequence[Row]) -> Row | None:
    """Return our measurement that a target is about: into an array made before, if there is."""
    found = [row for row in _of(target, rows) if row["ours"] and "padded" not in row["label"]]
    return min(found, key=lambda row: bool(row["allocates"]), default=None)


def _of(target: Target, rows: Sequence[Row]) -> list[Row]:
    wanted = (target.bench, target.op, target.case, THREADS)
    return [row for row in rows if (row["bench"], row["op"], row["case"], row["threads"]) == wanted]


def verdict(target: Target, rows: Sequence[Row]) -> tuple[bool | None, str, float | None]:
    """Return whether a target is reached (None: not measured), what was found, and its share.

    The share is the smallest of found over asked.
    """
    ours = ours_of(target, rows)
    if ours is None:
        return None, "", None
    shares, words = [], []
    if target.ratio is not None:
        ratio = _ratio(target, ours, rows)
        if ratio is None:
            return None, "", None
        shares.append(ratio / target.ratio)
        words.append(f"{ratio:.2f}x")
    if target.fraction is not None:
        shares.append(ours["fraction_of_limit"] / target.fraction)
        words.append(f"{ours['fraction_of_limit']:.0%}")
    if target.padded is not None:
        padded = next((r for r in _of(target, rows) if r["ours"] and "padded" in r["label"]), None)
        if padded is None:
            return None, "", None
        ratio = padded["median"] / ours["median"] / float(ours["parameters"]["padding_ratio"])
        shares.append(ratio / target.padded)
        words.append(f"{ratio:.2f}")
    share = min(shares)
    return share >= 1, ", ".join(words), share


def _ratio(target: Target, ours: Row, rows: Sequence[Row]) -> float | None:
    if target.peer is None:
        return ours["ratio_to_best_peer"]  # type: ignore[no-any-return]
    peers = [row["median"] for row in _of(target, rows) if row["library"] == target.peer]
    return min(peers) / ours["median"] if peers else None


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one line for each of our ways, with the best peer's time beside it."""
    columns = ("work", "case", "threads", "lod", "min", "median", "iqr", "rate", "of limit")
    yield f"| {' | '.join((*columns, 'best peer', 'its median', '/ ours'))} |"
    yield f"|{'---|' * (len(columns) + 3)}"
    for row in rows:
        if not row["ours"]:
            continue
        peer = next(
            (
                other
                for other in rows
                if f"{other['library']} {other['label']}".strip() == row["best_peer"]
                and all(other[k] == row[k] for k in ("op", "case", "threads"))
            ),
            None,
        )
        fraction, ratio = row["fraction_of_limit"], row["ratio_to_best_peer"]
        padding = row["parameters"].get("padding_ratio")
        case = row["case"] if padding is None else f"{row['case']} (padding {float(padding):.2f})"
        yield " | ".join(
            [
                f"| {row['op']}",
                *(case, str(row["threads"]), row["label"] or "plain"),
                *(time_text(row["min"]), time_text(row["median"]), time_text(row["iqr"])),
                rate_text(row["rate"], row["unit"]) + (" (noisy)" if row["noisy"] else ""),
                "" if fraction is None else f"{fraction:.0%} {row['limit']}",
                row["best_peer"] or "",
                "" if peer is None else time_text(peer["median"]),
                ("" if ratio is None else f"{ratio:.2f}") + " |",
            ]
        )


def _startup(report: Mapping[str, Any]) -> Iterator[str]:
    yield "## Starting up, and reading only what is asked for"
    yield ""
    yield (
        f"Whole commands and named peers in turn, median of {report['runs']} pairs with the range "
        "of the pairwise ratios. Files: containers of sequences of 80 rows of 128 float32, "
        f"uncompressed, in the page cache; {report['machine']}, {report['cores']} cores; "
        f"Python {report['python']}, NumPy {report['numpy']}, h5py {report['h5py']}, "
        f"HDF5 {report['hdf5']}."
    )
    yield ""
    yield "| command / peer | ours ms | peer ms | ratio (min to max) | at most | reached |"
    yield "|---|---|---|---|---|---|"
    for row in report["rows"]:
        word = "yes" if row["ratio"] <= row["limit"] else "**no**"
        yield (
            f"| {row['name']} | {row['ours_ms']} | {row['peer_ms']} | "
            f"{row['ratio']} ({row['ratio_min']} to {row['ratio_max']}) | {row['limit']} | {word} |"
        )
    reads = report["bytes_read"]
    yield ""
    yield (
        f"Bytes read from the large file: inspect {reads['inspect']:,}, slice {reads['slice']:,}; "
        f"its index has {reads['index']:,}, the sequence {reads['sequence']:,}."
    )
    yield ""
    yield (
        "A slice reads the header, the index and the one or two blocks of 256 KiB that the "
        "sequence lies in, because blocks are what checksums cover; the size of the file does not "
        "matter."
    )
    yield ""


def _commands(reports: Reports) -> Iterator[str]:
    yield "## The commands"
    yield ""
    yield "Run in an environment in which `lod` and the peers are installed."
    yield ""
    for report in reports.values():
        yield f"    {report['command']}"
    yield f"    python tests/benchmarks/startup.py --json > {STARTUP}"


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    why_file = FOLDER / "why.json"
    why = json.loads(why_file.read_bytes()) if why_file.exists() else {}
    text = page(read_reports(FOLDER), why)
    if options.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
