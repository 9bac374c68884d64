"""The tables of the page: all measurements of lod, each with the best peer's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lodcli.bench.report.fit import Curve, is_swept
from lodcli.bench.report.results import is_disturbed
from lodcli.bench.report.text_table import CLOCKS, rate_text, time_text
from tests.benchmarks.targets import LINEAR_OPS, SWEEPS
from tests.benchmarks.verdicts import Row, device_of, roofline_of, sweep_of

TITLES = {
    "kernels": "Sequence ops",
    "rnn": "RNNs",
    "linear": "Linear cells",
    "convert": "Conversions",
    "io": "Files",
    "slice": "Single sequences from files",
}


def details(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table for each benchmark, device and number of threads."""
    for bench, title in TITLES.items():
        chosen = [row for row in rows if row["bench"] == bench]
        if bench == "kernels":
            chosen = [row for row in chosen if not is_swept(row["case"])]
        for where in dict.fromkeys(map(_where, chosen)):
            yield f"## {title}, {where}"
            yield ""
            yield from _table([row for row in chosen if _where(row) == where])
            yield ""


def _where(row: Row) -> str:
    """Return where a row was measured, and what its times are."""
    if device_of(row) != "cpu":
        return "on a GPU"
    threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
    return f"{threads}{CLOCKS[row.get('clock', 'wall')]}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    columns = ("work", "case", "lod", "min", "median", "iqr", "rate", "of limit")
    yield f"| {' | '.join((*columns, 'best peer', 'its median', '/ ours'))} |"
    yield f"|{'---|' * (len(columns) + 3)}"
    for row in rows:
        if not row["ours"]:
            continue
        peer = peer_of(row, rows)
        ratio = row["ratio_to_best_peer"]
        padding = row["parameters"].get("padding_ratio")
        case = row["case"] if padding is None else f"{row['case']} (padding {float(padding):.2f})"
        weak = is_disturbed(row) or (peer is not None and is_disturbed(peer))
        cells = [
            *(row["op"], case, row["label"] or "plain"),
            *(time_text(row["min"]), time_text(row["median"]), time_text(row["iqr"])),
            rate_text(row["rate"], row["unit"]),
            roofline_of(row),
            row["best_peer"] or "",
            "" if peer is None else time_text(peer["median"]),
            ("" if ratio is None else f"{ratio:.2f}") + " (disturbed)" * weak,
        ]
        yield f"| {' | '.join(cells)} |"


def peer_of(ours: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row of the best peer of a row of ours."""
    same = ("bench", "op", "case", "threads")
    rows = [row for row in rows if device_of(row) == device_of(ours)]
    for row in rows:
        name = f"{row['library']} {row['label']}".strip()
        if name == ours["best_peer"] and all(row[key] == ours[key] for key in same):
            return row
    return None


def costs(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how the time a byte depends on the number of rows, of sequences, and on the skew."""
    found = [(op, swept, sweep_of(op, swept, rows)) for swept in SWEEPS for op in LINEAR_OPS]
    if not any(each for _, _, each in found):
        return
    yield "## Cost against size"
    yield ""
    yield (
        "Time for each byte that must be moved, in picoseconds, at each value of the varied "
        "parameter. `1` sequence holds all rows; a skew of 0 means equal lengths. The exponent is "
        "that of the power law in the number of rows that fits the times best: 1 is linear."
    )
    yield ""
    yield "| work | varied | time a byte, ps | exponent |"
    yield "|---|---|---|---|"
    for op, swept, each in found:
        if not each:
            continue
        values = [float(str(row["case"]).partition("=")[2]) for row in each]
        cells = [
            f"{value:g}: {1e12 * row['median'] / row['useful']:.0f}" + "*" * is_disturbed(row)
            for value, row in zip(values, each, strict=True)
        ]
        power = Curve(op, "lod", values, [row["median"] for row in each]).exponent
        shown = f"{power:.2f}" if swept == "rows" and power is not None else ""
        yield f"| {op} | {swept} | {', '.join(cells)} | {shown} |"
    yield ""
    yield "`*`: most samples were disturbed."
    yield ""


def startup_table(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the time of whole commands, and the share of a file that they read."""
    yield "## Start-up, and partial reading"
    yield ""
    yield (
        f"Whole commands and peers, interleaved, median of {report['runs']} pairs with the range "
        "of the pairwise ratios. Files: containers of sequences of 80 rows of 128 float32, "
        f"uncompressed, in memory; {report['machine']}, {report['cores']} cores; "
        f"Python {report['python']}, NumPy {report['numpy']}, h5py {report['h5py']}, "
        f"HDF5 {report['hdf5']}."
    )
    yield ""
    yield "| command / peer | ours ms | peer ms | ratio (min to max) |"
    yield "|---|---|---|---|"
    for row in report["rows"]:
        yield (
            f"| {row['name']} | {row['ours_ms']} | {row['peer_ms']} | "
            f"{row['ratio']} ({row['ratio_min']} to {row['ratio_max']}) |"
        )
    reads = report["bytes_read"]
    yield ""
    yield (
        f"Bytes read from the large file: inspect {reads['inspect']:,}, slice {reads['slice']:,}; "
        f"its index has {reads['index']:,}, the sequence {reads['sequence']:,}. A slice reads the "
        "header, the index and the one or two blocks of 256 KiB that contain the sequence, because "
        "each block has one checksum; the size of the file does not matter."
    )
    yield ""


def growth_table(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the time and the memory of every command, by the number of rows."""
    cells: dict[str, dict[int, str]] = {}
    for row in report["rows"]:
        text = f"{row['seconds']:.2f} s, {row['peak_bytes'] / 2**20:,.0f}"
        cells.setdefault(row["command"], {})[row["rows"]] = text
    machine = report["machine"]
    counts = sorted({row["rows"] for row in report["rows"]})
    yield "## Commands against size"
    yield ""
    yield (
        "Each command by itself, on files of one float32 a row in sequences of 50 on average: the "
        "least time of three runs (one above 5 s), start included, and the most memory that was "
        f"resident, in MiB; {machine['cpu']}, {machine['usable_cores']} cores."
    )
    yield ""
    yield f"| command | {' | '.join(f'{count:,} rows' for count in counts)} |"
    yield "|---|" + "---|" * len(counts)
    for command, each in cells.items():
        yield f"| `{command}` | {' | '.join(each.get(count, '') for count in counts)} |"
    yield ""
