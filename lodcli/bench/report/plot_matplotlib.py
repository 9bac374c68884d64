"""Plots of a sweep to a file, with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib

from lodcli.bench.report.fit import Curve

matplotlib.use("Agg")
from matplotlib.figure import Figure


def picture(swept: str, curves: Sequence[Curve], kind: str) -> bytes:
    """Return an SVG or PNG with one panel per op.

    Args:
        swept: the name of the horizontal axis.
        kind: "svg" or "png".
    """
    ops = list(dict.fromkeys(curve.op for curve in curves))
    figure = Figure(figsize=(7.0, 4.2 * len(ops)), layout="constrained")
    for number, op in enumerate(ops):
        axes = figure.add_subplot(len(ops), 1, number + 1)
        for curve in curves:
            if curve.op == op:
                ours = curve.name.startswith("lod")
                axes.plot(
                    curve.values,
                    curve.seconds,
                    marker="o",
                    markersize=3,
                    linewidth=2.0 if ours else 1.0,
                    label=curve.label,
                )
        if min(v for curve in curves for v in curve.values) > 0:
            axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(op, loc="left")
        axes.set_xlabel(swept)
        axes.set_ylabel("seconds")
        axes.grid(True, which="major", linewidth=0.3)
        axes.legend(fontsize="small", frameon=False, title="^k: grows as the k-th power")
    drawn = io.BytesIO()
    # Text stays text in an SVG, so that it can be searched.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lod"}):
        figure.savefig(drawn, format=kind, dpi=150)
    return drawn.getvalue()
