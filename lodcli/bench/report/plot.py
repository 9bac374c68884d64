"""Plots of a sweep: on the terminal, or to a file through matplotlib."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from lodcli.bench.report.fit import Curve, curves_of, is_swept
from lodcli.bench.report.text_table import time_text
from lodcli.formats.catalogue.packages import Package
from lodcli.kernels.errors import SelectionError
from lodcli.shell import output

MARKS = "ox+*#@%&=~"
HEIGHT = 16


def require_drawing(path: str, cases: Sequence[str]) -> None:
    """Raise an error before measuring if the picture could not be drawn afterwards.

    Raises:
        SelectionError: another format, or no parameter is swept.
        UnsupportedError: matplotlib is not installed.
    """
    if path != "-":
        _require_matplotlib(path)
    if not any(is_swept(case) for case in cases):
        raise SelectionError("--plot: nothing to draw; measure with --sweep WHAT=N,N,..")


def _require_matplotlib(path: str) -> None:
    if not path.endswith((".svg", ".png")):
        raise SelectionError(f"--plot {path}: expected a name that ends with .svg or .png, or -")
    package = Package("matplotlib", "lodcli[plot]")
    package.require(f"--plot {path}", ", or draw on the terminal with --plot -")


def draw(report: Mapping[str, Any], path: str, *, force: bool) -> None:
    """Draw time against the swept parameter, on logarithmic axes, one picture per op."""
    swept, curves = curves_of(report)
    if path == "-":
        for _, group in groupby(curves, key=lambda curve: curve.op):
            output.text(terminal_plot(swept, list(group), output.width()))
        return
    from lodcli.bench.report.plot_matplotlib import picture
    from lodcli.formats.storage.outputs import Output

    with Output(path, overwrite=force) as kept:
        kept.write(picture(swept, curves, path.rpartition(".")[2]))


def terminal_plot(swept: str, curves: Sequence[Curve], width: int) -> str:
    """Return curves as lines of text, each with a different character."""
    xs = [v for curve in curves for v in curve.values]
    ys = [s for curve in curves for s in curve.seconds]
    left = max(len(time_text(min(ys))), len(time_text(max(ys)))) + 1
    columns = max(width - left - 2, 20)
    canvas = [[" "] * columns for _ in range(HEIGHT)]
    for number, curve in enumerate(curves):
        for x, y in zip(curve.values, curve.seconds, strict=True):
            column = round(_place(x, min(xs), max(xs)) * (columns - 1))
            line = round((1 - _place(y, min(ys), max(ys))) * (HEIGHT - 1))
            canvas[line][column] = MARKS[number % len(MARKS)]
    unicode = output.shows_unicode(sys.stdout)
    bar, corner, floor = ("│", "└", "─") if unicode else ("|", "+", "-")
    labels = {0: time_text(max(ys)), HEIGHT - 1: time_text(min(ys))}
    lines = [
        f"{labels.get(n, ''):>{left}} {bar}{''.join(row).rstrip()}" for n, row in enumerate(canvas)
    ]
    ends = f"{min(xs):g}", f"{max(xs):g}"
    gap = max(columns - sum(map(len, ends)), 1)
    return "\n".join(
        [
            f"{curves[0].op}: time against {swept}, both logarithmic; ^k: grows as {swept}**k",
            *lines,
            f"{'':>{left}} {corner}{floor * columns}",
            f"{'':>{left}}  {ends[0]}{' ' * gap}{ends[1]}",
            *(f"  {MARKS[n % len(MARKS)]} {curve.label}" for n, curve in enumerate(curves)),
            "",
        ]
    )


def _place(value: float, low: float, high: float) -> float:
    """Return the position of a value between two others, 0 to 1, on a logarithmic scale."""
    if low <= 0 or low == high:
        return 0.0 if low == high else (value - low) / (high - low)
    return math.log(value / low) / math.log(high / low)
