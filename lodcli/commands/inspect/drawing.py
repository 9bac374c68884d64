"""Drawings of ragged tensors, as in the design documents: one mark for each row.

3           1  2
3   2  4    1  2  3
||| || |||| |  || |||
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.printable import columns, printable

CUT = ".."
ROW, IMAGE, ASCII_IMAGE = "|", "口", "#"
# Maximum numbers of items shown, tried in turn until enough outermost items fit.
_MOST_ITEMS = (24, 16, 12, 8, 6, 4, 3, 2, 1)
_ENOUGH = 3
_NARROWEST_GROUP = 2
_PREVIEWED = 64
_PREVIEW_BYTES = 256
_ESCAPED = {"\\": "\\\\", '"': '\\"'}


@dataclass(frozen=True)
class _Block:
    """Part of a drawing: one line for each level it spans, the rows last.

    Attributes:
        lines: none wider than `width`.
        width: in columns.
    """

    lines: tuple[str, ...]
    width: int


def draw(
    lod: LoD, rows: int, row_shape: Sequence[int] = (), *, width: int = 80, unicode: bool = True
) -> list[str]:
    """Return a drawing of the first items: a line of counts per level, and a line of rows.

    Each count is above the first of its items. `..` replaces items that are left out, in
    their line. An empty sequence is a 0 above a blank.

    Args:
        lod: any index, of any size; only its first offsets are read.
        row_shape: shape of a row; images, rows of two and more dimensions, are drawn 口.
        width: of the widest line, in columns.
        unicode: whether 口 can be shown; it is two columns wide.

    Returns:
        The lines; [] if there is nothing to draw.

    >>> print("\\n".join(draw(LoD.from_lengths([[3, 1, 2]], ["word"]), 6)))
    word  3   1 2
          ||| | ||
    """
    mark = ROW if len(row_shape) < 2 else IMAGE if unicode else ASCII_IMAGE
    count = lod.count(0) if lod.n_levels else rows
    if not count:
        return []
    labels = [printable(name or "") for name in lod.names]
    margin = max(map(columns, labels), default=0)
    margin += 2 if margin else 0
    room = max(width - margin, columns(mark) + len(CUT))
    if not lod.n_levels:
        return [_marks(rows, mark, room // columns(mark), room).lines[0]]
    lines = _fitted(lod, mark, room).lines
    margins = [label + " " * (margin - columns(label)) for label in (*labels, "")]
    drawn = [(left + line).rstrip() for left, line in zip(margins, lines, strict=True)]
    while not drawn[-1]:  # only empty sequences above
        drawn.pop()
    return drawn


def preview(tensor: LoDTensor, *, width: int = 80) -> str | None:
    """Return the first finest sequences as quoted text, if they are text.

    Control characters, bidirectional marks and quotes are escaped, so that a file cannot
    control the terminal.

    Args:
        tensor: any; the first rows of a large one are enough.
        width: of the line, in columns.

    Returns:
        One line; None unless the rows are single bytes whose first finest sequences are
        UTF-8 text.

    >>> preview(LoDTensor(np.frombuffer(b"Hi\\x1b[2J", np.uint8), [[2, 4]]))
    >>> preview(LoDTensor(np.frombuffer(b"Hi you\\n", np.uint8), [[2, 5]]))
    '"Hi" " you\\\\n"'
    """
    if tensor.dtype != np.uint8 or tensor.row_shape or not tensor.lod.n_levels:
        return None
    if not tensor.rows:
        return None
    offsets = tensor.lod.levels[-1][: _PREVIEWED + 1].tolist()
    more = len(offsets) <= tensor.lod.count(-1)
    shown: list[str] = []
    room = width - len(f" {CUT}")
    for item, (start, stop) in enumerate(itertools.pairwise(offsets)):
        if tensor.nulls.is_null(tensor.lod.n_levels - 1, item):
            shown.append("null")
            room -= len("null ")
            continue
        text = _text(tensor.values[start : min(stop, start + _PREVIEW_BYTES)].tobytes())
        if text is None:
            return None
        # Once the line is full, the rest is only checked to be text.
        if room > 0:
            quoted = _quoted(text, room, cut=stop - start > _PREVIEW_BYTES, first=not shown)
            shown += [quoted] if quoted else []
            more = more or not quoted
            room = room - columns(quoted) - 1 if quoted else 0
        else:
            more = True
    return " ".join([*shown, CUT] if more else shown)


# -- layout ------------------------------------------------------------------------


def _fitted(lod: LoD, mark: str, room: int) -> _Block:
    """Return the drawing with as many items of each sequence as leave room for the next."""
    best = None
    for most in (room, *_MOST_ITEMS):
        blocks = _outermost(lod, mark, most, room)
        drawn = _joined(blocks, lod.count(0))
        fits = drawn.width <= room
        if fits and (best is None or len(blocks) > len(best[0])):
            best = (blocks, drawn)
        if fits and len(blocks) >= min(lod.count(0), _ENOUGH):
            break
    if best is not None:
        return best[1]
    # Not even one item fits: draw it and cut the lines.
    return _Block(
        tuple(
            line if columns(line) <= room else _clipped(line, room - len(CUT)) + CUT
            for line in drawn.lines
        ),
        room,
    )


def _outermost(lod: LoD, mark: str, most: int, room: int) -> list[_Block]:
    """Return as many of the outermost items as fit, at least one."""
    blocks: list[_Block] = []
    used, count = 0, lod.count(0)
    for item in range(count):
        block = _item(lod, 0, item, mark, most, room)
        used += block.width + 1
        # Unless it is the last item, there must be room for `..`.
        limit = room + 1 if item == count - 1 else room - len(CUT)
        if blocks and used > limit:
            break
        blocks.append(block)
    return blocks


def _item(lod: LoD, level: int, item: int, mark: str, most: int, room: int) -> _Block:
    """Return sequence `item` of `level`: its count above its items."""
    start, stop = (int(n) for n in lod.levels[level][item : item + 2])
    count = stop - start
    if level == lod.n_levels - 1:
        below = _marks(count, mark, most, room)
        narrowest = 0
    else:
        blocks: list[_Block] = []
        used = 0
        for inner in range(start, min(stop, start + most)):
            blocks.append(_item(lod, level + 1, inner, mark, most, room))
            used += blocks[-1].width + 1
            if used > room:
                break  # too wide already, which the caller detects
        depth = lod.n_levels - level
        below = _joined(blocks, count) if count else _Block(("",) * depth, 0)
        narrowest = _NARROWEST_GROUP
    shown = str(count)
    width = max(len(shown), below.width, narrowest)
    return _Block((shown, *below.lines), width)


def _marks(count: int, mark: str, most: int, room: int) -> _Block:
    """Return a line of `count` rows, cut after `most` of them."""
    if count <= most:
        return _Block((mark * count,), count * columns(mark))
    fit = max(1, min(most, (room - len(CUT)) // columns(mark)))
    return _Block((mark * fit + CUT,), fit * columns(mark) + len(CUT))


def _joined(blocks: Sequence[_Block], count: int) -> _Block:
    """Return blocks side by side, followed by `..` if there are more."""
    lines = [""] * len(blocks[0].lines)
    width = -1
    for block in blocks:
        width += 1
        lines = [line + " " * (width - columns(line)) for line in lines]
        lines = [line + part for line, part in zip(lines, block.lines, strict=True)]
        width += block.width
    if len(blocks) < count:
        lines[0] += " " * (width + 1 - columns(lines[0])) + CUT
        width += 1 + len(CUT)
    return _Block(tuple(lines), width)


# -- text --------------------------------------------------------------------------


def _clipped(text: str, width: int) -> str:
    """Return the beginning of `text` that fits."""
    while columns(text) > width and text:
        text = text[: min(len(text) - 1, max(width, 0))]
    return text


def _text(raw: bytes) -> str | None:
    """Return bytes as text; None if they are not text. The last character may be cut off."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return None
    strange = sum(not char.isprintable() and char not in "\t\n\r" for char in text)
    # Text may have a few control characters; many of them mean binary data.
    return text if strange * 10 <= len(text) else None


def _quoted(text: str, room: int, *, cut: bool, first: bool) -> str:
    """Return text in quotes; if it does not fit, "", or a part of it if it is the first."""
    escaped = [printable(_ESCAPED.get(char, char)) for char in text]
    quoted = '"' + "".join(escaped) + '"' + CUT * cut
    if columns(quoted) <= room:
        return quoted
    if not first:
        return ""
    left, kept = room - len('""') - len(CUT), 0
    while kept < len(escaped) and left >= columns(escaped[kept]):
        left -= columns(escaped[kept])
        kept += 1
    return '"' + "".join(escaped[:kept]) + '"' + CUT
