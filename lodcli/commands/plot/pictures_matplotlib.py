"""The pictures of `lod plot`, with matplotlib."""

from __future__ import annotations

import html
import io
import warnings
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib.figure import Figure

from lodcli.commands.plot.padding import batch_sizes, padding_shares
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.shell.output import note

# With more columns, lines could not be distinguished.
MOST_LINES = 12
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
</head>
<body>
{svg}
</body>
</html>
"""


def lengths(lod: LoD, level: int | None) -> Figure:
    """Return histograms of lengths, and the padding, side by side for each level."""
    from lodcli.kernels.tensor.plot import plot

    figure: Figure = plot(lod, level)[0, 0].figure
    return figure


def padding(found: Offsets, name: str) -> Figure:
    """Return the share of padding by the size of a batch: in the given order, and sorted."""
    sizes = batch_sizes(found.size)
    figure, axes = _one()
    for label, order in (("in this order", found), ("sorted by length", np.sort(found))):
        axes.plot(sizes, 100 * padding_shares(order, sizes), marker="o", markersize=3, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("sequences in a batch")
    axes.set_ylabel("padding, % of the rows")
    axes.set_title(f"{name}: {found.size:,} sequences", loc="left")
    axes.legend(frameon=False)
    return figure


def values(rows: Array, title: str) -> Figure:
    """Return a line for each column of the rows; of many columns, a heat map."""
    if rows.shape[1] > MOST_LINES:
        return heat_map(rows, title)
    figure, axes = _one()
    for column, line in enumerate(rows.T):
        # A line needs two points: a value without finite neighbours is drawn as a marker.
        finite = np.pad(np.isfinite(line), 1)
        alone = np.flatnonzero(finite[1:-1] & ~finite[:-2] & ~finite[2:]).tolist()
        marks = {"marker": ".", "markevery": alone} if alone else {}
        axes.plot(line, linewidth=1.0, label=f"{column}", **marks)
    _number_rows(axes, len(rows))
    axes.set_title(title, loc="left", parse_math=False)
    if rows.shape[1] > 1:
        axes.legend(frameon=False, fontsize="small", title="column", ncols=2)
    return figure


def heat_map(rows: Array, title: str) -> Figure:
    """Return a heat map of rows, such as the states of an RNN: steps from left to right."""
    figure, axes = _one()
    most = float(np.abs(rows[np.isfinite(rows)]).max(initial=0)) or 1.0
    signed = bool((rows < 0).any())
    shown = axes.imshow(
        rows.T,
        aspect="auto",
        interpolation="nearest",
        origin="lower",
        cmap="RdBu_r" if signed else "viridis",
        vmin=-most if signed else None,
        vmax=most if signed else None,
    )
    figure.colorbar(shown, ax=axes)
    _number_rows(axes, len(rows))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("column")
    axes.set_title(title, loc="left", parse_math=False)
    return figure


def _number_rows(axes: Any, count: int) -> None:
    """Show all rows from left to right, nulls at the ends included, with whole numbers."""
    axes.set_xlim(-0.5, count - 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("row")


def _one() -> tuple[Figure, Any]:
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    return figure, figure.add_subplot()


def encoded(figure: Figure, kind: str, title: str) -> bytes:
    """Return a picture as the bytes of a file.

    Args:
        kind: "svg", "png", or "html": a page that holds the SVG.
        title: of the page.
    """
    drawn = io.BytesIO()
    # Text stays text in an SVG, and equal data gives equal files.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lod"}):
        extra: dict[str, Any] = {"dpi": 150} if kind == "png" else {"metadata": {"Date": None}}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            figure.savefig(drawn, format="svg" if kind == "html" else kind, **extra)
    if kind == "png" and any("missing from font" in str(one.message) for one in told):
        note("note: the font lacks characters of the title; an .svg or .html file has them")
    if kind != "html":
        return drawn.getvalue()
    svg = drawn.getvalue().decode()
    return _PAGE.format(title=html.escape(title), svg=svg[svg.index("<svg") :]).encode()
