"""The printed table of results."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

Row = Mapping[str, Any]

# Added to the title of a table.
CLOCKS = {"wall": "", "processor": ", processor time"}


def report_text(report: Mapping[str, Any], *, colour: bool, width: int) -> str:
    """Return a table for each op and case: lod first, then the peers, the fastest first."""
    from rich.console import Console

    tables = [_table(key, list(rows)) for key, rows in groupby(report["results"], key=_group)]
    text = io.StringIO()
    console = Console(file=text, force_terminal=colour, no_color=not colour, width=1000)
    # Figures are not truncated: on a terminal narrower than a table, lines wrap.
    console.width = max([width, *(console.measure(table).maximum for table in tables)])
    for table in tables:
        console.print(table, highlight=False)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    return "\n".join([*lines, *notes(report)])


def notes(report: Mapping[str, Any]) -> list[str]:
    """Return notes on the figures: the machine, and which peers are missing and why."""
    machine, versions = report["machine"], report["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [f"{machine['cpu']}, {machine['usable_cores']} cores; {named}"]
    for place, limits in report.get("limits", {}).items():
        rates = ", ".join(
            f"{name} {rate_text(rate, 'FLOP' if name[0] in 'fg' else 'B')}"
            for name, rate in limits.items()
        )
        lines.append(f"limits, {_by(place)}: {rates}")
    lines += [_chosen_way(row) for row in report["results"] if row["ours"] and not row["label"]]
    lines = [line for line in lines if line]
    lines += [f"missing: {name}: {why}" for name, why in report.get("missing", {}).items()]
    for task, skipped in report.get("skipped", {}).items():
        lines += [f"{task}: without {name}: {why}" for name, why in skipped.items()]
    return lines


def _chosen_way(row: Row) -> str:
    """Return how a GPU runs an RNN, the estimated time for this choice, and the measured time."""
    parameters = row.get("parameters", {})
    if "way" not in parameters:
        return ""
    estimated = time_text(float(parameters["estimated_seconds"]))
    return (
        f"{row['op']} {row['case']}: {parameters['way']}; "
        f"estimated {estimated}, measured {time_text(row['median'])}"
    )


def _group(row: Row) -> tuple[str, int]:
    return str(row["command"]).removesuffix(f" threads={row['threads']}").removesuffix(
        f" {row['library']} {row['label']}".rstrip()
    ), int(row["threads"])


def _by(place: str) -> str:
    """Return a number of threads, or a device, in words."""
    return f"{place} thread{'s' * (place != '1')}" if place.isdigit() else place


def _table(key: tuple[str, int], rows: Sequence[Row]) -> Any:
    from rich import box
    from rich.table import Table

    title, threads = key
    on_gpu = rows[0].get("device", "cpu") != "cpu"
    table = Table(
        title=title if on_gpu else f"{title}, {_by(str(threads))}{CLOCKS[rows[0]['clock']]}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for name in ("min", "median", "iqr", "rate", "of limit", "peer / lod"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    ours = [row for row in rows if row["ours"]]
    peers = sorted((row for row in rows if not row["ours"]), key=lambda row: float(row["median"]))
    for row in [*ours, *peers]:
        table.add_row(*cells(row), style="bold" if row["ours"] else "")
    return table


def cells(row: Row) -> list[str]:
    """Return the texts of a row: candidate, min, median, iqr, rate, fraction, ratio, remarks."""
    fraction, ratio = row["fraction_of_limit"], row["ratio_to_best_peer"]
    return [
        f"{row['library']} {row['label']}".strip(),
        time_text(row["min"]),
        time_text(row["median"]),
        time_text(row["iqr"]),
        rate_text(row["rate"], row["unit"]),
        "" if fraction is None else f"{fraction:.0%} {row['limit']}",
        "" if ratio is None else f"{ratio:.2f}x",
        remarks(row),
    ]


def remarks(row: Row) -> str:
    """Return remarks on what makes a figure less reliable."""
    found = []
    if row["noisy"]:
        found.append("noisy")
    if row["dropped"]:
        found.append(f"{row['dropped']} of {row['dropped'] + row['samples']} dropped")
    return ", ".join(found)


def time_text(seconds: float) -> str:
    """Return a time with a unit, such as "3.41 ms".

    >>> time_text(0.00341), time_text(2.5), time_text(4e-7)
    ('3.41 ms', '2.50 s', '0.400 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        value = seconds * scale
        if value >= 1 or unit == "us":
            digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {unit}"
    raise AssertionError("microseconds are the last unit")


def rate_text(rate: float, unit: str) -> str:
    """Return a rate with a unit, such as "75.2 GB/s"."""
    return f"{rate / 1e9:.3g} G{unit}/s"
