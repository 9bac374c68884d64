"""Tensors as text and as HTML: sequences in [], rows of several values in ()."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.display import table_html
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.marks import NO_MARKS, Marks
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls

# Of more items than _MOST, only the first _HEAD and the last _TAIL are shown.
_MOST, _HEAD, _TAIL = 8, 4, 2
_WIDTH = 88
_HTML_ITEMS = 12
# Items of deeper levels are not shown: files hold 64 levels, Python about 1000 nested calls.
_MOST_LEVELS = 64
# Number of bytes shown of a longer text.
_MOST_BYTES = 40


def as_text(data: Array, lod: LoD, marks: Marks = NO_MARKS, nulls: Nulls = NO_NULLS) -> str:
    """Return the text of `repr`: shape, dtype, values; also lengths if not all fits in a line."""
    shape = " x ".join(str(extent) for extent in data.shape)
    count = lod.count(0) if lod.n_levels else data.shape[0]
    items = _items(data, lod, 0, 0, count, marks, nulls)
    what = marks if marks.kind else data.dtype
    whole = f"[{', '.join(items)}]"
    names = f", names={list(lod.names)}" if any(lod.names) else ""
    if ".." not in whole and len(whole) <= _WIDTH:
        return f"LoDTensor({shape} {what}, {whole}{names})"
    lengths = f", {lod!r}" if lod.n_levels else ""
    listed = whole if len(whole) <= _WIDTH else f"[{(',' + chr(10) + ' ' * 11).join(items)}]"
    return f"LoDTensor({shape} {what}{lengths},\n          {listed})"


def as_html(data: Array, lod: LoD, marks: Marks = NO_MARKS, nulls: Nulls = NO_NULLS) -> str:
    """Return a table of the outermost items: number, rows, and the sequences themselves."""
    shape = " x ".join(str(extent) for extent in data.shape)
    levels = ", ".join(
        f"{html.escape(name or f'level {level}')}: {lod.count(level)}"
        for level, name in enumerate(lod.names)
    )
    head = f"<b>LoDTensor</b> {shape} {html.escape(str(marks if marks.kind else data.dtype))}"
    head += f"; {levels}" if levels else ""
    count = lod.count(0) if lod.n_levels else data.shape[0]
    shown = _shown(0, count, _HTML_ITEMS, _HTML_ITEMS - 3, 3)
    bounds = lod.absolute(0) if lod.n_levels else np.arange(count + 1)
    lines: list[tuple[object, ...]] = []
    for item in shown:
        if item is None:
            lines.append(("..", "", ""))
        else:
            rows = bounds[item + 1] - bounds[item]
            lines.append((item, rows, item_text(data, lod, item, marks, nulls)))
    return table_html(head, ("item", "rows", "values"), lines)


def item_text(data: Array, lod: LoD, item: int, marks: Marks, nulls: Nulls) -> str:
    """Return an outermost item in one line, the middle of long sequences left out."""
    return _items(data, lod, 0, item, item + 1, marks, nulls)[0]


def _items(
    data: Array, lod: LoD, level: int, start: int, stop: int, marks: Marks, nulls: Nulls
) -> list[str]:
    """Return the text of each item that is shown of those from start to stop of a level."""
    found = []
    for item in _shown(start, stop, _MOST, _HEAD, _TAIL):
        if item is None:
            found.append("..")
        elif nulls.is_null(level, item):
            found.append("None")
        elif level == lod.n_levels:
            found.append(_row(data[item], marks))
        else:
            low, high = lod.levels[level][item : item + 2].tolist()
            if level == _MOST_LEVELS:
                found.append("[..]")
            elif marks.values and level == lod.n_levels - 1:
                found.append(_quoted(data[low : min(high, low + _MOST_BYTES)], high - low, marks))
            else:
                below = _items(data, lod, level + 1, low, high, marks, nulls)
                found.append(f"[{', '.join(below)}]")
    return found


def _shown(start: int, stop: int, most: int, head: int, tail: int) -> list[int | None]:
    if stop - start <= most:
        return list(range(start, stop))
    return [*range(start, start + head), None, *range(stop - tail, stop)]


def _quoted(first: Array, size: int, marks: Marks) -> str:
    if is_on_device(first):
        first = first.get()  # type: ignore[attr-defined]
    raw = first.tobytes()
    # The cut may be within a character.
    shown = repr(raw.decode(errors="ignore") if marks.values == "text" else raw)
    return shown if size <= _MOST_BYTES else f"{shown}.."


def _row(row: Any, marks: Marks) -> str:
    if is_on_device(row):
        row = row.get()  # type: ignore[attr-defined]
    if np.ndim(row) == 0:
        return _value(row) if marks.unit is None else texts(np.array([row]), marks.unit)[0]
    places = _shown(0, len(row), _MOST, _HEAD, _TAIL)
    return f"({', '.join('..' if place is None else _row(row[place], marks) for place in places)})"


def _value(value: Any) -> str:
    kind = np.asarray(value).dtype.kind
    if kind == "c":
        return f"{complex(value):.4g}"
    return str(value) if kind in "biu" else f"{float(value):.4g}"
