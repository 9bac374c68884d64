"""Reports for other tools: CSV, Markdown and pytest-benchmark's JSON."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lodcli.bench.measure.samples import far_fence, quartiles
from lodcli.bench.report.text_table import cells, notes

Report = Mapping[str, Any]

CSV_COLUMNS = (
    *("bench", "op", "case", "library", "label", "threads", "ours", "allocates"),
    *("min", "median", "mean", "stddev", "q1", "q3", "iqr", "max", "user", "system"),
    *("samples", "dropped", "noisy", "useful", "unit", "rate"),
    *("limit", "limit_rate", "fraction_of_limit", "best_peer", "ratio_to_best_peer", "digest"),
)


def as_csv(report: Report) -> str:
    """Return one line per result, times in seconds, after a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(report["results"])
    return text.getvalue()


def as_markdown(report: Report) -> str:
    """Return one table of all results, and notes."""
    lines = [
        "| work | threads | by | min | median | iqr | rate | of limit | peer / lod | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["results"]:
        work = " ".join(str(row[key]) for key in ("bench", "op", "case") if row[key])
        shown = [work, str(row["threads"]), *cells(row)]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in shown)} |")
    return "\n".join([*lines, "", *(f"{line}  " for line in notes(report))]) + "\n"


def as_pytest_benchmark(report: Report) -> str:
    """Return the JSON for `pytest-benchmark compare FILE`."""
    return json.dumps(
        {
            "machine_info": _machine_info(report),
            "commit_info": {"id": "unversioned", "dirty": False},
            "benchmarks": [_benchmark(row) for row in report["results"]],
            "datetime": datetime.now(UTC).isoformat(),
            "version": "5.0.0",
        },
        indent=1,
    )


def _machine_info(report: Report) -> dict[str, Any]:
    machine, versions = report["machine"], report["versions"]
    return {
        "node": "",
        "processor": machine["cpu"],
        "machine": machine["machine"],
        "python_version": versions["python"],
        "python_implementation": "CPython",
        "system": machine["system"].split()[0],
        "release": machine["system"].split()[-1],
        "cpu": {"brand_raw": machine["cpu"], "count": machine["cores"]},
    }


def _benchmark(row: Mapping[str, Any]) -> dict[str, Any]:
    name = str(row["command"])
    extra = ("rate", "unit", "fraction_of_limit", "ratio_to_best_peer", "best_peer", "digest")
    return {
        "group": " ".join(str(row[key]) for key in ("bench", "op", "case") if row[key]),
        "name": name,
        "fullname": name,
        "params": row["parameters"],
        "param": None,
        "extra_info": {key: row[key] for key in extra},
        "options": {},
        "stats": _statistics(row["times"]),
    }


def _statistics(times: Sequence[float]) -> dict[str, Any]:
    low, high = quartiles(times)
    mean = statistics.fmean(times)
    deviation = statistics.stdev(times) if len(times) > 1 else 0.0
    beyond = sum(abs(one - mean) > deviation for one in times)
    far = sum(one > far_fence(times) for one in times)
    return {
        "min": min(times),
        "max": max(times),
        "mean": mean,
        "stddev": deviation,
        "rounds": len(times),
        "iterations": 1,
        "median": statistics.median(times),
        "iqr": high - low,
        "q1": low,
        "q3": high,
        "iqr_outliers": far,
        "stddev_outliers": beyond,
        "outliers": f"{beyond};{far}",
        "ld15iqr": min(times),
        "hd15iqr": max(times),
        "ops": 1 / mean,
        "total": sum(times),
        "data": list(times),
    }


EXPORTERS: dict[str, Callable[[Report], str]] = {
    "csv": as_csv,
    "markdown": as_markdown,
    "pytest-benchmark": as_pytest_benchmark,
}
