"""The pictures of docs/benchmarks.md, drawn by matplotlib from its reports.

Each holds the figures that it shows as its description, so that a test detects an outdated one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from lodcli.bench.report.fit import Curve, curves_of
from tests.benchmarks.targets import targets
from tests.benchmarks.verdicts import Row, ratio_of

SCALING, GROWTH = "scaling", "growth"
PICTURES = {
    "ratios": "How many times as fast as the best peer: each dot is an op and a case, on a "
    "logarithmic axis",
    SCALING: "Time against the number of rows, lod and its peers, for three ops",
    GROWTH: "Time and memory of every command against the number of rows",
}
# bench, heading, and what its cases are.
_PANELS = (
    ("kernels", "sequence ops"),
    ("rnn", "RNNs"),
    ("convert", "conversions"),
)
_COLOURS = ("#1b6ca8", "#d95f02", "#1b9e77", "#7570b3")

Reports = Mapping[str, Mapping[str, Any]]


def ratios(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the best peer's time over ours by benchmark, op and case, on the CPU."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for target in targets():
        if target.device != "cpu" or target.ratio is None or target.peer == "json":
            continue
        ratio = ratio_of(target, rows)
        if ratio is not None:
            ops = found.setdefault(target.bench, {})
            ops.setdefault(target.op, {})[target.case] = round((ratio.low * ratio.high) ** 0.5, 3)
    return found


def scaling(reports: Reports) -> list[Curve]:
    """Return a curve for each op and library, its best way; none if they were not measured."""
    curves = curves_of(reports[SCALING])[1] if SCALING in reports else []
    best: dict[tuple[str, str], Curve] = {}
    for curve in curves:
        key = curve.op, curve.name.split()[0].rstrip(",")
        if key not in best or curve.seconds[-1] < best[key].seconds[-1]:
            best[key] = replace(curve, name=key[1])
    return list(best.values())


def growth(reports: Reports) -> dict[str, dict[str, list[Row]]]:
    """Return what growth.py measured, by heading and command."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in reports.get(GROWTH, {}).get("rows", []):
        found.setdefault(row["group"], {}).setdefault(row["command"], []).append(row)
    return found


def _growth_figures(reports: Reports) -> list[tuple[str, int, float, int]]:
    rows = reports.get(GROWTH, {}).get("rows", [])
    return [(one["command"], one["rows"], one["seconds"], one["peak_bytes"]) for one in rows]


def described(reports: Reports, rows: Sequence[Row]) -> dict[str, str]:
    """Return what each picture that can be drawn shows, in figures."""
    curves = [(c.op, c.name, list(c.values), list(c.seconds)) for c in scaling(reports)]
    shown = {"ratios": ratios(rows), SCALING: curves, GROWTH: _growth_figures(reports)}
    return {name: json.dumps(what) for name, what in shown.items() if what}


def draw(reports: Reports, rows: Sequence[Row], folder: Path) -> None:
    """Write the pictures that changed into a folder. Needs matplotlib if one did."""
    changed = {
        name: figures
        for name, figures in described(reports, rows).items()
        if escape(figures) not in _text(folder / f"{name}.svg")
    }
    if not changed:
        return
    import matplotlib

    matplotlib.use("Agg")
    makers: dict[str, Callable[[], Any]] = {
        "ratios": lambda: _dots(ratios(rows)),
        SCALING: lambda: _curves(scaling(reports)),
        GROWTH: lambda: _growth(growth(reports)),
    }
    for name, description in changed.items():
        drawn = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lod"}):
            metadata = {"Date": None, "Description": description}
            makers[name]().savefig(drawn, format="svg", metadata=metadata)
        text = "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())
        (folder / f"{name}.svg").write_text(text + "\n")


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _dots(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    panels = [(title, found[bench]) for bench, title in _PANELS if bench in found]
    heights = [len(ops) + 2.0 for _, ops in panels]
    figure = Figure(figsize=(8.0, 0.26 * sum(heights)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, (title, ops) in zip(grid[:, 0], panels, strict=True):
        cases = list(dict.fromkeys(case for each in ops.values() for case in each))
        for number, case in enumerate(cases):
            places = [place for place, each in enumerate(ops.values()) if case in each]
            values = [each[case] for each in ops.values() if case in each]
            axes.plot(values, places, "o", color=_COLOURS[number % 4], label=case, alpha=0.85)
        axes.axvline(1.0, color="black", linewidth=1.0)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(ops)), ops)
        axes.set_ylim(len(ops) - 0.5, -0.5)
        axes.grid(True, axis="x", linewidth=0.3)
        axes.set_title(f"{title}: the best peer's time over ours", loc="left", fontsize="medium")
        if len(cases) > 1:
            axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _curves(curves: Sequence[Curve]) -> Any:
    from matplotlib.figure import Figure

    ops = list(dict.fromkeys(curve.op for curve in curves))
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    names = list(dict.fromkeys(curve.name for curve in curves))
    for axes, op in zip(figure.subplots(1, len(ops), squeeze=False)[0], ops, strict=True):
        for curve in curves:
            if curve.op == op:
                axes.plot(
                    *(curve.values, curve.seconds),
                    color=f"C{names.index(curve.name)}",
                    linewidth=2.5 if curve.name == "lod" else 1.0,
                    label=curve.name,
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(op, loc="left", fontsize="medium")
        axes.set_xlabel("rows")
        axes.grid(True, linewidth=0.3)
        axes.legend(fontsize="small", frameon=False)
    figure.axes[0].set_ylabel("seconds")
    return figure


def _growth(found: Mapping[str, Mapping[str, Sequence[Row]]]) -> Any:
    """Draw a line of panels for each heading: time on the left, memory on the right."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = Figure(figsize=(9.0, 2.6 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), 2, squeeze=False, sharex=True, sharey="col")
    for (time, memory), (group, commands) in zip(grid, found.items(), strict=True):
        for command, rows in commands.items():
            counts = [row["rows"] for row in rows]
            label = command.split(" -o ")[0]
            time.plot(counts, [row["seconds"] for row in rows], "o-", markersize=3, label=label)
            peaks = [row["peak_bytes"] / 2**20 for row in rows]
            memory.plot(counts, peaks, "o-", markersize=3, label=label)
        time.set_title(f"{group}: seconds", loc="left", fontsize="medium")
        memory.set_title("peak memory, MiB", loc="left", fontsize="medium")
        memory.legend(fontsize="x-small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    for axes in grid.flat:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(True, linewidth=0.3)
    for axes in grid[-1]:
        axes.set_xlabel("rows")
    return figure


def shown(folder: Path) -> Iterator[str]:
    """Yield the lines of the page that show the pictures that are there."""
    for name, what in PICTURES.items():
        if (folder / f"{name}.svg").exists():
            yield f"![{what}](benchmarks/{name}.svg)"
            yield ""
